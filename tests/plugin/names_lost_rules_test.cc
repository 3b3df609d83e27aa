// Rules of the reference plugins that somebody has deleted, on a node that is moved over to us.
#include "tests/plugin/names_moving_world.h"

namespace nomad_bridge::test {
namespace {

struct Lost : Named {
  const char* table;
  // Of all rules in question, as "iptables -S" shows them.
  const char* beginning;
  const char* part;
  // With them the chain that they jump to.
  bool with_chain = false;
  // What CHECK reports; empty: the part is still there, so nothing is promised.
  const char* mismatch = "";
};

class LostReferenceRules : public MovingWorld, public ::testing::WithParamInterface<Lost> {
 protected:
  // Publishes `port` by TCP and the one after it by UDP.
  static Attached Allocation(const std::string& id, const Node& container, int port) {
    return WithPorts(id, container, {Port(port, 80), Port(port + 1, 53, "udp")});
  }

  std::string Rules() { return List("nat") + List("filter"); }

  // By the shell, which reads quotes as the tool writes them.
  void Delete() {
    std::string chain;
    for (const std::string& rule : Lines(List(lost_.table))) {
      if (rule.starts_with(lost_.beginning) && rule.find(lost_.part) != rule.npos) {
        host().Must({"sh", "-c", Cat("iptables -t ", lost_.table, " -D ", rule.substr(3))});
        chain = rule.substr(rule.rfind(' ') + 1);
      }
    }
    ASSERT_FALSE(chain.empty()) << "no such rule";
    if (lost_.with_chain) {
      host().Must({"iptables", "-t", lost_.table, "-F", chain});
      host().Must({"iptables", "-t", lost_.table, "-X", chain});
    }
  }

  const Lost lost_ = GetParam();

 private:
  std::string List(const char* table) { return host().Must({"iptables", "-t", table, "-S"}); }
};

TEST_P(LostReferenceRules, AreReportedByCheckIfAPartIsGoneAndDoNotPreventDel) {
  MustAdd(Theirs(), Allocation("older", AddContainer("other"), 7080));
  const std::string before = Rules();
  const Attached old = MustAdd(Theirs(), Allocation("old", container(), 7070));
  MustCheckIn(Ours(), old);
  ASSERT_NO_FATAL_FAILURE(Delete());

  if (*lost_.mismatch != '\0') {
    EXPECT_THAT(CheckIn(Ours(), old), Exits(Ne(0), MsgAndDetails(HasSubstr(lost_.mismatch))));
  }
  MustDelFrom(Ours(), old);

  EXPECT_EQ(Rules(), before);
}

INSTANTIATE_TEST_SUITE_P(
    ,
    LostReferenceRules,
    ::testing::Values(
        Lost{"BothAccepts",
             "filter",
             "-A CNI-FORWARD ",
             "172.26.64.3/32",
             false,
             "accept its packets"},
        Lost{"MasqueradeChain", "nat", "-A POSTROUTING -s 172.26.64.3/32", "", true, "masquerades"},
        Lost{"PortChain",
             "nat",
             "-A CNI-HOSTPORT-DNAT ",
             "id: \\\"old\\\"",
             true,
             "published ports"},
        Lost{"AcceptFrom", "filter", "-A CNI-FORWARD -s 172.26.64.3/32", "ACCEPT"},
        Lost{"AcceptTo", "filter", "-A CNI-FORWARD -d 172.26.64.3/32", "ACCEPT"},
        Lost{"Masquerade", "nat", "-A CNI-", "id: \\\"old\\\"\" -j MASQUERADE"},
        Lost{"TcpJump", "nat", "-A CNI-HOSTPORT-DNAT -p tcp", "--dports 7070"},
        Lost{"UdpJump", "nat", "-A CNI-HOSTPORT-DNAT -p udp", "--dports 7071"},
        Lost{"TcpDnat", "nat", "-A CNI-DN-", "172.26.64.3:80"},
        Lost{"UdpDnat", "nat", "-A CNI-DN-", "172.26.64.3:53"}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace nomad_bridge::test
