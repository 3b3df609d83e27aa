#include "plugin/cli/host_side.h"

#include <algorithm>
#include <array>

#include "base/list.h"
#include "base/text.h"
#include "firewall/table.h"
#include "plugin/attachment/reconcile.h"
#include "plugin/link/host_veth.h"
#include "plugin/rules/policy_tables.h"

namespace nomad_bridge::cli {
namespace {

using Area = Mismatch::Area;

// Returns whether packets to a published port pass in spite of the mismatch. Without the table of
// the bridge family, more packets pass, not fewer. Without hairpin mode, only connections from an
// allocation to its own published port fail.
bool IsPassing(const Mismatch& mismatch) {
  constexpr std::array kOthers = {Area::kLease, Area::kLeftOver, Area::kPolicy, Area::kLocalhost};
  const std::array<std::string, 2> passing = {
      link::kHairpinMode, Cat("table ", nft::Text(firewall::TableId(nft::TableFamily::kBridge)))};
  return Contains(kOthers, mismatch.area) || Contains(passing, mismatch.part);
}

// Returns whether the mismatch is in a chain of policies that does not judge packets to the
// allocation.
bool IsOfOtherPolicies(state::Host& host, const state::Record& record, const Mismatch& mismatch) {
  const bool is_incoming = mismatch.part.starts_with("chain in-");
  const auto is_about = [&](const nft::Chain& chain) {
    return mismatch.part == Cat("chain ", chain.name);
  };
  return mismatch.part.starts_with("chain out-") ||
         (is_incoming &&
          std::ranges::none_of(rules::TableOfKind(host.policy.Program(), record.Workload()).chains,
                               is_about));
}

// Returns whether the mismatch may stop packets to a port in question.
bool MayEnd(state::Host& host,
            const state::Record& record,
            const IsMeant& is_meant,
            const Mismatch& mismatch) {
  const auto is_concerned = [&](const portmap::DnatEntry& port) {
    const Family family = port.container_ip.family();
    return is_meant(port) && mismatch.family.value_or(family) == family;
  };
  return !IsPassing(mismatch) && !IsOfOtherPolicies(host, record, mismatch) &&
         (record.rules.ports.empty() || std::ranges::any_of(record.rules.ports, is_concerned));
}

}  // namespace

HostSide CompareHostSide(state::Host& host, const Attachment& attachment, const IsMeant& is_meant) {
  if (attachment.state == State::kMaking || attachment.state == State::kLeaving) {
    return {.causes = {{.text = Format("{} of this attachment has not finished",
                                       attachment.state == State::kMaking ? "an ADD" : "a DEL"),
                        .fix = "nomad-bridge gc"}}};
  }
  const std::optional<FileLock> lock = host.records.TryLock(attachment.id);
  if (!lock || attachment.state == State::kDead) {
    return {};
  }
  const state::Record& record = *attachment.record;
  const Mismatches found = attachment::ReconcileOne(host, record, Mode::kLook).mismatches;
  HostSide side;
  for (const Mismatch& mismatch : found.left()) {
    const bool is_of_rules = mismatch.area == Area::kTable || mismatch.area == Area::kStaticRules ||
                             mismatch.area == Area::kElement;
    side.are_rules_whole = side.are_rules_whole && !is_of_rules;
    side.causes.push_back({.text = mismatch.text,
                           .fix = FixOf(mismatch),
                           .ends = MayEnd(host, record, is_meant, mismatch)});
  }
  return side;
}

}  // namespace nomad_bridge::cli
