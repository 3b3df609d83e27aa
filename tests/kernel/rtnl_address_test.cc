// Addresses and routes, read back with ip(8).
#include <linux/rtnetlink.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "netlink/core/netns.h"
#include "netlink/rtnl/rtnl.h"
#include "tests/support/world.h"

namespace nomad_bridge::test {
namespace {

Cidr At(const std::string& text) {
  return Cidr::Parse(text).value();
}

// A container with a link 'd0'.
class RtnlAddress : public World {
 protected:
  RtnlAddress() {
    AddLink("d0");
    link_ = net_.FindLink("d0").value();
  }

  // A link that is up and has a carrier, but none of the kernel's own link-local addresses.
  void AddLink(const std::string& name) {
    const std::string peer = name + "-peer";
    container().Must({"ip", "link", "add", name, "type", "veth", "peer", "name", peer});
    for (const std::string& end : {name, peer}) {
      container().Must({"ip", "link", "set", end, "addrgenmode", "none", "up"});
    }
  }

  // What ip says of the addresses of 'd0'.
  [[nodiscard]] json Shown() {
    return container().Json({"ip", "-j", "address", "show", "dev", "d0"}).at(0).at("addr_info");
  }

  [[nodiscard]] json ShownRoutes(const std::string& family,
                                 const std::string& destination,
                                 const std::string& table = "main") {
    return container().Json(
        {"ip", "-j", "-N", family, "route", "show", destination, "table", table});
  }

  rtnl::Socket net_ = rtnl::Socket::In(netlink::Netns::Open(container().path()));
  rtnl::Link link_;
};

// The kernel says when a list has changed while it was read: addresses may be missing in it.
TEST_F(RtnlAddress, AreAllListedWhileOthersComeAndGo) {
  std::string come;  // for ip -batch; the first ones go and come again
  std::string go;
  std::set<Ip> kept;
  for (int i = 0; i < 4000; ++i) {
    const std::string address = Format("10.{}.{}.{}", i < 200 ? 1 : 2, i / 200, i % 200 + 1);
    come += Format("address add {}/32 dev d0\n", address);
    if (i < 200) {
      go += Format("address del {}/32 dev d0\naddress add {}/32 dev d0\n", address, address);
    } else {
      kept.insert(Ip::Parse(address).value());
    }
  }
  container().Must({"ip", "-batch", "-"}, come);
  Process changing = Process::Start({.argv = {"ip", "-batch", "-"},
                                     .input = Cat(go, go, go, go, go),
                                     .in_child = [this] { container().Enter(); }});
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(std::ranges::includes(net_.AllAddresses(), kept)) << "list " << i;
  }
  EXPECT_EQ(changing.Wait().exit_code, 0);
}

class RtnlRoute : public RtnlAddress {};

TEST_F(RtnlAddress, HasNoBroadcastAddressInASlash31Or32) {
  net_.EnsureAddress(link_, At("192.0.2.4/31"));
  net_.EnsureAddress(link_, At("192.0.2.9/32"));

  for (const json& address : Shown()) {
    EXPECT_FALSE(address.contains("broadcast")) << address;
  }
}

// A worker of the kernel makes both later: see AwaitLocal(). The test reads files, because starting
// a program would take so long that both would exist by then.
TEST_F(RtnlAddress, HasItsLocalRouteAndItsGroupAtOnceInIpv6) {
  for (int i = 0x10; i < 0x60; ++i) {
    const std::string last = Cat("00", "0123456789abcdef"[i / 16], "0123456789abcdef"[i % 16]);
    net_.EnsureAddress(link_, At(Cat("2001:db8::", last, "/64")));

    container().Do([&] {
      EXPECT_THAT(FindFile("/proc/net/ipv6_route").value_or(""),
                  HasSubstr(Cat("20010db800000000000000000000", last, " 80 ")));
      EXPECT_THAT(FindFile("/proc/net/igmp6").value_or(""),
                  HasSubstr(Cat("ff0200000000000000000001ff00", last)));
    });
    ASSERT_FALSE(HasFailure());
  }
}

// The kernel sends the event of a route to every listener before a lookup finds the route.
TEST_F(RtnlAddress, IsAwaitedInIpv6WhereManyProgramsListenToRoutes) {
  constexpr int kListeners = 3000;
  rlimit files{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &files), 0);
  files.rlim_cur = files.rlim_max;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &files), 0);
  std::vector<UniqueFd> listeners(kListeners);
  netlink::InNetns(netlink::Netns::Open(container().path()), [&] {
    const sockaddr_nl address{.nl_family = AF_NETLINK, .nl_groups = RTMGRP_IPV6_ROUTE};
    const auto* const generic = static_cast<const sockaddr*>(static_cast<const void*>(&address));
    for (UniqueFd& listener : listeners) {
      listener = UniqueFd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
      ASSERT_EQ(::bind(listener.get(), generic, sizeof(address)), 0);
    }
  });
  for (int i = 1; i <= 100; ++i) {
    net_.EnsureAddress(link_, At(Cat("fe80::", i, "/64")));
  }
}

TEST_F(RtnlAddress, MayBeEnsuredTwice) {
  for (const char* address : {"172.26.64.2/20", "2001:db8::5/64"}) {
    net_.EnsureAddress(link_, At(address));
    net_.EnsureAddress(link_, At(address));
  }

  EXPECT_EQ(Shown().size(), 2U);
}

TEST_F(RtnlAddress, IsListedAsIpListsIt) {
  container().Must({"ip", "address", "add", "10.1.0.5/24", "dev", "d0"});
  container().Must({"ip", "address", "add", "10.2.0.5", "peer", "10.2.0.6/30", "dev", "d0"});
  container().Must({"ip", "address", "add", "2001:db8::7/64", "dev", "d0"});
  AddLink("other");
  container().Must({"ip", "address", "add", "10.9.9.9/24", "dev", "other"});

  EXPECT_THAT(net_.Addresses(link_),
              UnorderedElementsAre(At("10.1.0.5/24"), At("10.2.0.5/30"), At("2001:db8::7/64")));
}

TEST_F(RtnlAddress, ListMayBeEmpty) {
  EXPECT_TRUE(net_.Addresses(link_).empty());
}

TEST_F(RtnlAddress, ListOfADeletedLinkIsAnError) {
  container().Must({"ip", "link", "delete", "d0"});

  const Error error = Caught([&] { return net_.Addresses(link_); });

  EXPECT_EQ(error.msg(), "cannot list the addresses of 'd0'");
  EXPECT_THAT(error.details(), HasSubstr("(ENODEV)"));
}

TEST_F(RtnlAddress, MayBeRemovedTwice) {
  for (const char* address : {"172.26.64.2/20", "2001:db8::5/64"}) {
    net_.EnsureAddress(link_, At(address));
    net_.EnsureAddressGone(link_, At(address));
    net_.EnsureAddressGone(link_, At(address));
  }

  EXPECT_TRUE(Shown().empty());
}

TEST_F(RtnlAddress, IsRefusedWithTheReasonWhereIpv6IsOff) {
  container().SetSysctl("net/ipv6/conf/d0/disable_ipv6", "1");

  EXPECT_THAT(Caught([&] { net_.EnsureAddress(link_, At("2001:db8::5/64")); }),
              IsError(Code::kKernel,
                      "cannot add 2001:db8::5/64 to 'd0'",
                      HasSubstr("IPv6 is disabled on this device (EACCES)")));
}

TEST_F(RtnlAddress, IsRefusedIfItExistsWithAnotherPrefixLength) {
  container().Must({"ip", "address", "add", "2001:db8::5/80", "dev", "d0"});

  const Error error = Caught([&] { net_.EnsureAddress(link_, At("2001:db8::5/64")); });

  EXPECT_EQ(error.msg(),
            "cannot add 2001:db8::5/64 to 'd0': it is there with another prefix length");
}

TEST_F(RtnlRoute, ScopeFollowsTheGatewayUnlessGiven) {
  net_.EnsureAddress(link_, At("10.0.0.2/24"));

  net_.EnsureRoute(link_, {.destination = At("192.0.2.0/24")});
  net_.EnsureRoute(link_, {.destination = At("198.51.100.0/24"), .gateway = Ip::Parse("10.0.0.1")});
  net_.EnsureRoute(link_, {.destination = At("203.0.113.0/24"), .scope = 200});

  EXPECT_EQ(ShownRoutes("-4", "192.0.2.0/24").at(0).at("scope"), "253");
  EXPECT_FALSE(ShownRoutes("-4", "198.51.100.0/24").at(0).contains("scope"))
      << "universe is not printed";
  EXPECT_EQ(ShownRoutes("-4", "203.0.113.0/24").at(0).at("scope"), "200");
}

TEST_F(RtnlRoute, LeavesAForeignRouteToTheSameDestination) {
  net_.EnsureAddress(link_, At("10.0.0.2/24"));
  container().Must({"ip", "route", "add", "192.0.2.0/24", "via", "10.0.0.9"});

  net_.EnsureRoute(link_, {.destination = At("192.0.2.0/24"), .gateway = Ip::Parse("10.0.0.1")});

  std::vector<std::string> gateways;
  for (const json& route : ShownRoutes("-4", "192.0.2.0/24")) {
    gateways.push_back(route.at("gateway"));
  }
  EXPECT_THAT(gateways, UnorderedElementsAre("10.0.0.1", "10.0.0.9"));
}

TEST_F(RtnlRoute, IsAnErrorInTheKernelsWordsIfItsGatewayIsUnreachable) {
  const Route route{.destination = At("192.0.2.0/24"), .gateway = Ip::Parse("10.0.0.1")};

  EXPECT_THAT(Caught([&] { net_.EnsureRoute(link_, route); }),
              IsError(Code::kKernel,
                      "cannot add a route to 192.0.2.0/24 via 10.0.0.1 out of 'd0'",
                      "Nexthop has invalid gateway (ENETUNREACH)"));
}

TEST_F(RtnlRoute, IsReadBackAsItWasMadeAndMayBeEnsuredTwice) {
  net_.EnsureAddress(link_, At("10.0.0.2/24"));
  net_.EnsureAddress(link_, At("2001:db8::2/64"));
  const std::vector<Route> made{
      {.destination = At("0.0.0.0/0"), .gateway = Ip::Parse("10.0.0.1"), .table = 254, .scope = 0},
      {.destination = At("192.0.2.0/24"),
       .mtu = 1400,
       .advmss = 1300,
       .priority = 5,
       .table = 1000,
       .scope = 253},
      {.destination = At("::/0"),
       .gateway = Ip::Parse("2001:db8::1"),
       .priority = 9,
       .table = 254,
       .scope = 0},
  };
  for (int i = 0; i < 2; ++i) {
    for (const Route& route : made) {
      net_.EnsureRoute(link_, route);
    }
  }

  const std::vector<Route> routes = net_.Routes(link_);

  for (const Route& route : made) {
    EXPECT_NE(std::find(routes.begin(), routes.end(), route), routes.end()) << route.destination;
  }
  std::vector<Cidr> destinations;
  destinations.reserve(routes.size());
  for (const Route& route : routes) {
    destinations.push_back(route.destination);
  }
  EXPECT_THAT(
      destinations,
      UnorderedElementsAre(
          At("0.0.0.0/0"), At("192.0.2.0/24"), At("::/0"), At("10.0.0.0/24"), At("2001:db8::/64")))
      << "ours and the kernel's own, of every table, but neither local nor broadcast ones";
}

TEST_F(RtnlRoute, IsListedForEachOfItsNextHops) {
  AddLink("e0");
  container().Must({"ip", "address", "add", "10.0.0.2/24", "dev", "d0"});
  container().Must({"ip", "address", "add", "10.1.0.2/24", "dev", "e0"});
  container().Must(
      Words("ip route add 192.0.2.0/24 nexthop via 10.1.0.1 dev e0 nexthop via 10.0.0.1 dev d0"));

  std::vector<Route> found;
  for (const Route& route : net_.Routes(link_)) {
    if (route.destination == At("192.0.2.0/24")) {
      found.push_back(route);
    }
  }

  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found.front().gateway, Ip::Parse("10.0.0.1"));
}

TEST_F(RtnlRoute, IsNotListedForAnotherLink) {
  AddLink("e0");
  container().Must({"ip", "address", "add", "10.1.0.2/24", "dev", "e0"});

  EXPECT_TRUE(net_.Routes(link_).empty());
}

TEST_F(RtnlAddress, IsAwaitedUntilTheDeadlineWhileDuplicatesAreDetected) {
  container().SetSysctl("net/ipv6/conf/d0/accept_dad", "1");
  container().Must(Words("ip link set d0-peer down"));  // without carrier nobody can be asked
  net_.AssignAddress(link_, At("2001:db8::5/64"), true);

  EXPECT_THAT(Caught([&] { net_.AwaitAddresses(link_, FromNow(std::chrono::milliseconds(200))); }),
              IsError(Code::kTryAgain, "address 2001:db8::5/64 of 'd0' did not become usable"));
}

TEST_F(RtnlAddress, IsNotAwaitedWhereNoDuplicatesAreDetected) {
  net_.EnsureAddress(link_, At("2001:db8::5/64"));
  net_.EnsureAddress(link_, At("10.0.0.5/24"));
  net_.AwaitAddresses(link_, FromNow(std::chrono::milliseconds(0)));
}

}  // namespace
}  // namespace nomad_bridge::test
