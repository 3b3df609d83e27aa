// The veth pair: names, MACs, MTU, hairpin mode, alias.
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include "tests/support/frames.h"
#include "tests/support/world.h"

namespace nomad_bridge::test {
namespace {

// Hears of every link that appears or changes in a node from now on.
class LinkEvents {
 public:
  explicit LinkEvents(const Node& node) {
    node.Do([&] {
      fd_ = UniqueFd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE));
    });
    sockaddr_nl address{};
    address.nl_family = AF_NETLINK;
    address.nl_groups = RTMGRP_LINK;
    if (::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      throw std::runtime_error("cannot listen to links");
    }
  }

  // The names that those links had.
  [[nodiscard]] std::set<std::string> Names() {
    std::set<std::string> names;
    alignas(nlmsghdr) std::array<char, 65536> buffer;
    ssize_t got = 0;
    while ((got = ::recv(fd_.get(), buffer.data(), buffer.size(), 0)) > 0) {
      auto left = static_cast<unsigned int>(got);
      for (auto* message = reinterpret_cast<nlmsghdr*>(buffer.data()); NLMSG_OK(message, left);
           message = NLMSG_NEXT(message, left)) {
        AddName(message, names);
      }
    }
    return names;
  }

 private:
  static void AddName(nlmsghdr* message, std::set<std::string>& names) {
    auto* link = static_cast<ifinfomsg*>(NLMSG_DATA(message));
    auto left = static_cast<unsigned int>(IFLA_PAYLOAD(message));
    for (rtattr* attribute = IFLA_RTA(link); RTA_OK(attribute, left);
         attribute = RTA_NEXT(attribute, left)) {
      if (attribute->rta_type == IFLA_IFNAME) {
        names.emplace(static_cast<const char*>(RTA_DATA(attribute)));
      }
    }
  }

  UniqueFd fd_;
};

class VethPair : public World {
 protected:
  json ContainerEnd(const std::string& name = "eth0") { return LinkOn(container(), name); }
  json HostEnd(std::size_t number = 0) { return PortsOf("nomad").at(number); }
  std::string ContainerMac() { return ContainerEnd().at("address"); }
};

TEST_F(VethPair, JoinsTheBridgeAndTheContainer) {
  const json result = Attach(Config());
  const json host_end = HostEnd();
  const json container_end = ContainerEnd();

  EXPECT_EQ(At(container_end, "/linkinfo/info_kind"), "veth");
  EXPECT_EQ(host_end.at("num_tx_queues"), 1);
  EXPECT_EQ(host_end.at("link_index"), container_end.at("ifindex"));
  EXPECT_EQ(container_end.at("link_index"), host_end.at("ifindex"));
  EXPECT_EQ(At(result, "/interfaces/1/name"), host_end.at("ifname"));
  EXPECT_EQ(At(result, "/interfaces/2/name"), "eth0");
  EXPECT_EQ(container_end.at("operstate"), "UP");
}

TEST_F(VethPair, IsReadyWhenAddReturns) {
  Attach(Config());

  EXPECT_EQ(HostEnd().at("operstate"), "UP");
  EXPECT_EQ(At(HostEnd(), "/linkinfo/info_slave_data/state"), "forwarding");
  EXPECT_TRUE(Ping(container(), "172.26.64.1"));
}

TEST_F(VethPair, IsCreatedUnderItsFinalName) {
  LinkEvents events(container());

  Attach(Config(R"({"mtu": 1400})"));

  // A link that is renamed or moved in would have had another name, or gone from the host as one.
  EXPECT_EQ(events.Names(), (std::set<std::string>{"lo", "eth0"}));
}

TEST_F(VethPair, HasNoAddressAndNoRouteOnTheHost) {
  Attach(DualStack());
  const std::string veth = HostEnd().at("ifname");

  EXPECT_EQ(Soon([&] { return Ping(container(), "172.26.64.1"); }), true);
  EXPECT_EQ(host().Must(Words("ip -o address show dev " + veth)), "");
  EXPECT_EQ(host().Must(Words("ip -6 route show table all dev " + veth)), "");
}

TEST_F(VethPair, HasTheMtuOfTheConfigAtBothEnds) {
  const json result = Attach(Config(R"({"mtu": 1400})"));

  EXPECT_EQ(ContainerEnd().at("mtu"), 1400);
  EXPECT_EQ(HostEnd().at("mtu"), 1400);
  EXPECT_EQ(LinkOn(host(), "nomad").at("mtu"), 1400);
  EXPECT_EQ(At(result, "/interfaces/1/mtu"), 1400);
  EXPECT_EQ(At(result, "/interfaces/2/mtu"), 1400);
}

TEST_F(VethPair, HasTheMtuOfTheUplinkIfItIsAuto) {
  host().Must(Words("ip link set uplink mtu 1400"));

  const json result = Attach(DualStack({{"mtu", "auto"}}));

  EXPECT_EQ(ContainerEnd().at("mtu"), 1400);
  EXPECT_EQ(HostEnd().at("mtu"), 1400);
  EXPECT_EQ(LinkOn(host(), "nomad").at("mtu"), 1400);
  EXPECT_EQ(At(result, "/interfaces/2/mtu"), 1400);
  MustCheck(DualStack({{"mtu", "auto"}}), result);
}

TEST_F(VethPair, HasTheLesserMtuOfTwoUplinksIfItIsAuto) {
  host().Must(Words("ip link add tunnel mtu 1300 type veth peer name far"));
  host().Must(Words("ip link set far up"));
  host().Must(Words("ip link set tunnel up"));
  host().Must(Words("ip -6 route replace default dev tunnel"));

  Attach(Config({{"mtu", "auto"}}));

  EXPECT_EQ(ContainerEnd().at("mtu"), 1300);
}

TEST_F(VethPair, HasTheKernelsMtuIfItIsAutoAndThereIsNoUplink) {
  host().Must(Words("ip link set uplink mtu 1400"));
  host().Must(Words("ip route delete default"));
  host().Must(Words("ip -6 route delete default"));

  Attach(Config({{"mtu", "auto"}}));

  EXPECT_EQ(ContainerEnd().at("mtu"), 1500);
}

TEST_F(VethPair, IsHairpinByDefaultAndNotIfSwitchedOff) {
  Attach(Config());
  EXPECT_EQ(At(HostEnd(), "/linkinfo/info_slave_data/hairpin"), true);
  Detach(Config());

  Attach(Config(R"({"hairpinMode": false, "portIsolation": true})"));
  EXPECT_EQ(At(HostEnd(), "/linkinfo/info_slave_data/hairpin"), false);
  EXPECT_EQ(At(HostEnd(), "/linkinfo/info_slave_data/isolated"), true);
}

TEST_F(VethPair, HasTheSameMacWheneverItHasTheSameAddress) {
  const Variables first = {{"CNI_ARGS", "IP=172.26.64.9"}};
  Attach(Config(), first);
  const std::string mac = ContainerMac();
  Detach(Config(), first);

  const Variables second = {{"CNI_ARGS", "IP=172.26.64.9"}, {"CNI_CONTAINERID", "alloc-2"}};
  Attach(Config(), second);
  EXPECT_EQ(ContainerMac(), mac);
  Detach(Config(), second);

  Attach(Config(), {{"CNI_ARGS", "IP=172.26.64.10"}});
  EXPECT_NE(ContainerMac(), mac);
}

TEST_F(VethPair, LetsNeighboursReachAReusedAddressAtOnce) {
  Node& neighbour = AddContainer("neighbour");
  Attach(Config(), As("neighbour", neighbour));
  Attach(Config(R"({"runtimeConfig": {"ips": ["172.26.64.50"]}})"));
  ASSERT_TRUE(Ping(neighbour, "172.26.64.50"));
  ASSERT_TRUE(Ping(host(), "172.26.64.50"));
  Detach(Config());

  Attach(Config(R"({"runtimeConfig": {"ips": ["172.26.64.50"]}})"),
         As("next", AddContainer("next")));

  EXPECT_TRUE(Ping(neighbour, "172.26.64.50"));
  EXPECT_TRUE(Ping(host(), "172.26.64.50"));
}

// ---- where the MAC comes from: each way, and which wins over which

struct MacCase : Named {
  const char* config;
  const char* args;
  const char* expected;
};

class Mac : public VethPair, public ::testing::WithParamInterface<MacCase> {};

TEST_P(Mac, IsOnTheInterfaceAndInTheResult) {
  const Variables variables = {{"CNI_ARGS", GetParam().args}};

  const json result = Attach(Config(GetParam().config), variables);

  EXPECT_EQ(ContainerMac(), GetParam().expected);
  EXPECT_EQ(At(result, "/interfaces/2/mac"), GetParam().expected);
}

INSTANTIATE_TEST_SUITE_P(
    Every,
    Mac,
    ::testing::Values(MacCase{"Args", "{}", "MAC=02:11:11:11:11:11", "02:11:11:11:11:11"},
                      MacCase{"ArgsInCapitals", "{}", "MAC=02:11:11:11:11:AA", "02:11:11:11:11:aa"},
                      MacCase{"ArgsCni",
                              R"({"args": {"cni": {"mac": "02:22:22:22:22:22"}}})",
                              "",
                              "02:22:22:22:22:22"},
                      MacCase{"Runtime",
                              R"({"runtimeConfig": {"mac": "02:33:33:33:33:33"}})",
                              "",
                              "02:33:33:33:33:33"},
                      MacCase{"ArgsCniOverArgs",
                              R"({"args": {"cni": {"mac": "02:22:22:22:22:22"}}})",
                              "MAC=02:11:11:11:11:11",
                              "02:22:22:22:22:22"},
                      MacCase{"RuntimeOverBoth",
                              R"({"args": {"cni": {"mac": "02:22:22:22:22:22"}},
                    "runtimeConfig": {"mac": "02:33:33:33:33:33"}})",
                              "MAC=02:11:11:11:11:11",
                              "02:33:33:33:33:33"}),
    kNameOf);

TEST_F(VethPair, IsNotGivenAMacThatANeighbourHas) {
  Node& neighbour = AddContainer("neighbour");
  Attach(Config(), As("neighbour", neighbour));
  const Snapshot before = TakeSnapshot();
  const std::string mac = MacOf(neighbour, "eth0").Text();
  EXPECT_THAT(RunPlugin("ADD", Config(), {{"CNI_ARGS", Cat("MAC=", mac)}}),
              Fails(102, MsgAndDetails(AllOf(HasSubstr(mac), HasSubstr("neighbour")))));
  EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
}

// Of the bridge, of a port, and of what a virtual machine has sent from behind one.
TEST_F(VethPair, IsNotGivenAMacThatIsOnTheBridgeAlready) {
  WarmUp();
  Node& machine = AddContainer("machine");
  host().Must(Words("ip link add tap0 up master nomad type veth peer name eth0 netns machine"));
  machine.Must(Words("ip link set eth0 up"));
  machine.Must(Words("ip address add 172.26.70.9/20 dev eth0"));
  ASSERT_TRUE(Ping(machine, "172.26.64.1"));
  // Its lease keeps the directory of leases.
  Attach(Config(), As("neighbour", AddContainer("neighbour")));
  const Snapshot before = TakeSnapshot();
  for (const auto& [mac, holder] :
       {std::pair(MacOf(host(), "nomad").Text(), "bridge 'nomad' itself"),
        std::pair(MacOf(host(), "tap0").Text(), "the port 'tap0' itself"),
        std::pair(MacOf(machine, "eth0").Text(), "what is behind the port 'tap0'")}) {
    EXPECT_THAT(RunPlugin("ADD", Config(), {{"CNI_ARGS", Cat("MAC=", mac)}}),
                Fails(102, Msg(Format("MAC {} is taken by {}", mac, holder))));
  }
  EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
}

TEST_F(VethPair, IsReachedByNeighboursThatCachedAnotherMac) {
  Node& neighbour = AddContainer("neighbour");
  Attach(Config(), As("neighbour", neighbour));
  const Variables first = {{"CNI_ARGS", "IP=172.26.64.50;MAC=02:11:11:11:11:11"}};
  Attach(Config(), first);
  ASSERT_TRUE(Ping(neighbour, "172.26.64.50"));
  Detach(Config(), first);

  Attach(Config(), {{"CNI_ARGS", "IP=172.26.64.50;MAC=02:22:22:22:22:22"}});

  EXPECT_TRUE(Ping(neighbour, "172.26.64.50"));
}

TEST_F(VethPair, IsReachedInIpv6ByNeighboursThatCachedAnotherMac) {
  Node& neighbour = AddContainer("neighbour");
  Attach(DualStack(), As("neighbour", neighbour));
  const json first = DualStack(R"({"runtimeConfig": {"ips": ["172.26.64.50", "fd00:26::50"]}})");
  Attach(first);
  ASSERT_TRUE(Ping(neighbour, "fd00:26::50"));
  ASSERT_TRUE(Ping(host(), "fd00:26::50"));
  const std::string mac = ContainerMac();
  Detach(first);

  Attach(DualStack(R"({"runtimeConfig": {"ips": ["172.26.64.51", "fd00:26::50"]}})"));

  ASSERT_NE(ContainerMac(), mac);
  EXPECT_TRUE(Ping(neighbour, "fd00:26::50"));
  EXPECT_TRUE(Ping(host(), "fd00:26::50"));
}

// ---- alias

TEST_F(VethPair, IsRecognisedByATruncatedAlias) {
  const Variables labelled = {
      {"CNI_ARGS", Cat("IgnoreUnknown=true;NOMAD_JOB_ID=", std::string(4096, 'j'))}};
  Attach(Config(), labelled);

  EXPECT_EQ(HostEnd().at("ifalias").get<std::string>().size(), 255U);
  Detach(Config());
  EXPECT_EQ(PortsOf("nomad").size(), 0U);
}

// ---- names

class Ifname : public VethPair, public ::testing::WithParamInterface<const char*> {};

TEST_P(Ifname, IsTheLinksNameAsItIs) {
  const Variables odd = {{"CNI_IFNAME", GetParam()}};
  const json result = Attach(DualStack(), odd);

  EXPECT_EQ(At(result, "/interfaces/2/name"), GetParam());
  EXPECT_EQ(AddressesOn(container(), GetParam()).size(), 2U);
  EXPECT_TRUE(Ping(container(), "172.26.64.1"));
  EXPECT_TRUE(Ping(container(), "fd00:26::1"));
  Detach(DualStack(), odd);
  EXPECT_TRUE(LinkOn(container(), GetParam()).is_null());
  EXPECT_THAT(Leased(), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(
    Odd,
    Ifname,
    ::testing::Values("eth0@x", "a.b", "fifteen-bytes-x", "a", "-dash", "x'\"$`;|&", "\xc3\xa4"));

class NetworkName : public VethPair, public ::testing::WithParamInterface<const char*> {};

TEST_P(NetworkName, WorksLikeAnyOther) {
  const json network = Config({{"name", GetParam()}});
  MustCheck(network, Attach(network));
  EXPECT_EQ(FindFile(Cat("/var/run/cni/", GetParam(), "/172.26.64.2")), "alloc-1\r\neth0");
  Detach(network);
  EXPECT_THAT(Leased(Cat("/var/run/cni/", GetParam())), IsEmpty());
  EXPECT_EQ(PortsOf("nomad").size(), 0U);
}

INSTANTIATE_TEST_SUITE_P(
    Odd,
    NetworkName,
    ::testing::Values("lock", "a", "a.b-c_d", "generation", "last_reserved_ip.0"));

TEST_F(VethPair, TakesAContainerIdOf300Characters) {
  const std::string id(300, 'c');
  const Variables longest = {{"CNI_CONTAINERID", id}};
  MustCheck(Config(), Attach(Config(), longest), longest);
  EXPECT_EQ(Lease("172.26.64.2"), Cat(id, "\r\neth0"));
  // Another one that differs only at its end is another attachment.
  Node& second = AddContainer("second");
  const std::string other = Cat(std::string(299, 'c'), "d");
  Attach(Config(), As(other, second));
  EXPECT_EQ(PortsOf("nomad").size(), 2U);
  Detach(Config(), longest);
  EXPECT_EQ(PortsOf("nomad").size(), 1U);
  EXPECT_EQ(Lease("172.26.64.3"), Cat(other, "\r\neth0"));
  EXPECT_TRUE(Ping(second, "172.26.64.1"));
}

}  // namespace
}  // namespace nomad_bridge::test
