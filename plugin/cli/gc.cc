#include "plugin/attachment/reclaim.h"
#include "plugin/cli/findings_report.h"
#include "plugin/state/host.h"

namespace nomad_bridge::cli {
namespace {

int RunGc(const Arguments& arguments) {
  RequireRoot("gc");
  state::Host host = state::Host::Open();
  return Report(
      arguments, "gc", attachment::ReclaimAll(host, DryOf(arguments), ProgressOnTerminal("gc")));
}

}  // namespace

const Command kGc = {
    .name = "gc",
    .summary = "takes back what dead allocations hold",
    .text =
        R"(In all networks: the records, addresses and ports of allocations whose namespace is gone,
leases that nothing else belongs to, and elements of the rules without an owner. Running
allocations are left alone. Exit 1: something stayed, or with -dry-run: there is something.
)",
    .flags = kFindingsFlags,
    .run = RunGc};

}  // namespace nomad_bridge::cli
