#include "plugin/attachment/collect.h"
#include "plugin/attachment/reconcile.h"
#include "plugin/cli/outcome_report.h"
#include "plugin/state/host.h"

namespace nomad_bridge::cli {
namespace {

int RunGc(const Arguments& arguments) {
  RequireRoot("gc");
  state::Host host = state::Host::Open();
  const Mode mode = ModeOf(arguments);
  attachment::Outcome outcome = attachment::Collect(host, {}, mode, ProgressOnTerminal("gc"));
  outcome.Try("the rules", [&] {
    outcome.mismatches.AddAll(
        attachment::Reconcile(host, {.extent = attachment::Scope::Extent::kRules}, mode)
            .mismatches);
  });
  return Report(arguments, "gc", outcome);
}

}  // namespace

const Command kGc = {
    .name = "gc",
    .summary = "takes back what stale allocations hold",
    .text =
        R"(In all networks: the records, addresses and ports of allocations whose namespace is gone,
leases that nothing else belongs to, and elements of the rules without an owner. Running
allocations are left alone. Exit 1: something stayed, or with -dry-run: there is something.
)",
    .flags = kOutcomeFlags,
    .run = RunGc};

}  // namespace nomad_bridge::cli
