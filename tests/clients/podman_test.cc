// podman with its CNI backend: its own lists, which it makes for the five names, run on ours.

#include "tests/clients/client_world.h"
#include "tests/clients/podman_settings.h"

namespace nomad_bridge::test {
namespace {

constexpr const char* kConfig = "/run/podman/containers.conf";
constexpr const char* kDefaultBridge = "cni-podman0";

// Its lists name the plugin "tuning", which is not ours.
std::string Settings() {
  return Cat(kPodmanSettings,
             R"(network_backend = "cni"
network_config_dir = "/run/podman/networks"
cni_plugin_dirs = [")",
             kPlugins,
             R"(", ")",
             kReferenceDirectory,
             "\"]\n");
}

class Podman : public ClientWorld {
 protected:
  Podman() { WriteFile(kConfig, Settings()); }

  [[nodiscard]] static Command Invocation(const std::vector<std::string>& arguments) {
    Command command{.argv = {"podman",
                             "--storage-driver=vfs",
                             "--root=/run/podman/root",
                             "--runroot=/run/podman/runroot",
                             "--tmpdir=/run/podman/tmp"},
                    .variables = {{"CONTAINERS_CONF", kConfig},
                                  {"HOME", "/run/podman"},
                                  {"PATH", "/usr/sbin:/usr/bin:/sbin:/bin"}},
                    .inherits_environment = false};
    command.argv.insert(command.argv.end(), arguments.begin(), arguments.end());
    return command;
  }
  static std::string Do(const std::vector<std::string>& arguments) {
    return Must(Invocation(arguments));
  }

  [[nodiscard]] static Command RunCommand(const std::string& name,
                                          const std::vector<std::string>& options) {
    std::vector<std::string> arguments = {
        "run", "--detach", "--stop-signal=KILL", Cat("--name=", name)};
    arguments.insert(arguments.end(), options.begin(), options.end());
    arguments.insert(arguments.end(), {"--rootfs", MakeRoot(name)});
    arguments.insert(arguments.end(), kServe.begin(), kServe.end());
    return Invocation(arguments);
  }
  // A container that serves its name.
  static void Run(const std::string& name, const std::vector<std::string>& options = {}) {
    Must(RunCommand(name, options));
  }
  static void Remove(const std::string& name) { Do({"rm", "--force", "--time=0", name}); }

  // What stays by design is made: the default network's bridge, the table, forwarding.
  void WarmUp() {
    Run("early", {"--publish=7:7"});
    Remove("early");
  }

  // `network.key` of a container, by podman inspect.
  [[nodiscard]] static std::string Inspect(const std::string& container,
                                           const std::string& network,
                                           const std::string& key) {
    const json all = json::parse(Do({"inspect", container}));
    return all.at(0).at("NetworkSettings").at("Networks").at(network).at(key);
  }
  [[nodiscard]] static std::string In(const std::string& container,
                                      const std::vector<std::string>& words) {
    std::vector<std::string> arguments = {"exec", container, "/bin/busybox"};
    arguments.insert(arguments.end(), words.begin(), words.end());
    return Execute(Invocation(arguments)).out;
  }
  [[nodiscard]] static std::string PageFor(const std::string& container,
                                           const std::string& address,
                                           int port) {
    std::vector<std::string> arguments = {"exec", "--interactive", container};
    const std::vector<std::string> program = PageProgram(address, port);
    arguments.insert(arguments.end(), program.begin(), program.end());
    Command command = Invocation(arguments);
    command.input = kPageRequest;
    return PageIn(Execute(command).out);
  }
};

TEST_F(Podman, PublishesAPortAndLeavesNoTrace) {
  WarmUp();
  const Snapshot before = TakeSnapshot();

  Run("web", {"--publish=8080:80", "--publish=127.0.0.1:8081:80"});

  EXPECT_THAT(AliasesOn(kDefaultBridge), AllOf(SizeIs(1), Each(HasSubstr("nomad-bridge"))));
  EXPECT_EQ(AwaitPage(outside(), kHostIp4, 8080), "web");
  EXPECT_EQ(Page(host(), kHostIp4, 8080), "web");
  EXPECT_EQ(Page(host(), "127.0.0.1", 8080), "web");
  EXPECT_EQ(Page(host(), "127.0.0.1", 8081), "web");
  EXPECT_EQ(Page(outside(), kHostIp4, 8081), "") << "published on localhost only";
  Remove("web");
  EXPECT_EQ(Page(outside(), kHostIp4, 8080), "");
  EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
}

TEST_F(Podman, AContainerComesBackWithItsPort) {
  WarmUp();
  const Snapshot before = TakeSnapshot();
  Run("web", {"--publish=8080:80"});
  EXPECT_EQ(AwaitPage(outside(), kHostIp4, 8080), "web");

  Do({"stop", "--time=0", "web"});
  EXPECT_TRUE(Unchanged(before, TakeSnapshot())) << "stopped";
  Do({"start", "web"});
  EXPECT_EQ(AwaitPage(outside(), kHostIp4, 8080), "web");
  Do({"restart", "--time=0", "web"});
  EXPECT_EQ(AwaitPage(outside(), kHostIp4, 8080), "web");

  Remove("web");
  EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
}

TEST_F(Podman, ContainersReachEachOtherAndTheWorld) {
  const Server world = Server::Start(outside(), Protocol::kTcp, "0.0.0.0", 5000, "world");
  Run("one", {"--publish=8080:80"});
  Run("two");
  ASSERT_EQ(AwaitPage(outside(), kHostIp4, 8080), "one");

  const std::string one = Inspect("one", "podman", "IPAddress");
  EXPECT_EQ(PageFor("two", one, 80), "one");
  EXPECT_EQ(PageFor("two", kHostIp4, 8080), "one");
  EXPECT_THAT(In("two", {"timeout", "3", "nc", kOutsideIp4, "5000"}), HasSubstr("world"));
}

TEST_F(Podman, ADualStackNetworkWorksInBothFamilies) {
  const auto make = [] {
    Do({"network", "create", "--ipv6", "--subnet=10.97.0.0/24", "--subnet=fd97::/64", "dual"});
    Run("web", {"--network=dual", "--publish=8080:80"});
  };
  const auto remove = [] {
    Remove("web");
    Do({"network", "rm", "dual"});  // removes the bridge, too
  };
  make();
  remove();
  const Snapshot before = TakeSnapshot();

  make();

  EXPECT_THAT(Inspect("web", "dual", "IPAddress"), StartsWith("10.97.0."));
  EXPECT_THAT(Inspect("web", "dual", "GlobalIPv6Address"), StartsWith("fd97::"));
  EXPECT_EQ(AwaitPage(outside(), kHostIp4, 8080), "web");
  EXPECT_EQ(Page(outside(), kHostIp6, 8080), "web");
  EXPECT_THAT(In("web", {"ping", "-c1", "-W3", kOutsideIp4}), HasSubstr("1 packets received"));
  EXPECT_THAT(In("web", {"ping", "-c1", "-W3", kOutsideIp6}), HasSubstr("1 packets received"));
  remove();
  EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
}

TEST_F(Podman, AnInternalNetworkHasNoWayOut) {
  Do({"network", "create", "--internal", "--subnet=10.98.0.0/24", "inner"});
  Run("one", {"--network=inner"});
  Run("two", {"--network=inner"});

  EXPECT_THAT(In("two", {"ping", "-c1", "-W3", Inspect("one", "inner", "IPAddress")}),
              HasSubstr("1 packets received"));
  EXPECT_THAT(In("one", {"ip", "route"}), Not(HasSubstr("default")));
  EXPECT_THAT(In("one", {"ping", "-c1", "-W1", kOutsideIp4}), Not(HasSubstr("1 packets received")));
}

TEST_F(Podman, ARequestedAddressIsGivenOnce) {
  Do({"network", "create", "--subnet=10.97.0.0/24", "net"});
  Run("one", {"--network=net", "--ip=10.97.0.50", "--mac-address=92:d0:c6:0a:29:33"});
  EXPECT_EQ(Inspect("one", "net", "IPAddress"), "10.97.0.50");
  EXPECT_EQ(Inspect("one", "net", "MacAddress"), "92:d0:c6:0a:29:33");
  EXPECT_THAT(In("one", {"ip", "address", "show", "dev", "eth0"}),
              AllOf(HasSubstr("10.97.0.50/24"), HasSubstr("92:d0:c6:0a:29:33")));
  const Snapshot before = TakeSnapshot();

  EXPECT_THAT(Execute(RunCommand("two", {"--network=net", "--ip=10.97.0.50"})),
              Exits(Ne(0), Err(HasSubstr("10.97.0.50"))));

  EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
  Remove("one");
  Do({"start", "two"});
  EXPECT_EQ(Inspect("two", "net", "IPAddress"), "10.97.0.50");
}

TEST_F(Podman, AContainerMayBeInTwoNetworks) {
  Do({"network", "create", "--subnet=10.97.0.0/24", "left"});
  Do({"network", "create", "--subnet=10.98.0.0/24", "right"});
  Run("early", {"--network=left,right", "--publish=7:7"});
  Remove("early");
  Run("other", {"--network=right"});
  const Snapshot before = TakeSnapshot();

  Run("web", {"--network=left,right", "--publish=8080:80"});

  EXPECT_THAT(Inspect("web", "left", "IPAddress"), StartsWith("10.97.0."));
  const std::string right = Inspect("web", "right", "IPAddress");
  EXPECT_EQ(AwaitPage(outside(), kHostIp4, 8080), "web");
  EXPECT_EQ(PageFor("other", right, 80), "web");
  Do({"network", "disconnect", "left", "web"});
  EXPECT_EQ(PageFor("other", right, 80), "web");
  Do({"network", "connect", "left", "web"});
  EXPECT_EQ(AwaitPage(outside(), kHostIp4, 8080), "web");
  Remove("web");
  EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
}

TEST_F(Podman, APortThatIsTakenIsRefusedAndTheContainerStartsWhenItIsFree) {
  Do({"network", "create", "--subnet=10.97.0.0/24", "net"});
  Run("one", {"--publish=8080:80"});

  // podman itself binds published ports on the host, but only while it starts a container.
  EXPECT_THAT(Execute(RunCommand("two", {"--network=net", "--publish=8080:80"})), Exits(Ne(0)));

  EXPECT_EQ(AwaitPage(outside(), kHostIp4, 8080), "one");
  Remove("one");
  Do({"start", "two"});
  EXPECT_EQ(AwaitPage(outside(), kHostIp4, 8080), "two");
}

TEST_F(Podman, AReloadRepairsAFlush) {
  Run("web", {"--publish=8080:80"});
  EXPECT_EQ(AwaitPage(outside(), kHostIp4, 8080), "web");
  host().Must({"nft", "flush", "ruleset"});

  Do({"network", "reload", "--all"});

  EXPECT_EQ(AwaitPage(outside(), kHostIp4, 8080), "web");
}

}  // namespace
}  // namespace nomad_bridge::test
