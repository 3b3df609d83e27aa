// Damages: what somebody breaks on a node, and the node on which it happens.
//
// Source  fixtures/damages.txt, which says how a row is written
// Node    That of published_world.h. Runtimes find the plugin and the conflist where Nomad looks
//         for them; /etc belongs to the test. The policy of iptables' FORWARD is drop, and the
//         operator has a rule in NOMAD-ADMIN.
#pragma once

#include "tests/plugin/published_world.h"
#include "tests/support/mounted.h"

namespace nomad_bridge::test {

struct Damage : Named {
  // A finding of doctor.
  struct Check {
    std::string verdict;
    std::string id;
    std::string what;  // a part of it; empty: `says`
  };

  std::string command;  // for sh on the host, or in the container
  bool is_in_container = false;
  std::string before;              // for sh on the host, before the first ADD
  std::string firewall = "none";   // beside us
  std::string says;                // in all commands; $VETH and $ADDRESS are the allocation's
  std::vector<std::string> stops;  // names of ways, "policy" or "..."
  std::string station;             // of inspect; "-": at none; "": inspect does not name it
  std::vector<Check> checks;
  std::string reconcile;         // "repairs", "names" or ""
  bool is_refused = false;       // by CHECK
  std::string remedy;            // "fix" or "advice"
  std::string fix;               // a part of it
  bool ends_allocation = false;  // the fix does
};

// The rows of the table.
[[nodiscard]] std::vector<Damage> Damages();
[[nodiscard]] std::vector<Damage> DamagesNamed(const std::set<std::string_view>& names);

class DamageWorld : public PublishedWorld, public ::testing::WithParamInterface<Damage> {
 protected:
  void SetUp() override;
  void TearDown() override;

  // The ways that it stops, and no others.
  void ExpectStopped();
  // Asks about the first way that it stops.
  [[nodiscard]] Outcome Inspect();
  [[nodiscard]] static json DiagnosisIn(const Outcome& inspect);
  [[nodiscard]] static json CausesIn(const Outcome& inspect);
  // The findings of doctor, as JSON, that are not ok. It sends packets if it finds the damage only
  // so.
  [[nodiscard]] std::vector<json> Examine();

  void Break();
  // Pastes the fixes of what inspect said, or doctor, and of what inspect says then.
  void PasteFixes(json said);
  // Puts back what is the operator's own affair, if the damage took it away.
  void RestoreOperatorsRules();
  // The first way is open again, and nobody names the damage. After a repair all is as before.
  void ExpectHealed();

  Mounted opt_{{"-t", "tmpfs", "tmpfs"}, "/opt"};
  Mounted etc_{{"-t", "overlay", MakeLayers(), "overlay"}, "/etc"};
  Snapshot before_;

 private:
  [[nodiscard]] static std::string MakeLayers();
  // A neighbour reaches the allocation, which policies refuse.
  [[nodiscard]] bool IsPolicyOpen();
  [[nodiscard]] static Way FirstWay();

  Node* neighbour_ = nullptr;
};

}  // namespace nomad_bridge::test
