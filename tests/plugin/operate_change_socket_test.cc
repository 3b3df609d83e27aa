// nomad-bridge reconcile as systemd starts it after a change of nf_tables: with the socket on which
// the changes came.
#include <sys/socket.h>

#include "tests/plugin/cli_world.h"

namespace nomad_bridge::test {
namespace {

class ReconcileByTheSocket : public CliWorld {
 protected:
  ReconcileByTheSocket() {
    Attach(Publish({Port(8080, 80)}));
    Serve(container(), Protocol::kTcp, {"0.0.0.0"}, 80, "page");
    Listen();
  }

  void ExpectServes() { EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "page"); }
};

TEST_F(ReconcileByTheSocket, ComparesOnlyTheRulesAfterAForeignChange) {
  host().Must(Words("nft add table inet others"));
  EXPECT_THAT(RunByTheSocket(),
              Exits(0, AllOf(Out("0 attachments; nothing to repair\n"), Err(""))));
}

// The timer's run is handed the socket, too.
TEST_F(ReconcileByTheSocket, ComparesEverythingIfThereWasNoChange) {
  EXPECT_THAT(RunLine("reconcile"), Exits(0));  // the first comparison is of everything
  Listen();
  host().Must(Words("nft delete element inet nomad-bridge port4 { tcp . 8080 }"));
  EXPECT_EQ(RunByTheSocket().out, "0 attachments; nothing to repair\n") << "no rule has changed";
  EXPECT_EQ(RunByTheSocket().out, "1 attachment; 1 repaired\n");
  ExpectServes();
}

TEST_F(ReconcileByTheSocket, RepairsOurRulesInForeignTables) {
  host().Must(Words("iptables -F CNI-FORWARD"));
  EXPECT_THAT(RunByTheSocket(), Exits(0, Err(HasSubstr("repaired: "))));
  EXPECT_THAT(host().Must(Words("iptables -S CNI-FORWARD")), HasSubstr("-A CNI-FORWARD"));
}

// A reload leaves a bridge in no zone that it does not have permanently.
TEST_F(ReconcileByTheSocket, GivesFirewalldTheZoneAgain) {
  StartFirewall("firewalld");
  EXPECT_THAT(RunLine("reconcile"), Exits(0));
  Listen();
  host().Must(Words("firewall-cmd --zone=trusted --remove-interface=nomad"));
  EXPECT_THAT(RunByTheSocket(), Exits(0, Err(HasSubstr("repaired: 'nomad' is in no zone"))));
}

TEST_F(ReconcileByTheSocket, RepairsAFlushWhoseMessagesWereLost) {
  const int smallest = 1;
  ASSERT_EQ(::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVBUF, &smallest, sizeof smallest), 0);
  for (const char* const table : {"one", "two", "three", "four", "five", "six"}) {
    host().Must({"nft", "add", "table", "inet", table, "{ chain c { counter; counter; }; }"});
  }
  host().Must(Words("nft flush ruleset"));
  EXPECT_THAT(RunByTheSocket(), Exits(0));
  ExpectServes();
}

}  // namespace
}  // namespace nomad_bridge::test
