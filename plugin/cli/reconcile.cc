#include "plugin/attachment/reconcile.h"

#include <array>
#include <optional>

#include "netlink/nft/change_socket.h"
#include "plugin/cli/findings_report.h"
#include "plugin/rules/converge.h"
#include "plugin/state/host.h"

namespace nomad_bridge::cli {
namespace {

constexpr std::array<Flag, 3> kFlags = {
    kFindingsFlags[0],
    Flag{"if-changed", nullptr, "does nothing while nobody has changed a rule: one question"},
    kFindingsFlags[1]};

int RunOnAll(const Arguments& arguments, state::Host& host) {
  return Report(arguments,
                "reconcile",
                attachment::Reconcile(host, DryOf(arguments), ProgressOnTerminal("reconcile")));
}

int RunIfChanged(const Arguments& arguments,
                 state::Host& host,
                 const std::optional<nft::Changes>& changes) {
  if (attachment::IsUnchanged(host)) {
    return Report(arguments, "reconcile", {}, RulesetState::kUnchanged);
  }
  if (changes && rules::AreForeign(host, *changes) && DryOf(arguments) == attachment::Dry::kNo) {
    return Report(arguments,
                  "reconcile",
                  attachment::ReconcileAfterForeignChanges(host),
                  RulesetState::kOthersChanged);
  }
  return RunOnAll(arguments, host);
}

int RunReconcile(const Arguments& arguments) {
  std::optional<nft::Changes> changes;
  if (const UniqueFd socket = nft::TakeChangeSocket()) {
    changes = nft::ReadChanges(socket);
  }
  RequireRoot("reconcile");
  state::Host host = state::Host::Open();
  return arguments.Has("if-changed") ? RunIfChanged(arguments, host, changes)
                                     : RunOnAll(arguments, host);
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
