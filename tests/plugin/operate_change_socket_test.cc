// nomad-bridge reconcile -if-changed as systemd starts it after a change of nf_tables: with the
// socket on which the changes came. What only others have changed costs no question for each
// attachment.
#include <linux/netlink.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/plugin/cli_world.h"
#include "tests/support/refusal.h"
#include "tests/support/rules_lock.h"
#include "tests/support/soon.h"

namespace nomad_bridge::test {
namespace {

class ReconcileByTheSocket : public CliWorld {
 protected:
  ReconcileByTheSocket() {
    Attach(Publish({Port(8080, 80)}));
    Serve(container(), Protocol::kTcp, {"0.0.0.0"}, 80, "page");
    Listen();
  }

  // As systemd does with ListenNetlink=netfilter 64.
  void Listen() {
    socket_ = UniqueFd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER));
    const sockaddr_nl address{.nl_family = AF_NETLINK, .nl_pad = 0, .nl_pid = 0, .nl_groups = 64};
    ASSERT_EQ(::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
              0);
  }

  [[nodiscard]] Command IfChanged() {
    Command command = Line({});
    // The shell for the process id, which LISTEN_PID must be.
    command.argv = {"sh",
                    "-c",
                    "LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" reconcile -if-changed",
                    command.argv.front()};
    command.in_child = [this] {
      constexpr int kFirstHanded = 3;
      ::dup2(socket_.get(), kFirstHanded);
    };
    return command;
  }
  [[nodiscard]] Outcome RunIfChanged() { return Execute(IfChanged()); }

  void ExpectServes() { EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "page"); }

  UniqueFd socket_;
};

TEST_F(ReconcileByTheSocket, LooksOnlyAtWhatIsSharedAfterAChangeOfOthers) {
  host().Must(Words("nft add table inet others"));
  EXPECT_THAT(RunIfChanged(), Out("only other tables have changed; nothing to repair\n"));
  EXPECT_EQ(RunIfChanged().out, "1 attachment; nothing to repair\n") << "as the timer runs it";
  EXPECT_EQ(RunIfChanged().out, "nothing has changed\n");
}

TEST_F(ReconcileByTheSocket, RepairsWhatWeHaveInATableOfOthers) {
  host().Must(Words("iptables -F CNI-FORWARD"));
  EXPECT_THAT(
      RunIfChanged(),
      AllOf(Out(HasSubstr("only other tables have changed; ")), Err(HasSubstr("repaired: "))));
  EXPECT_THAT(host().Must(Words("iptables -S CNI-FORWARD")), HasSubstr("-A CNI-FORWARD"));
}

// A reload leaves a bridge in no zone that it does not have permanently.
TEST_F(ReconcileByTheSocket, GivesFirewalldItsZoneAgain) {
  StartFirewall("firewalld");
  EXPECT_THAT(RunLine("reconcile"), Exits(0));
  EXPECT_THAT(RunLine("reconcile"), Exits(0, Err("")));
  Listen();
  host().Must(Words("firewall-cmd --zone=trusted --remove-interface=nomad"));
  EXPECT_THAT(RunIfChanged(),
              Exits(0,
                    AllOf(Out(HasSubstr("only other tables have changed; ")),
                          Err(HasSubstr("repaired: 'nomad' is in no zone")))));
}

// ---- everything is compared

TEST_F(ReconcileByTheSocket, RepairsAnElementThatWasDeleted) {
  host().Must(Words("nft add table inet others"));
  host().Must(Words("nft delete element inet nomad-bridge port4 { tcp . 8080 }"));
  EXPECT_THAT(RunIfChanged(), Out("1 attachment; 1 repaired\n"));
  ExpectServes();
}

// After it has read that only others have changed something, and before it looks at the rules.
TEST_F(ReconcileByTheSocket, RepairsAnElementThatIsDeletedMeanwhile) {
  static_cast<void>(RunLine("reconcile -if-changed"));
  EXPECT_EQ(Output("reconcile -if-changed"), "nothing has changed\n");
  Listen();
  host().Must(Words("nft add table inet others"));
  UniqueFd rules = TryRulesLock();
  ASSERT_TRUE(rules);
  const std::string log = "/run/calls";
  Process waits = Process::Start(UnderStrace(IfChanged(), log, {"-e", "trace=fcntl"}));
  ASSERT_TRUE(Soon([&] { return FindFile(log).value_or("").find("F_OFD_SETLK") != log.npos; }));
  host().Must(Words("nft delete element inet nomad-bridge port4 { tcp . 8080 }"));
  rules = UniqueFd();
  EXPECT_THAT(waits.Wait(), Out(HasSubstr("only other tables have changed; ")));

  EXPECT_EQ(RunIfChanged().out, "1 attachment; 1 repaired\n");
  ExpectServes();
}

TEST_F(ReconcileByTheSocket, RepairsAFlushedRuleset) {
  host().Must(Words("nft flush ruleset"));
  EXPECT_THAT(RunIfChanged().out, HasSubstr("1 attachment; "));
  ExpectServes();
}

TEST_F(ReconcileByTheSocket, RepairsWhatWasDeletedBeforeTheSocketWasMade) {
  host().Must(Words("nft delete element inet nomad-bridge port4 { tcp . 8080 }"));
  Listen();
  host().Must(Words("nft add table inet others"));
  EXPECT_EQ(RunIfChanged().out, "1 attachment; 1 repaired\n");
  ExpectServes();
}

TEST_F(ReconcileByTheSocket, RepairsWhatALostMessageTold) {
  const int smallest = 1;
  ASSERT_EQ(::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVBUF, &smallest, sizeof smallest), 0);
  for (const char* const table : {"one", "two", "three", "four", "five", "six"}) {
    host().Must({"nft", "add", "table", "inet", table, "{ chain c { counter; counter; }; }"});
  }
  host().Must(Words("nft delete element inet nomad-bridge port4 { tcp . 8080 }"));
  EXPECT_EQ(RunIfChanged().out, "1 attachment; 1 repaired\n");
  ExpectServes();
}

}  // namespace
}  // namespace nomad_bridge::test
