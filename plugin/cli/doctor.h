// The checks of `doctor`, which show whether the node is in order. `metrics` counts their results.
//
// Ids      Never change: operators ignore checks by id. Each check's file ends with a table of its
//          ids. A check gives one result, or one result for each finding.
// Errors   A check may throw; its result is then a warning with the error.
// Root     Needed.
// Locks    A reconcile in mode kLook, whose result the checks share, takes the rules' lock while it
//          compares.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/finding.h"
#include "plugin/attachment/reconcile_report.h"
#include "plugin/cli/inventory.h"
#include "plugin/cni/conflist.h"
#include "plugin/state/host.h"

namespace nomad_bridge::cli {

// Returns the findings of each check: at least one, a note if nothing is wrong. Runs the checks in
// `only`: ids, or their first words ("ports"). If `only` is empty, runs all
// checks except those that the node's operator ignores (node_config.h). Runs the checks that send
// packets only if `probes` is true. Throws UsageError for an id that no check has.
[[nodiscard]] FindingList RunChecks(state::Host& host,
                                    const Inventory& inventory,
                                    bool probes,
                                    const std::vector<std::string>& only = {});

// Returns the ids of all checks, in their order.
[[nodiscard]] std::vector<std::string_view> CheckIds();

// Returns whether `name` is the id of a check, or the first word of one.
[[nodiscard]] bool IsAnyCalled(std::string_view name);

// A network config file of the runtime. `error` is empty, or says why the file is not valid.
struct ConfigFile {
  std::string path;
  std::vector<cni::PluginConfig> plugins;
  std::string error;
};

class Examination;

struct Check {
  std::string_view id;
  void (*run)(Examination&);
  bool probes = false;  // it sends packets
};

// The data that the checks examine, and what they find.
class Examination {
 public:
  using Severity = Finding::Severity;

  Examination(state::Host& of, const Inventory& taken);

  state::Host& host;
  const Inventory& inventory;
  std::vector<const Attachment*> running;                // not dead, and have a part that is live
  std::vector<const Attachment*> publishing;             // those of `running` whose kPorts is live
  std::map<std::string, const state::Record*> gateways;  // by gateway: a record that uses it
  FindingList findings;

  void Run(const Check& check);

  // Adds a finding of the running check.
  void Add(Severity severity, const std::string& text, const Fix& fix);
  void Ok(const std::string& text) { Add(Severity::kNote, text, {}); }
  void Warn(const std::string& text, const Fix& fix) { Add(Severity::kWarning, text, fix); }
  void Fail(const std::string& text, const Fix& fix) { Add(Severity::kFault, text, fix); }
  // Adds findings of one cause as one: "FIRST TEXT (and 3 more)". A cause is the same if its text
  // or its fix is. A text is preceded by its owner, if the owner is a container.
  void AddAll(FindingList found);
  void AddAll(Severity severity, const std::vector<std::string>& texts, const Fix& fix);
  // Adds those that no check has found before.
  void AddUnreported(FindingList found);
  // Adds what a reconcile would repair in these areas, and what it cannot repair or examine.
  void AddFindings(const std::vector<Finding::Area>& areas);
  // Finds checks that failed for the same reason, and sets `shown_by`, so that people see the
  // reason only once: in the finding of the check that found it, or else in the first of the worst.
  void FindSharedReasons();

  // Each function reads its data once, when a check first needs the data. If the data cannot be
  // read, only the checks that need it are affected.
  const Findings& Reconciled();                  // what a reconcile would find
  const std::vector<std::string>& PluginDirs();  // CNI_PATH, or Nomad's cni_path
  const std::vector<ConfigFile>& Configs();

 private:
  std::string_view check_;
  std::optional<attachment::ReconcileReport> reconciled_;
  std::vector<std::string> plugin_dirs_;  // empty until they are read; there is always at least one
  std::optional<std::vector<ConfigFile>> configs_;
};

constexpr const char* kGcFix = "nomad-bridge gc";

// The checks in the order in which their results are printed. To add a check, add an entry to the
// table of its file, and a row to docs/troubleshooting.md.
extern const std::span<const Check> kKernelChecks;
extern const std::span<const Check> kNetworkChecks;
extern const std::span<const Check> kPolicyChecks;
extern const std::span<const Check> kNodeChecks;
extern const std::span<const Check> kProbeChecks;

template <Finding::Area... kAreas>
void CheckByReconcile(Examination& node) {
  node.AddFindings({kAreas...});
}

}  // namespace nomad_bridge::cli
