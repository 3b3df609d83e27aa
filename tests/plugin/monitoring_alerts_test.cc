// Each alert of examples/prometheus/alerts.yml, by the metrics of a real node: it fires after the
// node was broken, and not before. alerts_test.yml has the same with made-up series, for the times
// and the texts.
#include "tests/plugin/monitoring_world.h"
#include "tests/support/soon.h"

namespace nomad_bridge::test {
namespace {

// Those that need more than the metrics of one node: alerts_test.yml alone has them.
const std::set<std::string> kOfOthers = {"NomadBridgeMetricsAreOld", "NomadBridgeReleasesDiffer"};

class Alerts : public Monitoring {
 protected:
  void SetUp() override {
    host().Must(Words("ip link set lo up"));
    host().Must(Words(Cat("ip route replace default via ", kOutsideIp4, " dev uplink")));
    host().Must(Words(Cat("ip -6 route replace default via ", kOutsideIp6, " dev uplink")));
    AttachBilling(Publish({Port(8080, 80)}, DualStack()));
  }

  // What fires at any time, "NomadBridgeFault table.intact", if a node prints one of `history`
  // after the other: the first for an hour, the last for two, and each other for five minutes.
  [[nodiscard]] std::set<std::string> Firing(const std::vector<Counts>& history) {
    std::set<std::string> names;
    for (const Counts& samples : history) {
      for (const auto& [name, value] : samples) {
        names.insert(name);
      }
    }
    json series = {{{"series", "up"}, {"values", "1x200"}}};
    for (const std::string& name : names) {
      std::string values;
      for (std::size_t i = 0; i < history.size(); ++i) {
        const int minutes = i == 0 ? 60 : i + 1 == history.size() ? 120 : 5;
        const auto sample = history[i].find(name);
        values += sample == history[i].end() ? Format("_x{} ", minutes)
                                             : Format("{}x{} ", sample->second, minutes - 1);
      }
      series.push_back({{"series", name}, {"values", values}});
    }
    const json test = {
        {"rule_files", {"/run/alerts.yml"}},
        {"evaluation_interval", "1m"},
        {"tests",
         {{{"interval", "1m"},
           {"input_series", series},
           {"promql_expr_test",
            {{{"expr",
               "count by (alertname, check) (max_over_time(ALERTS{alertstate=\"firing\"}[4h]))"},
              {"eval_time", "3h"},
              {"exp_samples", json::array()}}}}}}}};
    ReplaceFile("/run/alerts.yml", ReadFixture("../examples/prometheus/alerts.yml"));
    ReplaceFile("/run/test.yml", test.dump());
    const Outcome outcome = host().Run({"promtool", "test", "rules", "/run/test.yml"});
    // Nothing is expected: what fires is what it complains about.
    const std::set<std::string> firing =
        AllIn(outcome.out + outcome.err, "\\{(alertname=[^}]*)\\}");
    EXPECT_EQ(outcome.exit_code, firing.empty() ? 0 : 1) << outcome;
    return firing;
  }

  // `alert` is "NomadBridgeFault" or "NomadBridgeFault/table.intact".
  [[nodiscard]] static bool IsIn(const std::set<std::string>& firing, const std::string& alert) {
    const std::size_t slash = alert.find('/');
    const std::string name = Cat("alertname=\"", alert.substr(0, slash), '"');
    const std::string check =
        slash == alert.npos ? "" : Cat("check=\"", alert.substr(slash + 1), '"');
    return std::ranges::any_of(firing, [&](const std::string& each) {
      return each.find(name) != each.npos && each.find(check) != each.npos;
    });
  }

  // Breaks the node, in one step or in several, and expects that the alert fires from then on.
  void ExpectFiresAfter(const std::string& alert,
                        const std::function<void()>& break_it,
                        int times = 1) {
    std::vector<Counts> history = {Samples()};
    EXPECT_FALSE(IsIn(Firing({history.front(), history.front()}), alert)) << "on a healthy node";
    for (int i = 0; i < times; ++i) {
      break_it();
      history.push_back(Samples());
    }
    const std::set<std::string> firing = Firing(history);
    EXPECT_TRUE(IsIn(firing, alert)) << alert << ::testing::PrintToString(firing);
  }
  void ExpectFiresAfter(const std::string& alert, const std::string& damage) {
    ExpectFiresAfter(alert, [&] { host().Shell(damage); });
  }

  Node& other_ = AddContainer("other");
};

// Traffic is lost, whatever the reason.
TEST_F(Alerts, FireWithoutTheRules) {
  ExpectFiresAfter("NomadBridgeFault/table.intact", "nft delete table inet nomad-bridge");
}
TEST_F(Alerts, FireWithoutADefaultRoute) {
  ExpectFiresAfter("NomadBridgeFault/ports.blocked", "ip route delete default");
}
TEST_F(Alerts, FireIfTheUplinkIsDown) {
  ExpectFiresAfter("NomadBridgeFault/ports.blocked", "ip link set uplink down");
}
TEST_F(Alerts, FireIfTheBridgeIsDown) {
  ExpectFiresAfter("NomadBridgeFault/bridge.intact", "ip link set nomad down");
}
TEST_F(Alerts, FireIfAnotherFirewallDrops) {
  ExpectFiresAfter("NomadBridgeFault/forward.foreign",
                   "nft 'table inet mine { chain f { type filter hook forward priority 10; policy "
                   "drop; }; }'");
}

TEST_F(Alerts, FireForAWarningThatStays) {
  ExpectFiresAfter("NomadBridgeWarning/dead", [&] { AttachDead("doomed", DualStack()); });
}

TEST_F(Alerts, FireForRefusedAdds) {
  ExpectFiresAfter("NomadBridgeRefusesAllocations", [&] {
    EXPECT_NE(RunPlugin("ADD", Config({{"mtu", 12}}), As("other", other_)).exit_code, 0);
  });
}

TEST_F(Alerts, FireIfAnotherProgramUndoesRepairs) {
  constexpr int kTimes = 5;
  ExpectFiresAfter(
      "NomadBridgeRepairsAgainAndAgain",
      [&] {
        host().Must(Words("nft delete table inet nomad-bridge"));
        EXPECT_THAT(RunLine("reconcile"), Exits(0));
      },
      kTimes);
}

TEST_F(Alerts, FireIfReconcileFails) {
  host().Nft("table inet mine { chain f { type filter hook forward priority 10; policy drop; }; }");
  ExpectFiresAfter("NomadBridgeReconcileFails", [&] {
    for (int i = 0; i < 6; ++i) {
      EXPECT_THAT(RunLine("reconcile"), Exits(1));
    }
  });
  EXPECT_THAT(RunLine("reconcile -dry-run"), Exits(1));
  EXPECT_EQ(Samples().at("nomad_bridge_reconcile_failures_total{}"), 6U)
      << "a dry run fails nothing";
}

TEST_F(Alerts, FireIfPacketsAreDropped) {
  ExpectFiresAfter(
      "NomadBridgeDropsPackets",
      [&] {
        for (int i = 0; i < 10; ++i) {
          static_cast<void>(Ask(outside(),
                                {.protocol = Protocol::kUdp,
                                 .to = "172.26.64.2",
                                 .port = 9000,
                                 .patience = std::chrono::milliseconds(10)}));
        }
      },
      4);
}

TEST_F(Alerts, FireForAPoolThatIsNearlyFull) {
  const json small =
      Config({{"name", "small"}, {"bridge", "small"}, {"ipam", {{"subnet", "10.8.0.0/28"}}}});
  Attach(small, As("small-0", other_));
  int number = 0;
  ExpectFiresAfter("NomadBridgeAddressesRunOut", [&] {
    constexpr int kMost = 12;  // of 13
    while (++number < kMost) {
      const std::string name = Cat("small-", number);
      Attach(small, As(name, AddContainer(name)));
    }
  });
}

TEST_F(Alerts, FireForABridgeThatIsNearlyFull) {
  ExpectFiresAfter("NomadBridgePortsRunOut", [&] {
    constexpr int kPorts = 980;
    std::string commands;
    for (int i = 0; i < kPorts; ++i) {
      commands += Format("link add p{} master nomad type veth peer name q{}\n", i, i);
    }
    host().Must({"ip", "-batch", "-"}, commands);
  });
}

class PolicyAlerts : public Alerts {
 protected:
  void SetUp() override {
    Alerts::SetUp();
    address_ = AddressOf(Attach(DualStack(), As("server", other_, NomadArgs("server", "server"))));
    ApplyAPolicy();
  }
  // Sends a datagram to each of these ports, which the policy refuses.
  void Scan(int ports) {
    constexpr const char* kScan = R"(
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for port in range(1, int(sys.argv[2]) + 1):
    try:
        s.sendto(b'x', (sys.argv[1], port))
    except OSError:
        s.sendto(b'x', (sys.argv[1], port))
)";
    container().Must({"python3", "-c", kScan, address_, std::to_string(ports)});
  }

  std::string address_;
};

TEST_F(PolicyAlerts, FireIfMoreConnectionsAreRefused) {
  ExpectFiresAfter("NomadBridgeRefusesMoreConnections", [&] { Scan(60); });
}
TEST_F(PolicyAlerts, FireIfFilesAreNotInForce) {
  ExpectFiresAfter("NomadBridgePoliciesDiffer", [&] {
    ReplaceFile("/run/policy.d/a.json", R"({"version": 1, "policies": []})");
  });
}
TEST_F(PolicyAlerts, FireIfTheFlowsAreFull) {
  ExpectFiresAfter("NomadBridgeFlowsAreFull", [&] { Scan(6000); });
}

TEST_F(Alerts, FireIfTheMetricsAreGone) {
  const Counts before = Samples();
  EXPECT_FALSE(IsIn(Firing({before, before}), "NomadBridgeMetricsAreMissing"));
  EXPECT_TRUE(IsIn(Firing({before, {}}), "NomadBridgeMetricsAreMissing"));
}

TEST(AlertsOfTheExample, AreAllRaisedHere) {
  const std::string own = ReadFixture("../tests/plugin/monitoring_alerts_test.cc");
  for (const std::string& alert :
       AllIn(ReadFixture("../examples/prometheus/alerts.yml"), "alert: (\\w+)")) {
    EXPECT_TRUE(kOfOthers.contains(alert) || own.find(Cat('"', alert)) != own.npos)
        << alert << " is raised by no broken node";
  }
}

}  // namespace
}  // namespace nomad_bridge::test
