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
TEST_F(Bridges, OfOursWithAStrayPortAreNamedByDoctor) {
  Attach(DualStack());
  const std::string table = ListTable();
  EXPECT_THAT(RunLine("doctor -quiet bridge"), Exits(0, Out(HasSubstr("0 warnings"))));
  PlugIn();
  EXPECT_THAT(RunLine("reconcile"), Exits(0, Err("")));
  EXPECT_EQ(ListTable(), table);
  Attach(DualStack(), As("later", AddContainer("later")));
  EXPECT_FALSE(AdoptedIn("alloc-1"));
  EXPECT_FALSE(AdoptedIn("later"));

  const json doctor = RunLine("doctor -json bridge.uplink").json;
  const json& stray = doctor.at("checks").at(0);
  EXPECT_EQ(stray.at("verdict"), "warn");
  EXPECT_THAT(stray.at("what"), HasSubstr("'card' is a port of bridge 'nomad' of ours: what is"));
  host().Shell(stray.at("fix"));
  EXPECT_THAT(RunLine("doctor -quiet bridge"), Exits(0, Out(HasSubstr("0 warnings"))));
}

TEST_F(Bridges, OfOursAreALansFromTheFirstAttachmentOnThatFindsAnUplink) {
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
TEST_F(Bridges, OfOursThatWereRenamedAreNamedAndNoSecondOneIsMade) {
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

// The kernel takes IPv6 from such a link. IPv4 goes on, so that no allocation is to end for it.
TEST_F(Bridges, WithAnMtuBelowIpv6sAreForTheirOperator) {
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
TEST_F(Bridges, TakeNoPortOfOursWithAnotherNameForAnUplink) {
  const std::string port = HostVethOf(Attach(Config()));
  host().Shell(Cat("ip link set ", port, " down; ip link set ", port, " name foo0 up"));
  EXPECT_THAT(RunLine("reconcile"), Exits(1, Err(HasSubstr(Cat(port, " is missing")))));
  EXPECT_THAT(Output("doctor bridge.uplink"), HasSubstr("ok    bridge.uplink"));
  Attach(Config(), As("later", AddContainer("later")));
  EXPECT_FALSE(AdoptedIn("later"));
}

TEST_F(Bridges, KnowWhosePortItIsAgainByItsAlias) {
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
