// The checks of doctor, by the files they are in, and what they share. No other code includes this.
//
// Errors  A check may throw; doctor.cc makes a warning of it.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plugin/attachment/reconcile.h"
#include "plugin/cli/doctor.h"
#include "plugin/cni/conflist.h"

namespace nomad_bridge::cli {

// A network config of the runtime, or why it is none.
struct ConfigFile {
  std::string path;
  std::vector<cni::PluginConfig> plugins;
  std::string error;
};

using CheckResults = std::vector<CheckResult>;

class Examination {
 public:
  // `most`: the dearest checks that will be asked for.
  Examination(state::Host& of, const Inventory& taken, Cost most);

  state::Host& host;
  const Inventory& inventory;
  std::vector<const Attachment*> running;                // with a record, and live
  std::map<std::string, const state::Record*> gateways;  // a record behind each
  std::string release;                                   // uname -r

  // Each is looked for once, when it is first asked for: what cannot be read fails that check alone.
  const std::vector<std::string>& PluginDirs();  // CNI_PATH, or Nomad's cni_path
  CheckResults ResultsIn(const std::vector<Mismatch::Area>& areas);
  const std::vector<ConfigFile>& Configs();

 private:
  const Mismatches& Reconciled();

  Cost most_;
  std::optional<Mismatches> reconciled_;
  std::optional<std::vector<std::string>> plugin_dirs_;
  std::optional<std::vector<ConfigFile>> configs_;
};

// "first of them (and 3 more)"
[[nodiscard]] std::string FirstOf(const std::vector<std::string>& lines);
// One result for all `lines`; none if there are none.
[[nodiscard]] CheckResults AllAs(Verdict verdict,
                                 const std::vector<std::string>& lines,
                                 const std::string& fix);
constexpr const char* kReconcileFix = "nomad-bridge reconcile";
constexpr const char* kGcFix = "nomad-bridge gc";

struct Check {
  std::string_view id;
  Cost cost;
  CheckResults (*run)(Examination&);
};

// In the order in which they are printed. To add one: an entry in the table of its file, and a row in
// docs/troubleshooting.md.
extern const std::span<const Check> kKernelChecks;
extern const std::span<const Check> kRulesChecks;
extern const std::span<const Check> kNetworkChecks;
extern const std::span<const Check> kNodeChecks;

// Of what a reconcile would repair in these areas, and of what it could not.
template <Mismatch::Area... kAreas>
CheckResults CheckByReconcile(Examination& node) {
  return node.ResultsIn({kAreas...});
}

}  // namespace nomad_bridge::cli
