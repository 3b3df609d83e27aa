#include "plugin/attachment/reconcile.h"

#include <array>
#include <optional>

#include "netlink/nft/change_socket.h"
#include "plugin/cli/outcome_report.h"
#include "plugin/rules/converge.h"
#include "plugin/state/host.h"

namespace nomad_bridge::cli {
namespace {

constexpr std::array<Flag, 3> kFlags = {
    kOutcomeFlags[0],
    Flag{"if-changed", nullptr, "does nothing while neither rules nor links have changed"},
    kOutcomeFlags[1]};

int RunOn(const Arguments& arguments,
          state::Host& host,
          attachment::Scope::Extent extent,
          RulesetState state) {
  return Report(arguments,
                "reconcile",
                attachment::Reconcile(
                    host, {.extent = extent}, ModeOf(arguments), ProgressOnTerminal("reconcile")),
                state);
}

int RunIfChanged(const Arguments& arguments,
                 state::Host& host,
                 const std::optional<nft::Changes>& changes) {
  using Extent = attachment::Scope::Extent;
  // Without one it is the timer that runs us: links, addresses and sysctls are looked at, too.
  const bool is_of_rules = changes && changes->first_generation;
  if (rules::FindCurrentCheckpoint(host) && (is_of_rules || attachment::IsUnchanged(host))) {
    const Mode mode = ModeOf(arguments);
    return Report(arguments, "reconcile", attachment::Outcome(mode), RulesetState::kUnchanged);
  }
  const bool is_foreign = is_of_rules && rules::AreForeign(host, *changes);
  return is_foreign ? RunOn(arguments, host, Extent::kShared, RulesetState::kOthersChanged)
                    : RunOn(arguments, host, Extent::kAll, RulesetState::kCompared);
}

int RunReconcile(const Arguments& arguments) {
  std::optional<nft::Changes> changes;
  if (const UniqueFd socket = nft::TakeChangeSocket()) {
    changes = nft::ReadChanges(socket);
  }
  RequireRoot("reconcile");
  state::Host host = state::Host::Open();
  return arguments.Has("if-changed")
             ? RunIfChanged(arguments, host, changes)
             : RunOn(arguments, host, attachment::Scope::Extent::kAll, RulesetState::kCompared);
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
