// Damages: what somebody breaks on a node, and the node on which it happens.
//
// Source  fixtures/damages.txt, which says how a row is written
// Node    An allocation publishes 8080 tcp and udp, of both families, and 8081 tcp on a second
//         address of the node. All lead to port 80. On tcp it answers "hello", on udp more than
//         fits into one packet. Runtimes find the plugin and the conflist where Nomad looks for
//         them; /etc belongs to the test. The policy of iptables' FORWARD is drop, and the
//         operator has a rule in NOMAD-ADMIN.
#pragma once

#include <regex>

#include <sys/mount.h>

#include "tests/plugin/cli_world.h"
#include "tests/support/fixture.h"
#include "tests/support/mounted.h"
#include "tests/support/soon.h"

namespace nomad_bridge::test {

constexpr const char* kSecondIp4 = "198.51.100.9";
// Behind the outside, not on the uplink's subnet.
constexpr const char* kFarIp4 = "203.0.113.5";

struct Damage : Named {
  std::string command;  // for sh on the host, or in the container
  bool is_in_container = false;
  std::string before;              // for sh on the host, before the first ADD
  std::string firewall = "none";   // beside us
  std::string says;                // in all commands; $VETH and $ADDRESS are the allocation's
  std::vector<std::string> stops;  // ways of traffic
  std::string station;             // of inspect; "-": at none; "": inspect does not name it
  std::vector<std::vector<std::string>> checks;  // of doctor: verdict, id, text (if it is another)
  std::string reconcile;                         // "repairs", "names" or ""
  bool is_refused = false;                       // by CHECK
  std::string remedy;                            // "fix" or "advice"
  std::string fix;                               // a part of it
};

// The rows of the table.
[[nodiscard]] std::vector<Damage> Damages();
[[nodiscard]] std::vector<Damage> DamagesNamed(const std::set<std::string_view>& names);

class DamageWorld : public CliWorld, public ::testing::WithParamInterface<Damage> {
 protected:
  void SetUp() override;
  void TearDown() override;

  [[nodiscard]] std::string Filled(std::string text) const;
  // Whether a connection, or a ping for "out" and "out6", is answered. "policy" is a connection of
  // a neighbour that the policies refuse.
  [[nodiscard]] bool Answers(const std::string& way, std::chrono::milliseconds patience);
  [[nodiscard]] bool Answers(const std::string& way);
  // The ways that it stops, and no others.
  void ExpectStopped();
  // Asks about the way. StationOf() returns where it ends; "-": nowhere.
  [[nodiscard]] Outcome Inspect(const std::string& way);
  [[nodiscard]] static json Causes(const Outcome& inspect);
  [[nodiscard]] static std::string StationOf(const Outcome& inspect);
  // The findings of doctor, as JSON, that are not ok.
  [[nodiscard]] std::vector<json> Examine(bool probes);
  // Whether doctor finds the damage only by sending packets.
  [[nodiscard]] static bool NeedsProbe();

  void Break();
  void Paste(const std::string& fix);
  // Pastes the fixes of what inspect said, or doctor, and of what inspect says then.
  void PasteFixes(json said);
  // Puts back what is the operator's own affair, if the damage took it away.
  void RestoreOperatorsRules();
  // The first way is open again, and nobody names the damage. After a repair all is as before.
  void ExpectHealed();

  [[nodiscard]] const std::string& FirstWay() const;

  Mounted opt_{{"-t", "tmpfs", "tmpfs"}, "/opt"};
  Mounted etc_{{"-t", "overlay", MakeLayers(), "overlay"}, "/etc"};
  const json config_ =
      Publish({Port(8080, 80), Port(8080, 80, "udp"), Port(8081, 80, "tcp", kSecondIp4)},
              DualStack());
  json add_;
  std::string address_;
  std::string veth_;
  Snapshot before_;

 private:
  [[nodiscard]] static std::string MakeLayers();
  Node* neighbour_ = nullptr;
};

}  // namespace nomad_bridge::test
