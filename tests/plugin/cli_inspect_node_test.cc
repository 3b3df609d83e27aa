// nomad-bridge inspect, of what is on the node: its addresses, and filters of tc.
#include "tests/plugin/cli_world.h"
#include "tests/support/soon.h"

namespace nomad_bridge::test {
namespace {

class InspectOnNode : public CliWorld {
 protected:
  void SetUp() override {
    Attach(Publish({Port(8080, 80)}, DualStack()));
    Serve(container(), Protocol::kTcp, {"::"}, 80, "hello");
    ASSERT_EQ(TcpText(outside(), kHostIp4, 8080), "hello");
    ASSERT_THAT(RunLine("inspect 8080"), Exits(0, Out(Not(HasSubstr("no address")))));
  }
};

// With them go the routes.
TEST_F(InspectOnNode, BlamesThatItHasNoAddress) {
  host().Must(Words("ip address flush dev uplink"));
  const std::string says = "this node has no address: nobody beyond it reaches it";
  EXPECT_EQ(At(RunLine("inspect -json 8080").json, "/attachments/0/diagnosis/cause"), says);
  EXPECT_THAT(RunLine("doctor ports.blocked"),
              Exits(1, Out(AllOf(HasSubstr(says), HasSubstr("give 'uplink' its addresses")))));
  host().Must(Words(Cat("ip address add ", kHostIp4, "/24 dev uplink")));
  EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "hello");
  EXPECT_THAT(RunLine("inspect 8080"), Exits(0));
}

// A node that has never had one looks the same.
TEST_F(InspectOnNode, NotesThatAnUplinkSetDownHasLostThoseOfIpv6) {
  host().Must(Words("ip link set uplink down"));
  host().Must(Words("ip link set uplink up"));
  EXPECT_TRUE(IsSilent(outside(), {.to = kHostIp6, .port = 8080}));
  EXPECT_THAT(
      RunLine("inspect 8080").out,
      HasSubstr("this node has no address for IPv6: nobody beyond it reaches the port there\n"));
}

// The older qdisc has none for what goes out.
TEST_F(InspectOnNode, NotesFiltersOfAnIngressQdiscOnce) {
  host().Must(Words("tc qdisc add dev uplink ingress"));
  host().Must({"sh",
               "-ec",
               "tc filter add dev uplink ingress protocol ip prio 5 bpf bytecode '1,6 0 0 0,' "
               "direct-action"});
  EXPECT_THAT(Output("inspect 8080"),
              AllOf(HasSubstr("tc filter show dev uplink ingress\n"), Not(HasSubstr("egress"))));
}

}  // namespace
}  // namespace nomad_bridge::test
