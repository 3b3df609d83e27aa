// An operator's own bridge, to his LAN: that it is gone, and what it has lost.
#include "tests/plugin/lan_world.h"
#include "tests/support/rules_lock.h"
#include "tests/support/soon.h"

namespace nomad_bridge::test {
namespace {

class OperatorsBridge : public LanWorld {
 protected:
  [[nodiscard]] std::string FixOf(const std::string& verdict, const std::string& what) {
    const json document = RunLine("doctor -json bridge.uplink").json;
    const json& check = document.at("checks").at(0);
    EXPECT_EQ(check.at("verdict"), verdict) << check;
    EXPECT_EQ(check.at("what"), what);
    return check.at("fix");
  }
};

TEST_F(OperatorsBridge, ThatIsGoneIsHisToMakeAgain) {
  const std::string gone = "bridge 'lan', which is its operator's, is gone";
  const std::string advice =
      "advice: let the node's network service make it again, with its uplink; then: nomad-bridge "
      "reconcile";
  for (const json& config : {OnLan(), OnLanBehindTheNode()}) {
    const json add = Attach(Publish({Port(8080, 80)}, config));
    host().Must(Words("ip link delete lan"));

    for (int twice = 0; twice < 2; ++twice) {
      EXPECT_THAT(RunLine("reconcile"),
                  Exits(1, Err(AllOf(HasSubstr(Cat(gone, "; ", advice)), Not(HasSubstr("127."))))));
    }
    EXPECT_THAT(RunLine("reconcile -n"), Exits(1, Out(Not(HasSubstr("no port of")))));
    EXPECT_THAT(RunLine("doctor bridge.intact"),
                Exits(1, Out(AllOf(HasSubstr(gone), HasSubstr(advice)))));
    EXPECT_THAT(RunLine("inspect alloc-1"),
                Exits(1, Out(AllOf(HasSubstr(gone), HasSubstr(advice)))));
    EXPECT_THAT(MustCheck(Publish({Port(8080, 80)}, config), add), Err(HasSubstr(gone)));
    EXPECT_THAT(MustRefuse(102, config, As("other", other_)), Msg(gone));
    EXPECT_FALSE(HasInterface(host(), "lan"));

    host().Shell(
        Cat("ip link add lan up type bridge; ip link set uplink master lan; ip address add ",
            kHostIp4,
            "/24 dev lan; ip address add ",
            kHostIp6,
            "/64 dev lan nodad"));
    EXPECT_THAT(RunLine("reconcile -if-changed"), Exits(0));
    const std::string address = AddressOf(add);
    EXPECT_EQ(AskOutside(container(), kOutsideIp4), (Reply{"outside", address}));
    EXPECT_THAT(RunLine("doctor -quiet bridge"), Exits(0, Out(HasSubstr("0 warnings"))));
    Detach(config);
  }
}

TEST_F(OperatorsBridge, ThatWasRenamedIsHisToRenameBack) {
  const std::string renamed = "bridge 'lan' was renamed to 'br0'";
  const json add = Attach(Publish({Port(8080, 80)}, OnLan()));
  EXPECT_THAT(RunLine("reconcile"), Exits(0));
  host().Shell(
      "ip link set lan name br0 || { ip link set lan down; "
      "ip link set lan name br0; ip link set br0 up; }");

  EXPECT_THAT(
      RunLine("reconcile"),
      Exits(1, Err(HasSubstr(Cat(renamed, "; advice: let the node's network service give")))));
  EXPECT_THAT(MustCheck(Publish({Port(8080, 80)}, OnLan()), add), Err(HasSubstr(renamed)));
  EXPECT_THAT(MustRefuse(102, OnLan(), As("other", other_)), Msg(renamed));
  EXPECT_FALSE(HasInterface(host(), "lan"));
}

// Each line as a whole.
TEST_F(OperatorsBridge, ThatIsGoneIsNamedOnceForSeveralNetworks) {
  json second = OnLan({{"name", "second"}});
  second["ipam"]["ranges"][0][0]["rangeStart"] = "198.51.100.60";
  second["ipam"]["ranges"][1][0]["rangeStart"] = "2001:db8:100::60";
  Attach(OnLanBehindTheNode());
  Attach(second, As("second", AddContainer("second")));
  host().Must(Words("ip link delete lan"));
  const std::string gone = "bridge 'lan', which is its operator's, is gone";
  const std::string advice =
      "advice: let the node's network service make it again, with its uplink; then: nomad-bridge "
      "reconcile";

  EXPECT_THAT(
      RunLine("reconcile -n"),
      Exits(
          1,
          Out(Cat(gone, "; ", advice, "\n2 attachments; 1 found wrong, 1 cannot be repaired\n"))));
  EXPECT_THAT(RunLine("reconcile"),
              Exits(1,
                    AllOf(Out("2 attachments; 1 found wrong, 1 could not be repaired\n"),
                          Err(Cat("nomad-bridge: ", gone, "; ", advice, "\n")))));
  EXPECT_THAT(RunLine("doctor -quiet bridge.intact"),
              Exits(1,
                    Out(Cat("FAIL  bridge.intact         ",
                            gone,
                            "\n      ",
                            advice,
                            "\n1 failure, 0 warnings, 0 ok\n"))));
}

TEST_F(OperatorsBridge, ThatHasLostItsUplinkIsNamed) {
  Attach(OnLan());
  host().Must(Words("ip link set uplink nomaster"));
  EXPECT_THAT(RunLine("reconcile"), Exits(0, Err("")));
  const std::string lost =
      "'uplink' is no port of bridge 'lan' any more, and was its way to the LAN";
  EXPECT_THAT(RunLine("inspect alloc-1"), Exits(1, Out(HasSubstr(lost))));

  host().Shell(FixOf("fail", lost));
  EXPECT_EQ(FixOf("ok", ""), "");
  EXPECT_THAT(RunLine("inspect alloc-1"), Exits(0));
}

TEST_F(OperatorsBridge, WhoseUplinkCarriesNothingIsNamed) {
  Attach(OnLan());
  const auto answers = [&] {
    return test::Ask(container(), {.to = kOutsideIp4, .port = kPort}).has_value();
  };
  ASSERT_TRUE(answers());
  const std::string says = "'uplink', the way of bridge 'lan' to its LAN, ";
  for (const auto& [damage, state] :
       {std::pair{"ip link set uplink down", "is down"},
        std::pair{"bridge link set dev uplink state 0", "does not forward"}}) {
    host().Must(Words(damage));
    EXPECT_FALSE(answers());
    host().Shell(FixOf("fail", Cat(says, state)));
    EXPECT_TRUE(answers());
    EXPECT_EQ(FixOf("ok", ""), "");
  }
}

TEST_F(OperatorsBridge, HasNotLostAnUplinkThatIsAnotherBridgesNow) {
  Attach(OnLan());
  host().Must(Words("ip link add wan type bridge"));
  host().Must(Words("ip link set uplink master wan"));
  EXPECT_EQ(FixOf("ok", ""), "");
  EXPECT_THAT(RunLine("inspect alloc-1"), Out(Not(HasSubstr("was its way"))));
}

TEST_F(OperatorsBridge, HasNotLostAnUplinkThatWasReplaced) {
  Attach(OnLan());
  host().Must(Words("ip link add card up type veth peer name cable"));
  host().Must(Words("ip link set cable up"));
  host().Must(Words("ip link set uplink nomaster"));
  host().Must(Words("ip link set card master lan"));
  EXPECT_EQ(FixOf("ok", ""), "");
}

TEST_F(OperatorsBridge, HasLostNothingWithAVirtualMachineOrAContainer) {
  host().Must(Words("ip link set uplink nomaster"));
  host().Must(Words("ip tuntap add vnet0 mode tap"));
  host().Must(Words("ip link set vnet0 master lan"));
  host().Must(Words("ip link add vb-guest master lan type veth peer name host0 netns other"));
  Attach(OnLan());
  EXPECT_THAT(RunLine("reconcile"), Exits(0, Err("")));
  host().Must(Words("ip link delete vnet0"));
  host().Must(Words("ip link delete vb-guest"));
  EXPECT_EQ(FixOf("ok", ""), "");
}

TEST_F(OperatorsBridge, HasNoUplinkInAVirtualMachine) {
  Attach(OnLan());
  host().Must(Words("ip tuntap add vnet0 mode tap"));
  host().Must(Words("ip link set vnet0 master lan"));
  host().Must(Words("ip link set uplink nomaster"));
  EXPECT_EQ(
      FixOf("fail", "'uplink' is no port of bridge 'lan' any more, and was its way to the LAN"),
      "ip link set uplink up master lan");
}

TEST_F(OperatorsBridge, ThatHasLostTheNodesAddressIsNamed) {
  Attach(OnLan());
  host().Must(Words(Cat("ip address delete ", kHostIp4, "/24 dev lan")));
  EXPECT_THAT(RunLine("reconcile"), Exits(0, Err("")));
  const std::string lost = Format("the node has lost its address {}/24 on bridge 'lan'", kHostIp4);
  EXPECT_THAT(RunLine("inspect alloc-1"), Exits(1, Out(HasSubstr(lost))));
  host().Must(Words(Cat("ip address add ", kHostIp4, "/32 dev lo")));
  EXPECT_EQ(FixOf("ok", ""), "") << "it was moved";
  host().Must(Words(Cat("ip address delete ", kHostIp4, "/32 dev lo")));
  host().Shell(FixOf("fail", lost));
  EXPECT_EQ(FixOf("ok", ""), "");

  host().Must(Words(Cat("ip address add 203.0.113.9/24 dev lan")));
  host().Must(Words(Cat("ip address delete ", kHostIp4, "/24 dev lan")));
  EXPECT_EQ(FixOf("ok", ""), "") << "it has another one";
}

// To take the port out, or to add the address, would leave the LAN dark.
TEST_F(OperatorsBridge, WhoseAddressIsOnItsPortGetsItBack) {
  AddMachine();
  const std::string address = AddressOf(Attach(OnLan()));
  Serve(container(), Protocol::kTcp, {address}, kPort, "container");
  Serve(host(), Protocol::kTcp, {"0.0.0.0"}, kPort, "host");
  const std::string beyond = "203.0.113.9";
  const auto is_reached = [&] {
    return test::Ask(outside(), {.to = kHostIp4, .port = kPort}) &&
           test::Ask(outside(), {.to = address, .port = kPort}) &&
           test::Ask(host(), {.to = "198.51.100.77", .port = kPort}) &&
           test::Ask(host(), {.to = beyond, .port = kPort});
  };
  outside().Must(Words(Cat("ip address add ", beyond, "/32 dev lo")));
  Serve(outside(), Protocol::kTcp, {beyond}, kPort, "outside");
  ASSERT_TRUE(is_reached());
  host().Shell(Cat("ip address del ",
                   kHostIp4,
                   "/24 dev lan; ip address add ",
                   kHostIp4,
                   "/24 dev uplink; ip route replace default via ",
                   kOutsideIp4));
  ASSERT_FALSE(test::Ask(outside(), {.to = kHostIp4, .port = kPort}));

  const std::string lost = Format(
      "the node's address {}/24 is on 'uplink', not on bridge 'lan', whose port that is: nobody is "
      "reached by it any more",
      kHostIp4);
  EXPECT_THAT(RunLine("inspect alloc-1"),
              Exits(1, Out(AllOf(HasSubstr(lost), Not(HasSubstr("nomaster"))))));
  EXPECT_THAT(RunLine("doctor bridge.uplink"), Exits(1, Out(HasSubstr("1 failure"))));
  host().Shell(FixOf("fail", lost));
  EXPECT_EQ(FixOf("ok", ""), "");
  EXPECT_TRUE(Soon(is_reached));
  EXPECT_THAT(RunLine("doctor -quiet ports.blocked"), Exits(0));
}

// The bridge has the node's; to take the port out would cut it off.
TEST_F(OperatorsBridge, MayHaveAnOldAddressOnItsOnlyUplink) {
  Attach(OnLan());
  host().Must(Words("ip address add 203.0.113.9/24 dev uplink"));
  EXPECT_EQ(FixOf("ok", ""), "");
}

// What answers there answers to the bridge.
TEST_F(OperatorsBridge, ThatHasTakenACardWithAddressesIsNamed) {
  Node& beyond = AddBeyond();
  Serve(beyond, Protocol::kTcp, {"203.0.113.2"}, kPort, "beyond");
  Attach(OnLan());
  EXPECT_EQ(FixOf("ok", ""), "");
  const auto answers = [&] {
    return test::Ask(host(), {.to = "203.0.113.2", .port = kPort}).has_value();
  };
  ASSERT_TRUE(answers());
  host().Must(Words("ip link set beyond master lan"));
  host().Must(Words("ip neighbour flush dev beyond"));
  EXPECT_FALSE(answers());
  const std::string dark =
      "'beyond', which has the node's address 203.0.113.1/24, is a port of bridge 'lan': nobody is "
      "reached by it any more";
  EXPECT_THAT(RunLine("inspect alloc-1"), Exits(1, Out(HasSubstr(dark))));
  host().Shell(FixOf("fail", dark));
  EXPECT_EQ(FixOf("ok", ""), "");
  EXPECT_TRUE(Soon(answers));
}

// The kernel takes it away with the last port.
TEST_F(OperatorsBridge, WithoutAMacGetsOneThatStays) {
  host().Must(Words("ip link add empty type bridge"));
  host().Must(Words("ip link add card master empty type veth peer name cable"));
  host().Must(Words("ip link set card nomaster"));
  const auto mac = [&] { return LinkOn(host(), "empty").at("address").get<std::string>(); };
  ASSERT_EQ(mac(), "00:00:00:00:00:00");
  const json config = OnLan({{"bridge", "empty"}});
  Attach(config);
  const std::string given = mac();
  EXPECT_NE(given, "00:00:00:00:00:00");
  Attach(config, As("other", other_));
  Detach(config);
  EXPECT_EQ(mac(), given);
}

TEST_F(OperatorsBridge, HasNotLostTheAddressOfAGatewayOfOurs) {
  host().Must(Words("ip address flush dev lan scope global"));
  const json config = Config({{"name", "behind"}, {"bridge", "lan"}});
  Attach(config);
  EXPECT_THAT(RunLine("reconcile"), Exits(0, Err("")));
  host().Must(Words("ip -4 address flush dev lan"));
  EXPECT_EQ(FixOf("ok", ""), "");
}

TEST_F(OperatorsBridge, ThatIsGoneAndHadNoUplinkIsMadeAgainWithoutOne) {
  host().Must(Words("ip link add empty type bridge"));
  Attach(OnLan({{"bridge", "empty"}}));
  host().Must(Words("ip link delete empty"));
  EXPECT_THAT(
      RunLine("reconcile"),
      Exits(1,
            Err(HasSubstr("bridge 'empty', which is its operator's, is gone; advice: let the "
                          "node's network service make it again; then: nomad-bridge "
                          "reconcile"))));
}

TEST_F(OperatorsBridge, KeepsWhatAReconcileNotesWhileAnAddWaitsForTheLock) {
  constexpr const char* kNoted = "/run/nomad-bridge/.checkpoint";
  Attach(OnLan());
  const std::string noted = FindFile(kNoted).value();
  ASSERT_TRUE(fs::remove(kNoted));
  host().Must(Words("ip tuntap add vnet0 mode tap"));
  host().Must(Words("ip link set vnet0 master lan"));
  host().Must(Words("ip link set uplink nomaster"));

  UniqueFd lock = TryRulesLock();
  ASSERT_TRUE(lock);
  Process add = StartPlugin("ADD", OnLan(), As("other", other_));
  // One descriptor is for its own attachment's lock, the other one for that of the rules.
  ASSERT_TRUE(Soon([&] {
    const fs::directory_iterator fds(Format("/proc/{}/fd", add.pid()));
    return std::ranges::count_if(fds, [](const fs::directory_entry& fd) {
             std::error_code gone;
             return fs::read_symlink(fd, gone) == "/run/nomad-bridge/.lock";
           }) == 2;
  }));
  ReplaceFile(kNoted, noted);
  lock = UniqueFd();

  EXPECT_THAT(add.Wait(), Exits(0));
  EXPECT_EQ(json::parse(FindFile(kNoted).value()).at("bridges").at("lan").at("uplinks"),
            json::array({"uplink"}));
}

}  // namespace
}  // namespace nomad_bridge::test
