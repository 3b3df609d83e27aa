// A node that is moved over to us and back while its allocations live: Nomad's own list, run by the
// reference plugins of Debian before, by ours after.
#include "tests/plugin/names_moving_world.h"

namespace nomad_bridge::test {
namespace {

constexpr const char* kMoved = "5f3c1a2b-0000-4000-8000-000000000001";

class ReferenceAttachment : public MovingWorld {
 protected:
  static Attached Allocation(const std::string& id, const Node& container, int port) {
    return WithPorts(id, container, {Port(port, 80)});
  }

  std::string Iptables() { return host().Must({"iptables-save"}); }
};

TEST_F(ReferenceAttachment, KeepsWorkingBesideOursAndIsRemovedByOurDel) {
  Node& old_container = AddContainer("old");
  const Attached old = MustAdd(Theirs(), Allocation("old", old_container, 7070));
  const Server old_page = Server::Start(old_container, Protocol::kTcp, "0.0.0.0", 80, "old");
  std::optional<Connection> stays = Connection::Open(outside(), {.to = kHostIp4, .port = 7070});
  ASSERT_TRUE(stays);

  MustAdd(Ours(), Allocation("young", container(), 8080));

  const Server young_page = Server::Start(container(), Protocol::kTcp, "0.0.0.0", 80, "young");
  EXPECT_TRUE(stays->Echoes("still here"));
  EXPECT_EQ(TcpText(outside(), kHostIp4, 7070), "old");
  EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "young");
  EXPECT_EQ(TcpText(old_container, kHostIp4, 8080), "young") << "a neighbour by the node's port";
  EXPECT_TRUE(Ping(old_container, kOutsideIp4));
  MustCheckIn(Ours(), old);

  MustDelFrom(Ours(), old);

  EXPECT_THAT(Iptables(), Not(HasSubstr("\"old\\\"")));
  EXPECT_THAT(Iptables(), Not(HasSubstr("172.26.64.2/32")));
  EXPECT_THAT(Iptables(), Not(HasSubstr("CNI-DN-")));
  EXPECT_FALSE(FindFile("/var/run/cni/nomad/172.26.64.2").has_value());
  EXPECT_NE(old_container.Run({"ip", "link", "show", "eth0"}).exit_code, 0);
  EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "young");
}

TEST_F(ReferenceAttachment, IsRemovedByADelOfNomadBridgeAlone) {
  const Attached old = MustAdd(Theirs(), Allocation("old", container(), 7070));

  MustCheckIn(OursAlone(), old);
  MustDelFrom(OursAlone(), old);

  EXPECT_THAT(Iptables(), Not(HasSubstr("old")));
  EXPECT_THAT(Iptables(), Not(HasSubstr("172.26.64.2/32")));
  EXPECT_FALSE(FindFile("/var/run/cni/nomad/172.26.64.2").has_value());
}

// What an operator asks for after `install -replace`.
TEST_F(ReferenceAttachment, IsListedWhileItRuns) {
  list_["plugins"][1]["ipam"]["ranges"].push_back({{{"subnet", "fd00:26::/64"}}});
  const Attached old =
      MustAdd(Theirs(),
              WithPorts(kMoved,
                        container(),
                        {Port(7070, 80), Port(7070, 80, "udp"), Port(9090, 90, "tcp", kHostIp4)}));
  Node& gone = AddContainer("gone");
  MustAdd(Theirs(), Allocation("gone", gone, 7171));
  KillContainer(gone);
  Node& ours = AddContainer("ours");
  MustAdd(Ours(), Allocation("ours", ours, 8080));

  const json listed = Run({"list", "-json"}).json.at("attachments");
  ASSERT_EQ(listed.size(), 2U) << listed;
  const json& shown = listed.at(listed.at(0).at("state") == "ok" ? 1 : 0);
  EXPECT_EQ(shown.at("state"), "reference");
  EXPECT_EQ(shown.at("containerId"), kMoved);
  EXPECT_EQ(shown.at("network"), "nomad");
  EXPECT_EQ(shown.at("interface"), "eth0");
  EXPECT_EQ(shown.at("bridge"), "nomad");
  EXPECT_EQ(shown.at("addresses"), json(AddressesOn(container(), "eth0")));
  const auto port = [&](const char* protocol, json host_ip, int host_port, const char* ip, int at) {
    return json{{"protocol", protocol},
                {"hostIp", std::move(host_ip)},
                {"hostPort", host_port},
                {"containerIp", ip},
                {"containerPort", at}};
  };
  EXPECT_THAT(shown.at("ports").get<std::vector<json>>(),
              UnorderedElementsAre(port("tcp", nullptr, 7070, "172.26.64.2", 80),
                                   port("udp", nullptr, 7070, "172.26.64.2", 80),
                                   port("tcp", kHostIp4, 9090, "172.26.64.2", 90),
                                   port("tcp", nullptr, 7070, "fd00:26::2", 80),
                                   port("udp", nullptr, 7070, "fd00:26::2", 80)));

  for (const char* const name : {kMoved, "7070", "172.26.64.2"}) {
    EXPECT_THAT(Run({"inspect", name}),
                Exits(0,
                      Out(AllOf(HasSubstr(kMoved),
                                HasSubstr("tcp 0.0.0.0:7070 -> 172.26.64.2:80"),
                                HasSubstr("reference")))))
        << name;
  }
  EXPECT_THAT(Run({"list", "state=reference"}),
              Exits(0, Out(AllOf(HasSubstr("7070->80/tcp,udp"), HasSubstr(" reference\n")))));

  MustDelFrom(Ours(), old);
  EXPECT_EQ(Run({"list", "-json"}).json.at("attachments").size(), 1U);
}

// A node that was moved in two steps: our firewall and portmap first, our bridge later.
TEST_F(ReferenceAttachment, IsRemovedWithOurRulesByOurDel) {
  const Attached old = MustAdd({.list = list_, .path = MixedPath({"firewall", "portmap"})},
                               Allocation("old", container(), 7070));

  MustRunEntry("CHECK", Ours(), 1, old, old.result);
  MustRunEntry("DEL", Ours(), 1, old, old.result);

  EXPECT_THAT(Iptables(), Not(HasSubstr("old")));
  EXPECT_FALSE(FindFile("/var/run/cni/nomad/172.26.64.2").has_value());
  EXPECT_NE(container().Run({"ip", "link", "show", "eth0"}).exit_code, 0);
  EXPECT_FALSE(FindFile(RecordOf("old")).has_value());
}

TEST_F(ReferenceAttachment, IsRemovedByOurDelWithoutTouchingTheOthers) {
  Node& other_container = AddContainer("other");
  const Attached old = MustAdd(Theirs(), Allocation("old", container(), 7070));
  // Its name begins the same.
  const Attached other = MustAdd(Theirs(), Allocation("older", other_container, 7071));

  MustDelFrom(Ours(), old);

  ExpectPublished(other_container, 7071);
  EXPECT_TRUE(Ping(other_container, kOutsideIp4));
  MustCheckIn(Ours(), other);
}

// Theirs have no comment.
TEST_F(ReferenceAttachment, LeavesTheOperatorsRuleForItsAddressAlone) {
  const Attached old = MustAdd(Theirs(), Allocation("old", container(), 7070));
  host().Must(Words(Format("iptables -A CNI-FORWARD -s {} -m comment --comment mine -j ACCEPT",
                           AddressOf(old.result))));
  MustDelFrom(Ours(), old);
  EXPECT_THAT(RulesWith("mine"), SizeIs(1));
}

// Interface numbers are chosen by anybody who may make interfaces.
TEST_F(ReferenceAttachment, IsRemovedByOurDelWithoutItsForgedNeighbour) {
  const Attached forger = MustAdd(Theirs(), Allocation("forger", container(), 7070));
  Node& neighbour = AddContainer("neighbour");
  MustAdd(Theirs(), Allocation("neighbour", neighbour, 7171));
  const json inside = LinkOn(neighbour, "eth0");
  container().Must(Words("ip link delete eth0"));
  container().Must(Words(Format("ip link add eth0 index {} type veth peer name other index {}",
                                inside.at("ifindex").get<int>(),
                                inside.at("link_index").get<int>())));

  MustDelFrom(Ours(), forger);

  EXPECT_TRUE(HasInterface(neighbour, "eth0"));
  EXPECT_TRUE(Ping(neighbour, kOutsideIp4));
}

// Nomad after a CHECK that failed, on a node that was moved meanwhile: a new namespace, the same
// id, no DEL. The reference host-local refuses that as a duplicate for ever.
TEST_F(ReferenceAttachment, IsTakenOverByAnAddInANewNamespace) {
  Node& old_container = AddContainer("old");
  MustAdd(Theirs(), Allocation("alloc-1", old_container, 7070));
  KillContainer(old_container);

  const Attached again = MustAdd(Ours(), Allocation("alloc-1", container(), 7070));

  EXPECT_THAT(Iptables(), Not(HasSubstr("alloc-1")));
  ExpectPublished(container(), 7070);
  EXPECT_TRUE(Ping(container(), kOutsideIp4));
  MustDelFrom(Ours(), again);
  EXPECT_FALSE(FindFile("/var/run/cni/nomad/172.26.64.2").has_value()) << "the old lease";
}

TEST_F(ReferenceAttachment, AddedAfterOursRespectsOurLeasesAndItsDelRemovesOurs) {
  Node& our_container = AddContainer("ours");
  const Attached ours = MustAdd(Ours(), Allocation("ours", our_container, 8080));
  const Server page = Server::Start(our_container, Protocol::kTcp, "0.0.0.0", 80, "ours");

  const Attached theirs = MustAdd(Theirs(), Allocation("theirs", container(), 7070));

  EXPECT_NE(AddressOf(theirs.result), AddressOf(ours.result));
  EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "ours") << "while our plugin is not installed";
  const Outcome del = DelFrom(Theirs(), ours);
  // Version 1.1.1 stumbles over any chain of its own that is not there, as at a second DEL of an
  // attachment that it made itself; by then all else is done.
  EXPECT_TRUE(del.exit_code == 0 || MsgAndDetails(del).find("does not exist") != std::string::npos)
      << del;
  EXPECT_NE(our_container.Run({"ip", "link", "show", "eth0"}).exit_code, 0);
  EXPECT_FALSE(FindFile(Cat("/var/run/cni/nomad/", AddressOf(ours.result))).has_value());
}

// The nftables backends of plugins newer than Debian's, as their sources write them.
constexpr const char* kOfNftablesBackends = R"(
table inet cni_plugins_masquerade {
  chain masq_checks {
    ip saddr 10.9.0.5 ip daddr != 10.9.0.0/24 masquerade comment "0011223344556677-8899aabbccddeeff, net: nomad, if: eth0, id: old"
    ip saddr 10.9.0.6 ip daddr != 10.9.0.0/24 masquerade comment "0011223344556677-8899aabbccddee00, net: nomad, if: eth0, id: other"
  }
}
table ip cni_hostport {
  chain hostports {
    tcp dport 8080 dnat to 10.9.0.5:80 comment "old"
    tcp dport 8081 dnat to 10.9.0.6:80 comment "other"
  }
}
)";

TEST_F(ReferenceAttachment, IsListedWithThePortsOfItsNftablesRules) {
  json list = list_;
  list["plugins"].erase(3);
  MustAdd({.list = list, .path = kReferenceDirectory}, As("old", container()));
  host().Nft(R"(
table ip cni_hostport {
  chain hostports {
    tcp dport 8080 dnat to 172.26.64.2:80 comment "old"
    tcp dport 8081 dnat to 172.26.64.3:80 comment "other"
  }
  chain hostip_hostports {
    ip daddr 198.51.100.1 udp dport 53 dnat to 172.26.64.2:5353 comment "old"
  }
}
)");
  EXPECT_THAT(Run({"list"}), Exits(0, Out(HasSubstr("198.51.100.1:53->5353/udp 8080->80/tcp"))));
}

TEST_F(ReferenceAttachment, LosesItsNftablesRulesByOurDel) {
  host().Nft(kOfNftablesBackends);

  MustDelFrom(Ours(), As("old", container()));

  const std::string ruleset = host().Must({"nft", "list", "ruleset"});
  EXPECT_THAT(ruleset, Not(HasSubstr("old")));
  EXPECT_THAT(ruleset, HasSubstr("id: other"));
  EXPECT_THAT(ruleset, HasSubstr("8081"));
}

TEST_F(ReferenceAttachment, LosesItsNftablesRulesByOurNextAdd) {
  host().Nft(kOfNftablesBackends);
  MustAdd(Ours(), As("old", container()));
  const std::string ruleset = host().Must({"nft", "list", "ruleset"});
  EXPECT_THAT(ruleset, Not(HasSubstr("10.9.0.5")));
  EXPECT_THAT(ruleset, HasSubstr("10.9.0.6"));
}

}  // namespace
}  // namespace nomad_bridge::test
