// Bridges of ours that somebody else changes: a stray port, another name, a small MTU.
#include "tests/plugin/cli_world.h"

namespace nomad_bridge::test {
namespace {

class Bridges : public CliWorld {
 protected:
  // Plugs a card into "nomad", without a cable.
  void PlugIn() {
    host().Must(Words("ip link add card up type veth peer name cable"));
    host().Must(Words("ip link set card master nomad"));
  }

  static bool AdoptedIn(const std::string& container_id) {
    return ReadRecord(container_id).at("link").value("adopted", false);
  }
};

// Its attachments stay as they are: whether a bridge is a LAN's is decided for the first one there.
TEST_F(Bridges, AreNamedByDoctorForAStrayPort) {
  Attach(DualStack());
  const std::string table = ListTable();
  EXPECT_THAT(RunLine("doctor bridge"), Exits(0, Out(HasSubstr("0 warnings"))));
  PlugIn();
  EXPECT_THAT(RunLine("reconcile"), Exits(0, Err("")));
  EXPECT_EQ(ListTable(), table);
  Attach(DualStack(), As("later", AddContainer("later")));
  EXPECT_FALSE(AdoptedIn("alloc-1"));
  EXPECT_FALSE(AdoptedIn("later"));

  const json doctor = RunLine("doctor -json bridge.uplink").json;
  const json& stray = doctor.at("checks").at(0);
  EXPECT_EQ(stray.at("verdict"), "warn");
  EXPECT_THAT(stray.at("what"), HasSubstr("'card' is a port of our bridge 'nomad': machines"));
  host().Shell(stray.at("fix"));
  EXPECT_THAT(RunLine("doctor bridge"), Exits(0, Out(HasSubstr("0 warnings"))));
}

TEST_F(Bridges, BecomeLanBridgesWithTheFirstAttachmentThatFindsAnUplink) {
  Attach(DualStack());
  PlugIn();
  Detach(DualStack());
  EXPECT_THAT(RunLine("down -n"), Exits(0, Out(Not(HasSubstr("bridge nomad:")))));
  Attach(DualStack());
  EXPECT_TRUE(AdoptedIn("alloc-1"));
  EXPECT_THAT(Elements("gateways").dump(), Not(HasSubstr("nomad")));

  host().Must(Words("ip link set card nomaster"));
  const Variables later = As("later", AddContainer("later"));
  Attach(DualStack(), later);
  EXPECT_TRUE(AdoptedIn("later"));
  Detach(DualStack(), later);
  Detach(DualStack());
  EXPECT_THAT(RunLine("down -n"), Exits(0, Out(HasSubstr("bridge nomad: would be removed"))));
  Attach(DualStack());
  EXPECT_FALSE(AdoptedIn("alloc-1"));
  EXPECT_THAT(Elements("gateways").dump(), HasSubstr("nomad"));
}

// A second one beside it would not be reached: the node's routes go by the first.
TEST_F(Bridges, AreNamedAfterARenameAndNotCreatedAgain) {
  const json config = Publish({Port(8080, 80)}, DualStack());
  const json add = Attach(config);
  Serve(container(), Protocol::kTcp, {"172.26.64.2", "fd00:26::2"}, 80, "web");
  host().Shell("ip link set nomad down; ip link set nomad name old; ip link set old up");
  const std::string renamed =
      "bridge 'nomad' is missing, and its address 172.26.64.1/20 is on 'old'";

  EXPECT_THAT(RunLine("reconcile -n"), Exits(1, Out(HasSubstr(renamed))));
  EXPECT_THAT(RunLine("reconcile"), Exits(1, Err(HasSubstr(renamed))));
  EXPECT_THAT(RunLine("doctor bridge.intact"), Exits(1, Out(HasSubstr(renamed))));
  EXPECT_THAT(MustCheck(config, add), Err(HasSubstr(Cat("ignoring: ", renamed))));
  EXPECT_THAT(MustRefuse(102, DualStack(), As("later", AddContainer("later"))),
              AllOf(Msg(renamed), Details(HasSubstr("ip link set old name nomad"))));
  EXPECT_FALSE(HasInterface(host(), "nomad"));

  host().Shell("ip link set old down && ip link set old name nomad");
  EXPECT_THAT(RunLine("reconcile"), Exits(0));
  EXPECT_TRUE(Soon([&] {
    return TcpText(outside(), kHostIp4, 8080) == "web" &&
           TcpText(outside(), kHostIp6, 8080) == "web";
  }));
}

// Packets come in by the name, which rules and sets must have.
TEST_F(Bridges, MayBeConfiguredByAnAlternativeName) {
  host().Must(Words("ip link add lan0 up type bridge"));
  host().Must(Words("ip link property add dev lan0 altname lan-bridge"));
  host().Must(Words("iptables -P FORWARD DROP"));
  host().Must(Words("ip6tables -P FORWARD DROP"));
  const json config = Publish({Port(8080, 80)}, DualStack({{"bridge", "lan-bridge"}}));
  const json result = Attach(config);
  EXPECT_EQ(result.at("interfaces").at(0).at("name"), "lan0");
  Serve(container(), Protocol::kTcp, {"::"}, 80, "page");
  for (const char* const address : {kHostIp4, kHostIp6}) {
    EXPECT_TRUE(Soon([&] { return TcpText(outside(), address, 8080) == "page"; })) << address;
  }
  MustCheck(config, result);
  EXPECT_THAT(RunLine("reconcile -dry-run"), Exits(0));
  Detach(config);
}

// ---- a subnet

json Copied(const json& changes = json::object()) {
  json config = DualStack({{"name", "copy"}, {"bridge", "apps"}});
  config.merge_patch(changes);
  return config;
}

std::string WriteCopied(const json& config) {
  std::string path = "/run/copy.conf";
  std::ofstream(path) << config;
  return path;
}

TEST_F(Bridges, NeedDifferentSubnetsForTwoNetworks) {
  Attach(DualStack());
  const json of_ipv4 = Copied({{"ipam", {{"ranges", {{{{"subnet", "172.26.65.0/24"}}}}}}}});
  const json of_ipv6 = Copied({{"ipam", {{"ranges", {{{{"subnet", "fd00:26::/64"}}}}}}}});
  for (const auto& [config, text] :
       {std::pair(of_ipv6, "subnet fd00:26::/64 of network 'copy' overlaps with fd00:26::/64"),
        std::pair(Copied(),
                  "subnet 172.26.64.0/20 of network 'copy' overlaps with 172.26.64.0/20")}) {
    const std::string path = WriteCopied(config);
    const std::string named = Cat(text, " of network 'nomad' by 'nomad'");
    EXPECT_THAT(MustRefuse(102, config, As("b", AddContainer(Cat("b", text[7])))), Msg(named));
    EXPECT_THAT(RunLine(Cat("up ", path)), Exits(1, Err(HasSubstr(named))));
    EXPECT_THAT(RunLine(Cat("up -dry-run ", path)), Exits(1, Out(HasSubstr(named))));
    EXPECT_THAT(RunLine(Cat("config check ", path)), Exits(1, Err(HasSubstr(named))));
    EXPECT_FALSE(HasInterface(host(), "apps"));
  }
  Attach(of_ipv4, As("a", AddContainer("a")));  // the other's route is wider
}

// By a script that gives a part of it to another link.
struct Taken : Named {
  const char* script;
  const char* text;
};
class BesideALink : public Bridges {
 protected:
  BesideALink() {
    host().Shell("ip link add spare up type veth peer name far; ip link set far up");
  }
};
class BesideATaker : public BesideALink, public ::testing::WithParamInterface<Taken> {};

TEST_P(BesideATaker, AreRefused) {
  host().Shell(GetParam().script);
  EXPECT_THAT(MustRefuse(102, DualStack()),
              Msg(AllOf(HasSubstr(GetParam().text), HasSubstr("by 'spare'"))));
}

INSTANTIATE_TEST_SUITE_P(
    Kernel,
    BesideATaker,
    ::testing::Values(
        Taken{"Address", "ip address add 172.26.70.9/24 dev spare", "with 172.26.70.0/24"},
        Taken{"FirstAddress", "ip address add 172.26.70.1/24 dev spare", "with 172.26.70.0/24"},
        Taken{"AddressOfTwo", "ip address add 172.26.70.9/31 dev spare", "with 172.26.70.8/31"},
        Taken{"Whole", "ip address add 172.26.79.9/20 dev spare", "with 172.26.64.0/20"},
        Taken{"FirstRoute", "ip route add 172.26.64.0/30 dev spare", "with 172.26.64.0/30"},
        Taken{"LastRoute", "ip route add 172.26.79.128/25 dev spare", "with 172.26.79.128/25"},
        Taken{"PathsOfOneRoute",
              "ip address add 192.0.2.1/24 dev spare; ip route add 172.26.64.0/22 nexthop via "
              "192.0.2.2 dev spare nexthop via 198.51.100.2 dev uplink",
              "with 172.26.64.0/22"},
        Taken{"Ipv6Address",
              "ip address add fd00:26::7:9/112 dev spare nodad",
              "with fd00:26::7:0/112"},
        Taken{"Ipv6FirstRoute", "ip route add fd00:26::/80 dev spare", "with fd00:26::/80"},
        Taken{"Ipv6LastRoute",
              "ip route add fd00:26::ffff:0:0:0/80 dev spare",
              "with fd00:26:0:0:ffff::/80"}),
    kNameOf);

// A route to a part that has no such address is found once an allocation gets one of its addresses.
TEST_F(BesideALink, WithARouteBetweenAreNamedByTheAddOfItsAddress) {
  host().Must(Words("ip route add 172.26.70.0/24 dev spare"));
  Attach(DualStack());
  Node& other = AddContainer("other");
  EXPECT_THAT(MustRun("ADD", DualStack(), As("other", other, "IP=172.26.70.7")),
              Err(HasSubstr("the route to 172.26.70.7 leads out of 'spare', not of 'nomad'")));
  EXPECT_THAT(RunLine("doctor bridge.subnet_overlap"),
              Exits(1, Out(HasSubstr("overlaps with 172.26.70.0/24 by 'spare'"))));
}

TEST_F(Bridges, AreNamedIfAFormerBridgeKeepsTheSubnet) {
  UseOnce(DualStack());
  const json renamed = DualStack({{"bridge", "apps"}});
  EXPECT_THAT(MustRefuse(102, renamed),
              AllOf(Msg(HasSubstr("by 'nomad'")), Details(HasSubstr("ip link delete nomad"))));
  host().Must(Words("ip link delete nomad"));
  Attach(renamed);
  EXPECT_TRUE(Ping(container(), kBridgeIp4));
}

TEST_F(Bridges, DoNotTakeTheSubnetOfAnotherLink) {
  host().Must(Words("ip link add other up type bridge"));
  host().Must(Words("ip address add 172.26.70.1/24 dev other"));
  EXPECT_THAT(MustRefuse(102, DualStack()), Msg(HasSubstr("with 172.26.70.0/24 by 'other'")));
  EXPECT_THAT(RunLine(Cat("config check ", WriteCopied(Copied()))), Exits(1));
  // The network gives out none of it.
  Attach(Copied(
      {{"ipam", {{"ranges", {{{{"subnet", "172.26.64.0/20"}, {"rangeEnd", "172.26.65.9"}}}}}}}}));
}

TEST_F(BesideALink, ThatHasWiderRoutesAndSingleAddressesAreNotRefused) {
  host().Shell(
      "ip route add 172.16.0.0/12 dev spare; ip -6 route add fd00::/16 dev spare\n"
      "ip route add 172.26.70.9/32 dev spare; ip address add 172.26.71.9/32 dev spare\n"
      "ip route add 172.26.64.0/20 dev spare table 99\n"
      "ip route add 172.26.65.0/24 dev spare table 99\n"
      "ip route add blackhole 172.26.0.0/16; ip route add blackhole 172.26.79.0/24\n"
      "ip route add unreachable fd00:26::/48");
  const std::string path = WriteCopied(Copied());
  EXPECT_THAT(RunLine(Cat("config check ", path)), Exits(0));
  EXPECT_THAT(RunLine(Cat("up ", path)), Exits(0));
  EXPECT_THAT(RunLine(Cat("config check ", path)), Exits(0));
  Attach(Copied());
  EXPECT_TRUE(Ping(container(), kBridgeIp4));
}

// ---- a bridge that leads nowhere

TEST_F(Bridges, AreNamedWithoutUplinkAndGateway) {
  const json lan = Config({{"bridge", "br0"}, {"isGateway", false}});
  const std::string island =
      "bridge 'br0' has neither an uplink nor a gateway: nothing beyond it is reached";
  host().Must(Words("ip link add br0 up type bridge"));
  EXPECT_THAT(RunPlugin("ADD", lan), Exits(0, Err("")));
  EXPECT_THAT(Output("doctor bridge.uplink"),
              AllOf(HasSubstr("WARN  bridge.uplink"), HasSubstr(island)));
  EXPECT_THAT(RunLine("inspect alloc-1"), Exits(0, Out(HasSubstr(island))));

  host().Must(Words("ip link add up0 up master br0 type veth peer name cable"));
  EXPECT_THAT(Output("doctor bridge.uplink"), Not(HasSubstr(island)));
  EXPECT_THAT(RunLine("inspect alloc-1"), Out(Not(HasSubstr(island))));
}

// examples/lan.conflist on a node without br0.
TEST_F(Bridges, AreNotCreatedWithoutAGateway) {
  fs::create_directories("/run/lists");
  fs::copy_file(ProjectPath("examples/lan.conflist"), "/run/lists/lan.conflist");
  fs::create_directories("/run/etc/nomad.d");
  std::ofstream("/run/etc/nomad.d/client.hcl") << R"(client { cni_config_dir = "/run/lists" })";
  const Mounted etc({"--bind", "/run/etc"}, "/etc");
  const Network lan = ByOurs(json::parse(FindFile("/run/lists/lan.conflist").value()));
  Attached allocation = As("lan-1", container());
  const std::string missing =
      "bridge 'br0' of network 'lan' is missing, and is not created, as 'isGateway' is false";
  const Snapshot before = TakeSnapshot();

  EXPECT_THAT(AddTo(lan, allocation), Fails(102, Msg(missing), Details(HasSubstr("uplink"))));
  EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
  EXPECT_THAT(RunLine("up"), Exits(0, Err(HasSubstr(missing)), Out(HasSubstr("left out"))));
  EXPECT_THAT(RunLine("doctor conflist"), Exits(1, Out(HasSubstr("FAIL  conflist.valid"))));
  EXPECT_FALSE(HasInterface(host(), "br0"));

  host().Must(Words("ip link add br0 up type bridge"));
  host().Must(Words("ip link set uplink master br0"));
  host().Must(Words(Cat("ip address add ", kHostIp4, "/24 dev br0")));
  EXPECT_THAT(Output("doctor conflist"), HasSubstr("ok    conflist.valid"));
  const Attached attached = MustAdd(lan, allocation);
  EXPECT_TRUE(Soon([&] { return Ping(container(), kOutsideIp4); }));
  host().Must(Words("ip link delete br0"));
  EXPECT_THAT(RunLine("reconcile"), Exits(1, Err(HasSubstr("bridge 'br0'"))));
  EXPECT_THAT(RunLine("doctor bridge"), Exits(1, Out(HasSubstr("bridge 'br0'"))));
  MustCheckIn(lan, attached);
  EXPECT_FALSE(HasInterface(host(), "br0"));
}

// A bridge that we made for a network with a gateway is not made again for one without.
TEST_F(Bridges, AreNotMadeAgainForANetworkWithoutAGateway) {
  Attach(Config());
  json without = Config({{"name", "other"}, {"isGateway", false}});
  without["ipam"]["ranges"] = {{{{"subnet", "10.7.0.0/24"}}}};
  Attach(without, As("other", AddContainer("other")));
  Detach(Config());
  host().Must(Words("ip link delete nomad"));

  EXPECT_THAT(RunLine("reconcile"), Exits(1, Err(HasSubstr("'isGateway' is false"))));
  EXPECT_FALSE(HasInterface(host(), "nomad"));

  Attach(Config());
  EXPECT_THAT(RunLine("reconcile"), Exits(0));
  EXPECT_EQ(PortsOf("nomad").size(), 2U) << "the gateway's network has made it again";
}

TEST_F(Bridges, AreCreatedWithoutAGatewayUnderTheReferenceName) {
  const json config = {{"type", "bridge"},
                       {"bridge", "br0"},
                       {"isGateway", false},
                       {"ipam", {{"type", "host-local"}, {"subnet", "10.7.0.0/24"}}}};
  MustAdd(ByOurs(ListOf({config}, "lan")), As("lan-1", container()));
  EXPECT_TRUE(HasInterface(host(), "br0"));
}

// The kernel takes IPv6 from such a link. IPv4 goes on, so that no allocation is to end for it.
TEST_F(Bridges, AreReportedAndNotRepairedIfTheirMtuIsTooSmallForIpv6) {
  const json add = Attach(DualStack());
  host().Must(Words("ip link set nomad mtu 1200"));
  const std::string small = "the MTU of 'nomad' is 1200, and IPv6 needs 1280";
  const std::string fix = "ip link set nomad mtu 1500 && nomad-bridge reconcile";

  EXPECT_THAT(RunPlugin("CHECK", WithResult(DualStack(), add)),
              Exits(0, Err(HasSubstr(Cat("ignoring: ", small)))));
  EXPECT_THAT(RunLine("reconcile"), Exits(1, Err(HasSubstr(small))));
  EXPECT_THAT(RunLine("doctor"), Exits(1, Out(AllOf(HasSubstr(small), HasSubstr(fix)))));
  EXPECT_THAT(RunPlugin("ADD", DualStack(), As("later", AddContainer("later"))),
              Fails(102, MsgAndDetails(AllOf(HasSubstr(small), HasSubstr(fix)))));
  EXPECT_TRUE(Ping(container(), kBridgeIp4));

  host().Must(Words("ip link set nomad mtu 1500"));
  EXPECT_THAT(RunLine("reconcile"), Exits(0));
  EXPECT_TRUE(Soon([&] { return Ping(container(), kBridgeIp6); }));
}

// ---- a host veth

// It would be the way to a LAN.
TEST_F(Bridges, DoNotCountARenamedPortAsAnUplink) {
  const std::string port = HostVethOf(Attach(Config()));
  host().Shell(Cat("ip link set ", port, " down; ip link set ", port, " name foo0 up"));
  EXPECT_THAT(RunLine("reconcile"), Exits(1, Err(HasSubstr(Cat(port, " is missing")))));
  EXPECT_THAT(Output("doctor bridge.uplink"), HasSubstr("ok    bridge.uplink"));
  Attach(Config(), As("later", AddContainer("later")));
  EXPECT_FALSE(AdoptedIn("later"));
}

TEST_F(Bridges, RestoreAMissingAliasOfAPort) {
  const json add = Attach(Config(), As("alloc-1", container(), NomadArgs("billing", "alloc-1")));
  const std::string veth = HostVethOf(add);
  const std::string alias = LinkOn(host(), veth).at("ifalias");
  host().Must({"ip", "link", "set", veth, "alias", ""});

  const std::string lost = Format("the alias of {} is missing", veth);
  EXPECT_THAT(RunLine("doctor bridge.ports"), Exits(1, Out(HasSubstr(lost))));
  EXPECT_THAT(RunLine("reconcile"), Exits(0, Err(HasSubstr(Cat("repaired: ", lost)))));
  EXPECT_EQ(LinkOn(host(), veth).at("ifalias"), alias);
}

}  // namespace
}  // namespace nomad_bridge::test
