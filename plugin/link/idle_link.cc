#include "plugin/link/idle_link.h"

#include <cstdint>

#include "base/text.h"

namespace nomad_bridge::link {
namespace {

constexpr std::uint8_t kListening = 1;
constexpr std::uint8_t kLearning = 2;

}  // namespace

IdleLink DescribeIdle(const rtnl::Link& link) {
  if (!link.up) {
    return {.text = "is down", .fix = Format("ip link set {} up", ShellWord(link.name))};
  }
  return {
      .text = "has no carrier",
      .fix = Fix::Advice(Format("check the cable of '{}', or what it is connected to", link.name))};
}

// Without a spanning tree a port stays in the state that it is in. With one only that decides: a
// port that is made to forward may close a loop.
IdleLink DescribeHeldPort(const rtnl::Link& port, const rtnl::Link& bridge) {
  if (bridge.forward_delay == 0) {
    return {.text = "does not forward",
            .fix = Format("bridge link set dev {} state 3", ShellWord(port.name))};
  }
  constexpr int kOfASecond = 100;
  return {
      .text = Format("does not forward: the spanning tree of '{}' holds it back", bridge.name),
      .fix = Fix::Advice(Format("wait {} seconds, twice the forward delay of '{}'; if it stays so, "
                                "look for a loop behind the port",
                                2 * bridge.forward_delay / kOfASecond,
                                bridge.name)),
      .is_passing = port.port_state == kListening || port.port_state == kLearning};
}

}  // namespace nomad_bridge::link
