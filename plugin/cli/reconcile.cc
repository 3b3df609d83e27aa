#include "plugin/attachment/reconcile.h"

#include <array>

#include "netlink/core/change_socket.h"
#include "plugin/cli/findings_report.h"
#include "plugin/state/host.h"

namespace nomad_bridge::cli {
namespace {

constexpr std::array<Flag, 3> kFlags = {
    kFindingsFlags[0],
    Flag{"if-changed", nullptr, "does nothing while nobody has changed a rule: one question"},
    kFindingsFlags[1]};

int RunReconcile(const Arguments& arguments) {
  if (const UniqueFd changes = netlink::TakeChangeSocket()) {
    netlink::AwaitQuiet(changes);
  }
  RequireRoot("reconcile");
  state::Host host = state::Host::Open();
  if (arguments.Has("if-changed") && attachment::IsUnchanged(host)) {
    return Report(arguments, "reconcile", {}, RulesetState::kUnchanged);
  }
  return Report(arguments,
                "reconcile",
                attachment::Reconcile(host, DryOf(arguments), ProgressOnTerminal("reconcile")));
}

}  // namespace

const Command kReconcile = {
    .name = "reconcile",
    .summary = "repairs the host's side of all networks",
    .text =
        R"(Bridges, gateway addresses, forwarding, the host's ends of the veth pairs, leases and rules
of every running allocation, as their records say; then other firewalls on this node. Nothing
inside an allocation is changed. Exit 1: something could not be repaired, or with -dry-run:
would be.
)",
    .flags = kFlags,
    .run = RunReconcile};

}  // namespace nomad_bridge::cli
