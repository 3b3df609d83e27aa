// IPv6: usable at once where it is asked for, untouched where it is not.
#include "tests/support/mounted.h"
#include "tests/support/refusal.h"
#include "tests/support/world.h"

namespace nomad_bridge::test {
namespace {

class Ipv6 : public World {
 protected:
  // As hosts have it whose administrator wants no IPv6.
  static void SwitchOffIpv6(const Node& node) {
    for (const char* link : {"all", "default"}) {
      node.SetSysctl(Cat("net/ipv6/conf/", link, "/disable_ipv6"), "1");
    }
  }

  // Every sysctl below net/ipv6/conf of the links that are there now.
  std::map<std::string, std::string> Ipv6Sysctls() {
    std::map<std::string, std::string> values;
    for (const std::string& link : host().SysctlDirectory("net/ipv6/conf")) {
      for (const std::string& key : host().SysctlDirectory(Cat("net/ipv6/conf/", link))) {
        const std::string name = Cat("net/ipv6/conf/", link, "/", key);
        // A random secret that cannot be read, or reads differently.
        if (key != "stable_secret") {
          values[name] = host().Sysctl(name);
        }
      }
    }
    return values;
  }

  // The addresses that the kernel still looks for twins of.
  static json TentativeOn(const Node& node, const std::string& name) {
    json tentative = json::array();
    const json link = LinkOn(node, name);
    for (const json& address : link.at("addr_info")) {
      if (address.at("scope") == "global" && address.value("tentative", false)) {
        tentative.push_back(address);
      }
    }
    return tentative;
  }

  // ff00::/8 out of this link.
  [[nodiscard]] static bool HasMulticastRoute(const Node& node, const std::string& link) {
    std::string routes;
    node.Do([&] { routes = FindFile("/proc/net/ipv6_route").value_or(""); });
    return std::ranges::any_of(Lines(routes), [&](const std::string& line) {
      return line.starts_with("ff000000000000000000000000000000 08 ") && line.ends_with(link);
    });
  }

  [[nodiscard]] bool HasTable(const std::string& family, const std::string& name) {
    return host().Run({"nft", "list", "table", family, name}).exit_code == 0;
  }
};

TEST_F(Ipv6, IsReachableAtOnce) {
  Attach(DualStack());

  EXPECT_EQ(TentativeOn(container(), "eth0"), json::array());
  EXPECT_EQ(TentativeOn(host(), "nomad"), json::array());
  EXPECT_TRUE(Ping(container(), "fd00:26::1"));
  EXPECT_TRUE(Ping(host(), "fd00:26::2"));
}

// Opened there, each would make every later opening of a setting on the node slower.
TEST_F(Ipv6, SettingsOfTheContainerAreNotOpenedUnderTheNodesProc) {
  const std::string log = "/run/calls";
  const Command add = PluginCommand("ADD", DualStack().dump(), {});
  ASSERT_THAT(Execute(UnderStrace(add, log, {"-e", "trace=open,openat"})), Exits(0));
  EXPECT_THAT(FindFile(log).value(), HasSubstr("\"sys/net/ipv6/conf/eth0/"));
  EXPECT_THAT(FindFile(log).value(), Not(HasSubstr("/proc/sys/net/ipv6/conf/eth0/")));
}

// As a security module may have it.
TEST_F(Ipv6, SettingsOfTheContainerAreMadeWhereNoProcCanBeMounted) {
  const Command add = PluginCommand("ADD", DualStack().dump(), {});
  ASSERT_THAT(Execute(UnderStrace(add, "/run/calls", {"-e", "inject=fsopen:error=EPERM"})),
              Exits(0));
  EXPECT_EQ(container().Sysctl("net/ipv6/conf/eth0/keep_addr_on_down"), "1");
}

// As in a container that is not privileged, or under systemd's ProtectKernelTunables.
TEST_F(Ipv6, AReadOnlyProcIsNoErrorWhereTrafficCanPass) {
  host().SetSysctl("net/ipv4/conf/all/route_localnet", "1");
  host().SetSysctl("net/ipv6/conf/all/forwarding", "1");
  host().SetSysctl("net/ipv4/ip_forward", "0");
  const Mounted read_only({"--bind", "/proc/sys"}, "/proc/sys");
  const auto remount = [](const std::string& how) {
    Must({.argv = {"mount", "-o", Cat("remount,bind,", how), "/proc/sys"}});
  };
  remount("ro");
  const json config = Publish({Port(8080, 80)}, DualStack());
  const Command add = UnderStrace(
      PluginCommand("ADD", config.dump(), {}), "/run/calls", {"-e", "inject=fsopen:error=EPERM"});
  EXPECT_THAT(Execute(add), Fails(100, Msg("cannot set 'net/ipv4/ip_forward' to '1'")));
  remount("rw");
  host().SetSysctl("net/ipv4/ip_forward", "1");
  remount("ro");
  EXPECT_THAT(Execute(add), Exits(0, Err(HasSubstr("disable_ipv6' to '1': "))));
  Serve(container(), Protocol::kTcp, {"::"}, 80, "page");
  for (const char* const address : {kHostIp4, kHostIp6}) {
    EXPECT_EQ(TcpText(outside(), address, 8080), "page");
  }
  EXPECT_EQ(TcpText(host(), "127.0.0.1", 8080), "page");
}

// Which takes the kernel as long as there are ports.
TEST_F(Ipv6, NewAddressesAreNotAnnounced) {
  Attach(DualStack());
  EXPECT_EQ(container().Sysctl("net/ipv4/conf/eth0/arp_notify"), "0");
  EXPECT_EQ(container().Sysctl("net/ipv6/conf/eth0/ndisc_notify"), "0");
}

TEST_F(Ipv6, RequestedAddressesAreAnnounced) {
  const Node& neighbour = AddContainer("neighbour");
  Attach(DualStack(), As("neighbour", neighbour));
  neighbour.Must(Words("ip neigh replace fd00:26::9 lladdr 02:00:00:00:00:99 dev eth0 nud stale"));
  Attach(DualStack({{"runtimeConfig", {{"ips", {"fd00:26::9"}}}}}));
  EXPECT_TRUE(Soon([&] {
    return neighbour.Must(Words("ip neigh")).find("02:00:00:00:00:99") == std::string::npos;
  })) << neighbour.Must(Words("ip neigh"));
}

// What the kernel makes for them only when it has noticed their carrier: without the route for
// multicast they do not hear who asks for their address. A file, because it is read sooner than a
// program has started.
TEST_F(Ipv6, NeighboursAreHeardAtOnce) {
  constexpr int kTimes = 20;
  for (int i = 0; i < kTimes && !HasFailure(); ++i) {
    const Node& allocation = AddContainer(Cat("container-", i));
    const Variables id = As(allocation.name(), allocation);
    Attach(DualStack(), id);
    EXPECT_TRUE(HasMulticastRoute(allocation, "eth0")) << "after ADD " << i;
    EXPECT_TRUE(HasMulticastRoute(host(), "nomad")) << "after ADD " << i;
    Detach(DualStack(), id);
  }
}

TEST_F(Ipv6, AddressesAskForNoDuplicateDetection) {
  Attach(DualStack());

  for (const auto& [node, name] : {std::pair<Node*, const char*>{&container(), "eth0"},
                                   std::pair<Node*, const char*>{&host(), "nomad"}}) {
    const json link = LinkOn(*node, name);
    for (const json& address : link.at("addr_info")) {
      if (address.at("family") == "inet6" && address.at("scope") == "global") {
        EXPECT_EQ(address.value("nodad", false), true) << name << ": " << address;
      }
    }
  }
}

TEST_F(Ipv6, NetworkNeedsNoIpv4) {
  const json result = Attach(Config(R"({"ipam": {"subnet": "fd00:26::/64"}})"));

  EXPECT_EQ(AddressesIn(result), std::vector<std::string>{"fd00:26::2/64"});
  EXPECT_TRUE(Ping(container(), "fd00:26::1"));
  EXPECT_EQ(host().Sysctl("net/ipv4/ip_forward"), "0");
  EXPECT_EQ(host().Sysctl("net/ipv6/conf/all/forwarding"), "1");
}

TEST_F(Ipv6, ForwardingIsTurnedOnForTheFamiliesInUseOnly) {
  Attach(Config());
  EXPECT_EQ(host().Sysctl("net/ipv4/ip_forward"), "1");
  EXPECT_EQ(host().Sysctl("net/ipv6/conf/all/forwarding"), "0");
  EXPECT_FALSE(HasTable("ip6", "filter"));

  Attach(
      DualStack(
          R"({"name": "both", "bridge": "both", "ipam": {"ranges": [[{"subnet": "10.7.0.0/24"}], [{"subnet": "fd00:27::/64"}]]}})"),
      As("alloc-2", AddContainer("second")));
  EXPECT_EQ(host().Sysctl("net/ipv6/conf/all/forwarding"), "1");
  EXPECT_TRUE(HasTable("ip6", "filter"));
}

TEST_F(Ipv6, AddressStaysIfTheInterfaceGoesDownAndUp) {
  Attach(DualStack());

  container().Must({"ip", "link", "set", "eth0", "down"});
  container().Must({"ip", "link", "set", "eth0", "up"});

  EXPECT_THAT(AddressesOn(container(), "eth0"), Contains("fd00:26::2/64"));
}

// ---- hosts without IPv6

TEST_F(Ipv6, StaysOffOnTheHostForAnIpv4Network) {
  SwitchOffIpv6(host());
  const std::map<std::string, std::string> before = Ipv6Sysctls();

  Attach(Config());

  for (const auto& [name, value] : Ipv6Sysctls()) {
    const auto earlier = before.find(name);
    if (earlier != before.end()) {
      EXPECT_EQ(value, earlier->second) << name;
    } else if (name.ends_with("/disable_ipv6")) {
      EXPECT_EQ(value, "1") << name;
    }
  }
  EXPECT_FALSE(HasTable("ip6", "filter"));
  EXPECT_TRUE(Ping(container(), "172.26.64.1"));
  Detach(Config());
}

TEST_F(Ipv6, IsTurnedOnForTheBridgeIfItIsOffOnTheHost) {
  SwitchOffIpv6(host());

  Attach(DualStack());

  EXPECT_TRUE(Ping(container(), "fd00:26::1"));
  EXPECT_TRUE(Ping(container(), "172.26.64.1"));
  EXPECT_EQ(host().Sysctl("net/ipv6/conf/all/disable_ipv6"), "1");
  EXPECT_EQ(host().Sysctl("net/ipv6/conf/uplink/disable_ipv6"), "1");
}

TEST_F(Ipv6, IsTurnedOnForTheInterfaceIfItIsOffInTheContainer) {
  SwitchOffIpv6(container());

  Attach(DualStack());

  EXPECT_TRUE(Ping(container(), "fd00:26::1"));
}

// As Docker makes its pause containers: all, default and lo, which is up.
TEST_F(Ipv6, WorksWithinTheContainerIfItWasOffThere) {
  SwitchOffIpv6(container());
  container().SetSysctl("net/ipv6/conf/lo/disable_ipv6", "1");
  container().Must({"ip", "link", "set", "lo", "up"});

  Attach(DualStack());

  Serve(container(), Protocol::kTcp, {"::"}, 80, "self");
  EXPECT_EQ(TcpText(container(), "::1", 80), "self");
  EXPECT_EQ(TcpText(container(), "fd00:26::2", 80), "self");
}

TEST_F(Ipv6, MayBeOffInTheContainerOfAnIpv4Network) {
  SwitchOffIpv6(container());

  Attach(Config());

  EXPECT_TRUE(Ping(container(), "172.26.64.1"));
  EXPECT_EQ(container().Sysctl("net/ipv6/conf/eth0/disable_ipv6"), "1");
  EXPECT_EQ(container().Sysctl("net/ipv6/conf/lo/disable_ipv6"), "1");
}

}  // namespace
}  // namespace nomad_bridge::test
