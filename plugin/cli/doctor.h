// The checks of `doctor`, which show whether the node is in order. `metrics` counts their results.
//
// Ids      Never change: operators ignore checks by id. Each check's file ends with a table of its
//          ids. A check gives one result, or one result for each mismatch.
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
#include <utility>
#include <vector>

#include "base/fix.h"
#include "base/mismatch.h"
#include "plugin/attachment/reconcile_report.h"
#include "plugin/cli/inventory.h"
#include "plugin/cni/conflist.h"
#include "plugin/state/host.h"

namespace nomad_bridge::cli {

enum class Verdict { kOk, kWarn, kFail };

struct CheckResult {
  std::string_view check;  // its id
  Verdict verdict;
  std::string what;                   // one line
  Fix fix;                            // empty if nothing is wrong
  std::vector<std::string> all = {};  // all lines, if there are several; `what` is the first
  std::string cause = {};             // the error that prevented the check; empty if it could run
  // The check in whose result people see the cause, if it is not this result; otherwise empty.
  std::string_view shown_by = {};
};

// The cost of a check. A dear check queries every attachment, reads large files, or starts another
// program. `metrics`, which runs every half minute, does not run dear checks. A check that probes
// sends packets; it runs only with `doctor -probe`, or if `doctor` is given its id.
enum class Cost { kCheap, kDear, kProbes };

// Runs the checks in `only`: ids, or their first words ("ports"). If `only` is empty, runs all
// checks except those that the node's operator ignores (node_config.h). Runs no check that costs
// more than `most`. Throws UsageError for an id that no check has.
[[nodiscard]] std::vector<CheckResult> RunChecks(state::Host& host,
                                                 const Inventory& inventory,
                                                 Cost most,
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
  Cost cost;
  void (*run)(Examination&);
};

// The data that the checks examine, and their results.
class Examination {
 public:
  Examination(state::Host& of, const Inventory& taken);

  state::Host& host;
  const Inventory& inventory;
  std::vector<const Attachment*> running;                // not dead, and have a part that is live
  std::vector<const Attachment*> publishing;             // those of `running` whose kPorts is live
  std::map<std::string, const state::Record*> gateways;  // by gateway: a record that uses it
  std::vector<CheckResult> results;

  void Run(const Check& check);

  // Adds a result of the running check.
  void Add(Verdict verdict, const std::string& what, const Fix& fix);
  void Ok(const std::string& what) { Add(Verdict::kOk, what, {}); }
  void Warn(const std::string& what, const Fix& fix) { Add(Verdict::kWarn, what, fix); }
  void Fail(const std::string& what, const Fix& fix) { Add(Verdict::kFail, what, fix); }
  // Adds one result for all lines: "FIRST LINE (and 3 more)". Adds nothing if `lines` is empty.
  void AddAll(Verdict verdict, const std::vector<std::string>& lines, const Fix& fix);
  // Returns whether a result already has this fix.
  [[nodiscard]] bool HasFix(const Fix& fix) const;
  // Adds what a reconcile would repair in these areas, and what it cannot repair or examine.
  void AddMismatches(const std::vector<Mismatch::Area>& areas);
  // Finds results with the same cause, and sets `shown_by`, so that people see the cause only once:
  // in the result of the check that found the cause itself, or else in the first of the worst
  // results.
  void FindSharedCauses();

  // Each function reads its data once, when a check first needs the data. If the data cannot be
  // read, only the checks that need it are affected.
  const Mismatches& Reconciled();                // what a reconcile would find
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

// The checks `ports.blocked` and `ports.probe` of kNetworkChecks.
void CheckBlockedPorts(Examination& node);
void ProbePorts(Examination& node);

// The checks `bridge.mac` and `containers` of kNetworkChecks.
void CheckMacs(Examination& node);
void CheckContainers(Examination& node);

template <Mismatch::Area... kAreas>
void CheckByReconcile(Examination& node) {
  node.AddMismatches({kAreas...});
}

}  // namespace nomad_bridge::cli
