// The checks of doctor, by the files they are in, and what they share. No other code includes this.
//
// Errors  A check may throw; doctor.cc makes a warning of it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "plugin/cli/doctor.h"
#include "plugin/cni/conflist.h"

namespace nomad_bridge::cli {

// A network config of the runtime, or why it is none.
struct ConfigFile {
  std::string path;
  std::vector<cni::PluginConfig> plugins;
  std::string error;
};

using Diagnoses = std::vector<Diagnosis>;

class Examination {
 public:
  Examination(state::Host& of, const Inventory& taken);

  state::Host& host;
  const Inventory& inventory;
  std::vector<const Attachment*> running;                // with a record, and live
  std::map<std::string, const state::Record*> gateways;  // a record behind each
  std::string release;                                   // uname -r
  std::vector<std::string> plugin_dirs;                  // CNI_PATH, or Nomad's cni_path

  // Each is looked for once, when it is first asked for.
  const std::vector<std::string>& RuleMismatches();
  const std::vector<ConfigFile>& Configs();

 private:
  std::optional<std::vector<std::string>> rule_mismatches_;
  std::optional<std::vector<ConfigFile>> configs_;
};

// "first of them (and 3 more)"
[[nodiscard]] std::string FirstOf(const std::vector<std::string>& lines);
// One diagnosis for all `lines`; none if there are none.
[[nodiscard]] Diagnoses AllAs(Verdict verdict,
                              const std::vector<std::string>& lines,
                              const std::string& fix);
constexpr const char* kReconcileFix = "nomad-bridge reconcile";
constexpr const char* kGcFix = "nomad-bridge gc";

// doctor_kernel.cc
Diagnoses CheckNfTables(Examination& node);
Diagnoses CheckBridgeModule(Examination& node);
Diagnoses CheckBrNetfilter(Examination& node);
Diagnoses CheckConntrack(Examination& node);
Diagnoses CheckConntrackRoom(Examination& node);
Diagnoses CheckForwarding(Examination& node);
Diagnoses CheckReversePath(Examination& node);
Diagnoses CheckRouteLocalnet(Examination& node);
// doctor_rules.cc
Diagnoses CheckTable(Examination& node);
Diagnoses CheckStaticRules(Examination& node);
Diagnoses CheckOrphanElements(Examination& node);
Diagnoses CheckForeignChains(Examination& node);
Diagnoses CheckFirewalldZone(Examination& node);
// doctor_networks.cc
Diagnoses CheckWorldPorts(Examination& node);
Diagnoses CheckShadowedPorts(Examination& node);
Diagnoses CheckOrphanLeases(Examination& node);
Diagnoses CheckLeasesLeft(Examination& node);
Diagnoses CheckBridgePorts(Examination& node);
Diagnoses CheckMtu(Examination& node);
Diagnoses CheckSubnets(Examination& node);
Diagnoses CheckDead(Examination& node);
// doctor_node.cc
Diagnoses CheckNetworkd(Examination& node);
Diagnoses CheckNetworkManager(Examination& node);
Diagnoses CheckPluginVersion(Examination& node);
Diagnoses CheckShadowedPlugins(Examination& node);
Diagnoses CheckMissingPlugins(Examination& node);
Diagnoses CheckConflists(Examination& node);
Diagnoses CheckIptables(Examination& node);
Diagnoses CheckDnsStub(Examination& node);

}  // namespace nomad_bridge::cli
