// A bridge that somebody else made: ours do not take its place when it is missing.
#include "tests/plugin/lan_world.h"

namespace nomad_bridge::test {
namespace {

constexpr const char* kMissing = "bridge 'lan', which nomad-bridge did not make, is missing";
constexpr const char* kAdvice =
    "advice: make it again as it was, with its uplink and its addresses (your network service "
    "does); then: nomad-bridge reconcile";

class OperatorsBridge : public LanWorld {};

TEST_F(OperatorsBridge, IsNotCreatedIfMissing) {
  for (const json& config : {OnLan(), OnLanBehindTheNode()}) {
    const json add = Attach(Publish({Port(8080, 80)}, config));
    host().Must(Words("ip link delete lan"));

    for (int twice = 0; twice < 2; ++twice) {
      EXPECT_THAT(
          RunLine("reconcile"),
          Exits(1, Err(AllOf(HasSubstr(Cat(kMissing, "; ", kAdvice)), Not(HasSubstr("127."))))));
    }
    EXPECT_THAT(RunLine("reconcile -n"), Exits(1, Out(Not(HasSubstr("no port of")))));
    EXPECT_THAT(RunLine("doctor bridge.intact"),
                Exits(1, Out(AllOf(HasSubstr(kMissing), HasSubstr(kAdvice)))));
    EXPECT_THAT(RunLine("inspect alloc-1"),
                Exits(1, Out(AllOf(HasSubstr(kMissing), HasSubstr(kAdvice)))));
    EXPECT_THAT(MustCheck(Publish({Port(8080, 80)}, config), add), Err(HasSubstr(kMissing)));
    EXPECT_THAT(MustRefuse(102, config, As("other", other_)), Msg(kMissing));
    EXPECT_FALSE(HasInterface(host(), "lan"));

    host().Shell(
        Cat("ip link add lan up type bridge; ip link set uplink master lan; ip address add ",
            kHostIp4,
            "/24 dev lan; ip address add ",
            kHostIp6,
            "/64 dev lan nodad"));
    EXPECT_THAT(RunLine("reconcile"), Exits(0));
    const std::string address = AddressOf(add);
    EXPECT_EQ(AskOutside(container(), kOutsideIp4), (Reply{"outside", address}));
    EXPECT_THAT(RunLine("doctor bridge"), Exits(0, Out(HasSubstr("0 warnings"))));
    Detach(config);
  }
}

TEST_F(OperatorsBridge, IsNotCreatedAfterARename) {
  const json add = Attach(Publish({Port(8080, 80)}, OnLan()));
  host().Shell(
      "ip link set lan name br0 || { ip link set lan down; "
      "ip link set lan name br0; ip link set br0 up; }");

  EXPECT_THAT(RunLine("reconcile"), Exits(1, Err(HasSubstr(kMissing))));
  EXPECT_THAT(MustCheck(Publish({Port(8080, 80)}, OnLan()), add), Err(HasSubstr(kMissing)));
  EXPECT_THAT(MustRefuse(102, OnLan(), As("other", other_)), Msg(kMissing));
  EXPECT_FALSE(HasInterface(host(), "lan"));
}

// Whose first attachment it would be.
TEST_F(OperatorsBridge, IsNotCreatedForAnotherNetworkIfMissing) {
  Attach(OnLanBehindTheNode());
  host().Must(Words("ip link delete lan"));
  EXPECT_THAT(MustRefuse(102, OnLan({{"name", "second"}}), As("other", other_)), Msg(kMissing));
  EXPECT_FALSE(HasInterface(host(), "lan"));
}

// Each line as a whole.
TEST_F(OperatorsBridge, IsNamedOnceForSeveralNetworksIfMissing) {
  json second = OnLan({{"name", "second"}});
  second["ipam"]["ranges"][0][0]["rangeStart"] = "198.51.100.60";
  second["ipam"]["ranges"][1][0]["rangeStart"] = "2001:db8:100::60";
  Attach(OnLanBehindTheNode());
  Attach(second, As("second", AddContainer("second")));
  host().Must(Words("ip link delete lan"));

  EXPECT_THAT(
      RunLine("reconcile -n"),
      Exits(
          1,
          Out(Cat(
              kMissing, "; ", kAdvice, "\n2 attachments; 1 found wrong, 1 cannot be repaired\n"))));
  EXPECT_THAT(RunLine("reconcile"),
              Exits(1,
                    AllOf(Out("2 attachments; 1 found wrong, 1 could not be repaired\n"),
                          Err(Cat("nomad-bridge: ", kMissing, "; ", kAdvice, "\n")))));
  EXPECT_THAT(RunLine("doctor bridge.intact"),
              Exits(1,
                    Out(Cat("FAIL  bridge.intact         ",
                            kMissing,
                            "\n      ",
                            kAdvice,
                            "\n1 failure, 0 warnings, 0 ok\n"))));
}

// The kernel takes it away with the last port.
TEST_F(OperatorsBridge, GetsAFixedMacIfItHasNone) {
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

}  // namespace
}  // namespace nomad_bridge::test
