// docs/recipes.md, "An IPAM plugin of your own": its commands, and what it says of leaks.
#include <csignal>

#include "tests/plugin/pages_world.h"

namespace nomad_bridge::test {
namespace {

constexpr const char* kPlugin = "/opt/cni/bin/own-ipam";
constexpr const char* kPool = "/run/own-ipam";

class OwnIpam : public TypedPage {
 protected:
  OwnIpam() : TypedPage("docs/recipes.md", "An IPAM plugin of your own") {
    InstallPlugin();
    Type();
  }

  // The pool's address and whose it is.
  [[nodiscard]] static std::map<std::string, std::string> Pool() {
    std::map<std::string, std::string> taken;
    for (const auto& entry : fs::directory_iterator(kPool)) {
      taken.emplace(entry.path().filename(), fs::read_symlink(entry.path()));
    }
    return taken;
  }
  [[nodiscard]] std::string JobsAllocation() {
    const std::string id = Must(InShell("nomad-bridge list -q job=web-own-ipam"));
    return id.substr(0, id.find('\n'));
  }
  [[nodiscard]] Attached Other() { return As("other", container(), "IgnoreUnknown=1"); }
  // The plugin of the page, with a command before it and one behind it.
  static void Wrap(const std::string& before, const std::string& behind) {
    WriteProgram(kPlugin,
                 Cat("#!/bin/sh\n", before, '\n', FindFile(kPlugin).value(), behind, '\n'));
  }

  const Network network_{.list = Example("own-ipam"), .path = "/opt/cni/bin"};
};

TEST_F(OwnIpam, IsAsThePageSays) {
  EXPECT_THAT(Pool(), ElementsAre(std::pair("172.27.16.2", JobsAllocation() + "@eth0")));
  const Outcome seen = Type();

  ExpectAllTyped();
  EXPECT_THAT(seen.out, HasSubstr("172.27.16.2"));
  EXPECT_THAT(seen.out, HasSubstr("-> " + JobsAllocation() + "@eth0"));
  EXPECT_THAT(seen.out, HasSubstr("nothing to take back"));
  Attached other = MustAdd(network_, Other());
  EXPECT_EQ(AddressesIn(other.result), std::vector<std::string>{"172.27.16.3/24"});
  MustCheckIn(network_, other);
  fs::remove("/run/own-ipam/172.27.16.3");
  EXPECT_THAT(CheckIn(network_, other), Fails(100, Msg(HasSubstr("has no address"))));
  MustDelFrom(network_, other);
  MustDelFrom(network_, other);
}

TEST_F(OwnIpam, GetsTheDocumentedEnvironment) {
  // The runtime of the test, as Nomad, sends no CNI_ARGS on DEL.
  Wrap(
      "echo \"$CNI_COMMAND $CNI_CONTAINERID $CNI_IFNAME $CNI_NETNS $CNI_PATH $CNI_ARGS\" "
      "$(nsenter --net=$CNI_NETNS ip -o link show $CNI_IFNAME | grep -o LOWER_UP) "
      "$(nsenter --net=$CNI_NETNS ip -o -4 address show $CNI_IFNAME | wc -l) >>/run/log",
      "");
  Attached other = MustAdd(network_, Other());
  MustDelFrom(network_, other);

  const std::string same = Cat(" other eth0 ", container().path(), " /opt/cni/bin ");
  EXPECT_EQ(
      FindFile("/run/log").value_or(""),
      Cat("ADD", same, "IgnoreUnknown=1 LOWER_UP 0\nDEL", same, "IgnoreUnknown=1 LOWER_UP 1\n"));
}

TEST_F(OwnIpam, ReleasesTheAddressOfAFailedAdd) {
  // An address that is not free: its lease was lost.
  fs::remove("/run/own-ipam/172.27.16.2");
  Attached other = Other();
  EXPECT_THAT(AddTo(network_, other), Fails(102, Msg(HasSubstr("web-own-ipam"))));
  EXPECT_THAT(Pool(), IsEmpty());

  const std::string script = FindFile(kPlugin).value();
  WriteProgram(kPlugin, "#!/bin/sh\n[ $CNI_COMMAND = ADD ] || touch /run/deleted\necho useless\n");
  EXPECT_THAT(AddTo(network_, other), Fails(105));
  EXPECT_TRUE(fs::remove("/run/deleted"));
  WriteProgram(kPlugin, R"(#!/bin/sh
[ $CNI_COMMAND = ADD ] || touch /run/deleted
echo '{ "code": 100, "msg": "the inventory is down" }'
exit 1
)");
  EXPECT_THAT(AddTo(network_, other), Fails(100, Msg("the inventory is down")));
  EXPECT_TRUE(fs::remove("/run/deleted"));
  WriteProgram(kPlugin, script);
}

TEST_F(OwnIpam, ReleasesTheAddressOfAKilledAdd) {
  const std::string script = FindFile(kPlugin).value();
  const auto kill_add = [&] {
    Wrap("", "[ $CNI_COMMAND != ADD ] || sleep 60");
    Process add = Process::Start(EntryCommand("ADD", network_, 0, Other(), nullptr));
    EXPECT_TRUE(Soon([] { return Pool().size() == 2; }));
    ::kill(add.pid(), SIGKILL);
    static_cast<void>(add.Wait());
    WriteProgram(kPlugin, script);
    ASSERT_EQ(Pool().size(), 2U);
  };

  kill_add();
  Must(InShell("nomad-bridge gc"));
  EXPECT_EQ(Pool().size(), 1U);

  kill_add();
  MustAdd(network_, Other());
  EXPECT_EQ(Pool().size(), 2U) << "the killed ADD's was given back before";
}

TEST_F(OwnIpam, ReleasesTheAddressOfAnEndedAllocation) {
  Node& doomed = AddContainer("doomed");
  MustAdd(network_, As("doomed", doomed));
  KillContainer(doomed);
  Must(InShell("nomad-bridge gc"));
  EXPECT_EQ(Pool().size(), 1U);

  // By an ADD that gets its address.
  Node& second = AddContainer("second");
  MustAdd(network_, As("second", second));
  KillContainer(second);
  fs::remove("/run/own-ipam/172.27.16.3");
  const Attached other = MustAdd(network_, Other());
  EXPECT_EQ(AddressOf(other.result), "172.27.16.3");
  EXPECT_EQ(Pool().at("172.27.16.3"), "other@eth0");
  EXPECT_FALSE(fs::exists("/run/nomad-bridge/own-ipam/second@eth0.json"));
}

TEST_F(OwnIpam, IsCalledAgainAfterItsDelHasFailed) {
  const Attached other = MustAdd(network_, Other());
  const std::string script = FindFile(kPlugin).value();
  WriteProgram(kPlugin, "#!/bin/sh\nexit 1\n");
  EXPECT_THAT(DelFrom(network_, other), Fails(104));
  WriteProgram(kPlugin, script);
  EXPECT_EQ(Pool().size(), 2U);

  MustDelFrom(network_, other);

  EXPECT_EQ(Pool().size(), 1U);
}

TEST_F(OwnIpam, ReleasesUnusedAddressesInGc) {
  Network network = network_;
  network.list["cniVersion"] = "1.1.0";
  fs::create_symlink("nobody@eth0", "/run/own-ipam/172.27.16.9");
  MustAdd(network, Other());
  network.list["plugins"][0]["cni.dev/valid-attachments"] = {
      {{"containerID", JobsAllocation()}, {"ifname", "eth0"}}};

  MustRunEntry("GC", network, 0, {}, nullptr);
  MustRunEntry("STATUS", network, 0, {}, nullptr);

  EXPECT_THAT(Pool(), ElementsAre(std::pair("172.27.16.2", JobsAllocation() + "@eth0")));
}

}  // namespace
}  // namespace nomad_bridge::test
