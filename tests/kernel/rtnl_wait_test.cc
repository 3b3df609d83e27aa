// Waiting for a link that others bring up, hold back or delete, read back with ip(8).
#include "tests/kernel/rtnl_world.h"

namespace nomad_bridge::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class RtnlWait : public RtnlWorld {};

TEST_F(RtnlWait, EndsWhenAnotherProcessSetsTheLinkUp) {
  net_.CreateVeth(Spec(Bridge()), container_ns_);
  net_.Change(Port("veth0"), {.up = true});
  // Long enough for the wait to have begun, which nobody sees from outside.
  Process later = Shell("sleep 0.3; ip -n container link set eth0 up");

  EXPECT_TRUE(net_.AwaitOperational("veth0", FromNow(seconds(20))).operational);

  EXPECT_EQ(LinkOn(host(), "veth0").at("operstate"), "UP");
  EXPECT_EQ(later.Wait().exit_code, 0);
}

TEST_F(RtnlWait, EndsAtTheDeadlineWithoutCarrier) {
  net_.CreateVeth(Spec(Bridge()), container_ns_);
  // Somebody else's changes must neither end the wait nor put it off.
  Process noise = Shell("while :; do ip link set lo up; done");
  const auto begin = std::chrono::steady_clock::now();

  // "down", or "lowerlayerdown": it depends on the indices of the two ends.
  EXPECT_THAT(Thrown([&] {
                static_cast<void>(net_.AwaitOperational("veth0", FromNow(milliseconds(300))));
              }),
              IsError(Code::kTryAgain,
                      "interface 'veth0' did not become ready in time",
                      HasSubstr("down, its bridge port is disabled")));

  EXPECT_GE(std::chrono::steady_clock::now() - begin, milliseconds(300));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(5));
}

TEST_F(RtnlWait, EndsWhenTheLinkDisappears) {
  net_.CreateVeth(Spec(Bridge()), container_ns_);
  // Long enough for the wait to have begun, as above.
  Process later = Shell("sleep 0.3; ip link delete veth0");

  const Error error =
      Thrown([&] { static_cast<void>(net_.AwaitOperational("veth0", FromNow(seconds(20)))); });

  EXPECT_EQ(error.details(), "it has disappeared");
  EXPECT_EQ(later.Wait().exit_code, 0);
}

}  // namespace
}  // namespace nomad_bridge::test
