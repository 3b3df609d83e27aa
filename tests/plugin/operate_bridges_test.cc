// Bridges of ours that somebody else changes: a stray port, another MAC.
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

  static std::size_t Count(const std::string& text, const std::string& part) {
    std::size_t count = 0;
    for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) {
      ++count;
    }
    return count;
  }

  // A second network on bridge "nomad".
  const json second_ =
      Config({{"name", "second"}, {"ipam", {{"subnet", "10.9.0.0/24"}}}, {"isGateway", false}});
};

TEST_F(Bridges, OfOursAreALansOnlyAsLongAsAStrayPortIsThere) {
  Attach(DualStack());
  Attach(kOther, As("other", AddContainer("other")));
  EXPECT_THAT(RunLine("reconcile"), Exits(0));
  const std::string table = ListTable();
  const json bridge = LinkOn(host(), "nomad");
  PlugIn();
  EXPECT_THAT(RunLine("reconcile -if-changed"),
              Exits(0, Err(HasSubstr("bridge 'nomad' has an uplink, 'card', and its records"))));
  EXPECT_TRUE(AdoptedIn("alloc-1"));

  const json doctor = RunLine("doctor -json bridge").json;
  json stray;
  for (const json& check : doctor.at("checks")) {
    stray = check.at("check") == "bridge.uplink" ? check : stray;
  }
  EXPECT_EQ(stray.at("verdict"), "warn");
  EXPECT_THAT(stray.at("what"), HasSubstr("'card' is a port of bridge 'nomad' of ours: what is"));
  EXPECT_EQ(stray.at("fix"), "ip link set card nomaster");
  EXPECT_EQ(doctor.at("failures"), 0) << "a reconcile comes after it";
  host().Shell(stray.at("fix"));

  EXPECT_THAT(RunLine("reconcile -n"),
              Exits(1, Out(HasSubstr("bridge 'nomad' has no uplink, and its records say it has"))));
  EXPECT_THAT(RunLine("reconcile -if-changed"), Exits(0, Err(HasSubstr("has no uplink"))));
  EXPECT_FALSE(AdoptedIn("alloc-1"));
  EXPECT_EQ(ListTable(), table);
  EXPECT_EQ(LinkOn(host(), "nomad").at("addr_info"), bridge.at("addr_info"));
  EXPECT_THAT(RunLine("doctor -quiet bridge"), Exits(0, Out(HasSubstr("0 warnings"))));

  Attach(DualStack(), As("later", AddContainer("later")));
  EXPECT_FALSE(AdoptedIn("later"));
  EXPECT_THAT(RunLine("reconcile"), Exits(0, Err("")));
}

TEST_F(Bridges, OfOursAreNoLansForAnAddOnceTheStrayPortIsGone) {
  Attach(DualStack());
  PlugIn();
  EXPECT_THAT(RunLine("reconcile"), Exits(0, Err(HasSubstr("has an uplink"))));
  Detach(DualStack());
  host().Must(Words("ip link set card nomaster"));
  EXPECT_THAT(RunLine("down -n"), Exits(0, Out(HasSubstr("bridge nomad: would be removed"))));
  Attach(DualStack());
  EXPECT_FALSE(AdoptedIn("alloc-1"));
  EXPECT_THAT(Elements("gateways").dump(), HasSubstr("nomad"));
}

// What was noted of it before is lost, as after an upgrade.
TEST_F(Bridges, OfOursAreLansForAFirstAddThatKnowsNothingOfThem) {
  Attach(DualStack());
  PlugIn();
  ASSERT_TRUE(fs::remove("/run/nomad-bridge/.checkpoint"));
  EXPECT_THAT(RunLine("reconcile -n"),
              Exits(1, Out(HasSubstr("has an uplink, 'card', and its records say it has none"))));
  Attach(DualStack(), As("first", AddContainer("first")));
  Attach(DualStack(), As("second", AddContainer("second")));
  EXPECT_TRUE(AdoptedIn("first"));
  EXPECT_TRUE(AdoptedIn("second"));
  EXPECT_THAT(RunLine("reconcile"), Exits(0, Err(HasSubstr("its records say it has none"))));
  ASSERT_TRUE(fs::remove("/run/nomad-bridge/.checkpoint"));
  EXPECT_THAT(RunLine("reconcile -n").out, Not(HasSubstr("uplink")));
  EXPECT_THAT(RunLine("reconcile").err, Not(HasSubstr("uplink")));
}

// As a reconcile leaves it that was killed before it had noted the port.
TEST_F(Bridges, OfOursWhoseUplinkOnlyTheRecordsHaveAreNamedSo) {
  Attach(DualStack());
  PlugIn();
  json record = ReadRecord("alloc-1");
  record["link"]["adopted"] = true;
  WriteRecord("alloc-1", record);
  EXPECT_THAT(RunLine("reconcile"),
              Exits(0, Err(HasSubstr("has an uplink, 'card', which is not noted"))));
  host().Must(Words("ip link set card nomaster"));
  record["link"]["adopted"] = false;
  WriteRecord("alloc-1", record);
  EXPECT_THAT(RunLine("reconcile"), Exits(0, Err(HasSubstr("has lost its uplink"))));
  EXPECT_THAT(RunLine("reconcile"), Exits(0, Err("")));
}

TEST_F(Bridges, OfOursThatTheirOperatorMadeHisAreHisToMakeAgain) {
  Attach(DualStack());
  PlugIn();
  host().Must(Words("ip link set nomad address 02:00:5e:00:00:01"));
  EXPECT_THAT(RunLine("reconcile"), Exits(0, Err(HasSubstr("has an uplink"))));
  host().Must(Words("ip link delete nomad"));
  EXPECT_THAT(RunLine("reconcile"),
              Exits(1, Err(HasSubstr("bridge 'nomad', which is its operator's, is gone"))));
  EXPECT_FALSE(HasInterface(host(), "nomad"));
}

// As a reconcile leaves them that was killed between two records.
TEST_F(Bridges, OfOursAreTheSameInAllRecords) {
  Attach(Config());
  Attach(second_, As("second", AddContainer("second")));
  json record = ReadRecord("alloc-1");
  record["link"]["adopted"] = true;
  WriteRecord("alloc-1", record);
  EXPECT_THAT(RunLine("reconcile"), Exits(0, Err(HasSubstr("has no uplink"))));
  EXPECT_FALSE(AdoptedIn("alloc-1"));
}

TEST_F(Bridges, WithAnotherMacAreNamedOnceForSeveralNetworks) {
  Attach(Config());
  Attach(second_, As("second", AddContainer("second")));
  EXPECT_THAT(RunLine("reconcile"), Exits(0));
  host().Must(Words("ip link set nomad address 02:00:5e:00:00:01"));
  const std::string changed = "the MAC of bridge 'nomad' was changed";
  EXPECT_EQ(Count(RunLine("reconcile -n").out, changed), 1U);
  EXPECT_THAT(RunLine("doctor -json bridge.intact").out, Not(HasSubstr("more)")));
  EXPECT_EQ(Count(RunLine("reconcile").err, changed), 1U);
}

// A neighbour entry may stand for half a minute before anybody asks again.
TEST_F(Bridges, TellAllocationsTheMacThatTheyHaveBack) {
  Attach(DualStack());
  EXPECT_THAT(RunLine("reconcile"), Exits(0));
  host().Must(Words("ip link set nomad address 02:00:5e:00:00:01"));
  for (const char* const gateway : {kBridgeIp4, kBridgeIp6}) {
    EXPECT_TRUE(Soon([&] { return Ping(container(), gateway); })) << gateway;
  }
  EXPECT_THAT(RunLine("reconcile"), Exits(0, Err(HasSubstr("the MAC of bridge 'nomad'"))));
  for (const char* const gateway : {kBridgeIp4, kBridgeIp6}) {
    EXPECT_TRUE(Ping(container(), gateway)) << gateway;
  }
}

// A second one beside it would not be reached: the node's routes go by the first.
TEST_F(Bridges, OfOursThatWereRenamedGetTheirNameBack) {
  const json config = Publish({Port(8080, 80)}, DualStack());
  const json add = Attach(config);
  Serve(container(), Protocol::kTcp, {"172.26.64.2", "fd00:26::2"}, 80, "web");
  const auto is_answered = [&] {
    return TcpText(outside(), kHostIp4, 8080) == "web" &&
           TcpText(outside(), kHostIp6, 8080) == "web";
  };
  const std::string renamed = "bridge 'nomad' was renamed to 'old'";
  const auto rename = [&] {
    host().Must(Words("ip link set nomad down"));
    host().Must(Words("ip link set nomad name old"));
    host().Must(Words("ip link set old up"));
  };
  rename();
  EXPECT_THAT(RunLine("reconcile -n"), Exits(1, Out(HasSubstr(renamed))));
  EXPECT_THAT(RunLine("doctor -quiet bridge"),
              Exits(1, Out(AllOf(HasSubstr(renamed), Not(HasSubstr("overlaps"))))));
  EXPECT_THAT(RunLine("reconcile"), Exits(0, Err(HasSubstr(Cat("repaired: ", renamed)))));
  EXPECT_TRUE(Soon(is_answered));
  EXPECT_FALSE(HasInterface(host(), "old"));

  rename();
  EXPECT_THAT(MustCheck(config, add), Err(HasSubstr(renamed)));
  EXPECT_TRUE(Soon(is_answered));

  rename();
  EXPECT_THAT(RunPlugin("ADD", DualStack(), As("later", AddContainer("later"))),
              Exits(0, Err(HasSubstr(renamed))));
  EXPECT_TRUE(Soon(is_answered));
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
