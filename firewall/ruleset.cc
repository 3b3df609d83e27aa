#include "firewall/ruleset.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/list.h"
#include "base/text.h"
#include "firewall/planned_elements.h"
#include "firewall/skeleton.h"
#include "firewall/static_rules.h"
#include "firewall/table.h"
#include "netlink/nft/commit.h"

namespace nomad_bridge::firewall {
namespace {

using Reading = PlannedElements::Reading;

struct Plan {
  nft::Batch batch;
  std::optional<Conflict> conflict;
  std::vector<std::string> repaired;
};

bool IsShared(const nft::Element& element) {
  return element.comment.empty();
}

// "tcp . 8080 in port4 of veth3f2a91c04d7e"
std::string Name(const nft::Table& table, const nft::Element& element) {
  const nft::Set* const set = table.FindSet(element.set);
  const std::string key = set == nullptr ? "an element" : nft::KeyText(*set, element);
  return Format("{} in {}{}{}", key, element.set, IsShared(element) ? "" : " of ", element.owner());
}

void PlanDeletes(PlannedElements& elements, const Change& change) {
  for (const nft::Element& element : change.remove_owned) {
    const std::optional<nft::Element> present =
        IsShared(element) ? std::nullopt : elements.Find(element);
    if (present && present->owner() == element.owner()) {
      elements.Delete(*present);
    }
  }
  for (const nft::Element& element : change.remove_shared) {
    if (elements.Find(element)) {
      elements.Delete(element);
    }
  }
}

std::optional<Conflict> PlanChange(PlannedElements& elements, const Change& change) {
  PlanDeletes(elements, change);  // first: a key may go from one owner to another in one batch
  for (const nft::Element& wanted : change.add) {
    const std::optional<nft::Element> present = elements.Find(wanted);
    if (!present) {
      elements.Add(wanted);
    } else if (!IsShared(wanted) && *present != wanted) {
      if (present->owner() != wanted.owner() &&
          std::ranges::count(change.stale_owners, present->owner()) == 0) {
        return Conflict{.wanted = wanted, .present = *present};
      }
      elements.Replace(*present, wanted);
    }
  }
  return std::nullopt;
}

// Restores the elements of `desired` that are missing or different, and names them. What belongs to
// another owner by now is left alone.
std::vector<std::string> PlanRepair(PlannedElements& elements,
                                    const nft::Table& table,
                                    const DesiredState& desired) {
  std::vector<std::string> mismatches;
  for (const nft::Element& element : desired.elements) {
    const std::optional<nft::Element> present = elements.Find(element);
    if (!present) {
      elements.Add(element);
      mismatches.push_back(Name(table, element));
    } else if (!IsShared(element) && present->owner() == element.owner() && *present != element) {
      elements.Replace(*present, element);
      mismatches.push_back(Name(table, element));
    }
  }
  return mismatches;
}

// Repairs what `live` attachments need, then makes `change`, unless that is null.
Plan PlanVerified(nft::Socket& socket,
                  const nft::Table& table,
                  const Change* change,
                  const std::vector<DesiredState>& live) {
  Plan plan;
  const SkeletonPlan skeleton = DescribeSkeleton(socket, table, plan.batch);
  PlannedElements elements(
      socket, table.id, skeleton.is_new ? Reading::kNothing : Reading::kWholeSets, plan.batch);
  std::vector<ForwardHook> forward_hooks;
  plan.repaired = skeleton.mismatches;
  const bool had_elements =
      std::ranges::any_of(live, [](const DesiredState& one) { return !one.elements.empty(); });
  if (skeleton.is_new && had_elements) {
    plan.repaired.push_back(Cat("table ", nft::Text(table.id), " with all that was in it"));
  }
  // Before `change`: after a flush a port still belongs to the attachment that had it.
  for (const DesiredState& desired : live) {
    forward_hooks.push_back(desired.forward_hook);
    std::vector<std::string> lost = PlanRepair(elements, table, desired);
    if (!skeleton.is_new) {
      Append(plan.repaired, std::move(lost));
    }
  }
  // Described once for `live` alone: what only `change` needs is new, and not reported as repaired.
  nft::Batch unused;
  Append(plan.repaired, DescribeStaticRules(socket, forward_hooks, unused));
  if (change != nullptr) {
    plan.conflict = PlanChange(elements, *change);
    forward_hooks.push_back(change->forward_hook);
  }
  static_cast<void>(DescribeStaticRules(socket, forward_hooks, plan.batch));
  return plan;
}

Plan PlanQuickly(nft::Socket& socket,
                 const nft::Table& table,
                 const Change& change,
                 PlanMode mode) {
  Plan plan;
  PlannedElements elements(socket, table.id, Reading::kSingly, plan.batch);
  for (const nft::Element& wanted : change.add) {
    if (IsShared(wanted) && change.shared_in_force) {
      elements.AssumePresent(wanted);
    } else if (!IsShared(wanted) && mode == PlanMode::kAssumeAbsent) {
      elements.AssumeAbsent(wanted);
    }
  }
  plan.conflict = PlanChange(elements, change);
  return plan;
}

// After a refusal: a key that is taken is looked up; anything else means that the table is not as
// the checkpoint has it, and is compared. If that plan is refused too, it throws.
PlanMode NextMode(PlanMode mode, const nft::Batch& batch, const nft::CommitReply& reply) {
  if (mode == PlanMode::kVerify) {
    nft::ThrowIfRefused(batch, reply);
  }
  const bool only_taken =
      std::ranges::count(reply.refused, EEXIST, &nft::Refusal::error) == std::ssize(reply.refused);
  return mode == PlanMode::kAssumeAbsent && only_taken ? PlanMode::kLookUp : PlanMode::kVerify;
}

std::string ChangingTheTable() {
  return Cat("change table ", nft::Text(TableId()));
}

}  // namespace

Outcome Apply(nft::Socket& socket,
              const nft::Table& table,
              const Change& change,
              std::optional<std::uint32_t> checkpoint,
              const ListDesired& list_desired) {
  PlanMode mode = change.mode;
  Outcome outcome;
  const auto attempt = [&](std::uint32_t generation) {
    if (checkpoint != generation ||
        (!change.shared_in_force && !HasStaticRules(socket, change.forward_hook))) {
      mode = PlanMode::kVerify;
    }
    Plan plan = mode == PlanMode::kVerify ? PlanVerified(socket, table, &change, list_desired())
                                          : PlanQuickly(socket, table, change, mode);
    if (plan.conflict) {
      outcome = {.conflict = std::move(plan.conflict)};
      return true;
    }
    if (plan.batch.empty()) {
      outcome = {.generation = generation};
      return true;
    }
    const nft::CommitReply reply = socket.Commit(plan.batch, generation);
    if (!reply.refused.empty()) {
      mode = NextMode(mode, plan.batch, reply);
    }
    outcome = {.generation = nft::NextGeneration(generation), .repaired = std::move(plan.repaired)};
    return reply.done();
  };
  nft::RetryOnGenerations(socket, ChangingTheTable(), checkpoint, attempt);
  return outcome;
}

std::optional<std::uint32_t> RemoveElements(nft::Socket& socket,
                                            const std::vector<nft::Element>& elements,
                                            std::optional<std::uint32_t> checkpoint) {
  Change change;
  change.remove_owned = elements;
  std::optional<std::uint32_t> after;
  nft::RetryOnGenerations(socket, ChangingTheTable(), {}, [&](std::uint32_t generation) {
    nft::Batch batch;
    PlannedElements present(socket, TableId(), Reading::kSingly, batch);
    PlanDeletes(present, change);
    if (checkpoint == generation) {
      after = batch.empty() ? generation : nft::NextGeneration(generation);
    } else {
      after.reset();
    }
    return nft::TryCommit(socket, batch, generation);
  });
  return after;
}

std::vector<nft::Element> OwnedElements(nft::Socket& socket) {
  std::vector<nft::Element> owned;
  for (const nft::Set& set : socket.Sets(TableId())) {
    for (nft::Element& element : socket.Elements(TableId(), set.name)) {
      if (!IsShared(element)) {
        owned.push_back(std::move(element));
      }
    }
  }
  return owned;
}

std::vector<std::string> Diff(nft::Socket& socket,
                              const nft::Table& table,
                              const DesiredState& desired) {
  std::vector<std::string> mismatches;
  nft::RetryOnGenerations(socket, ChangingTheTable(), {}, [&](std::uint32_t generation) {
    mismatches = PlanVerified(socket, table, nullptr, {desired}).repaired;
    return socket.Generation() == generation;
  });
  return mismatches;
}

}  // namespace nomad_bridge::firewall
