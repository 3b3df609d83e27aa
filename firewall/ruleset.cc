#include "firewall/ruleset.h"

#include <algorithm>
#include <cerrno>

#include "base/error.h"
#include "base/file_lock.h"
#include "base/text.h"
#include "firewall/planned_elements.h"
#include "firewall/skeleton.h"
#include "firewall/static_rules.h"
#include "firewall/table.h"

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
  return Cat(key, " in ", element.set, IsShared(element) ? "" : " of ", element.owner());
}

void PlanDeletes(PlannedElements& elements, const Change& change) {
  for (const nft::Element& element : change.remove_owned) {
    const std::optional<nft::Element> present = elements.Find(element);
    if (present && !IsShared(element) && present->owner() == element.owner()) {
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
      continue;
    }
    if (IsShared(wanted) || *present == wanted) {
      continue;
    }
    const bool mine = present->owner() == wanted.owner();
    if (!mine &&
        std::count(change.stale_owners.begin(), change.stale_owners.end(), present->owner()) == 0) {
      return Conflict{.wanted = wanted, .present = *present};
    }
    elements.Replace(*present, wanted);
  }
  return std::nullopt;
}

// Puts back what `holding` lost, and names it. What now belongs to somebody else is left alone.
std::vector<std::string> PlanRepair(PlannedElements& elements,
                                    const nft::Table& table,
                                    const DesiredState& desired) {
  std::vector<std::string> mismatches;
  for (const nft::Element& held : desired.elements) {
    const std::optional<nft::Element> present = elements.Find(held);
    if (!present) {
      elements.Add(held);
      mismatches.push_back(Name(table, held));
    } else if (!IsShared(held) && present->owner() == held.owner() && *present != held) {
      elements.Replace(*present, held);
      mismatches.push_back(Name(table, held));
    }
  }
  return mismatches;
}

// `change` may be absent: then the plan is only what `living` need.
Plan PlanVerified(nft::Socket& socket,
                  const nft::Table& table,
                  const Change* change,
                  const std::vector<DesiredState>& living) {
  Plan plan;
  const SkeletonPlan skeleton = DescribeSkeleton(socket, table, plan.batch);
  PlannedElements elements(
      socket, table.id, skeleton.made_anew ? Reading::kNothing : Reading::kWholeSets, plan.batch);
  std::vector<ForwardHook> forward_hooks;
  plan.repaired = skeleton.mismatches;
  const bool had_elements = std::any_of(
      living.begin(), living.end(), [](const DesiredState& one) { return !one.elements.empty(); });
  if (skeleton.made_anew && had_elements) {
    plan.repaired.push_back(Cat("table ", nft::Text(table.id), " with all that was in it"));
  }
  // The living first: after a flush their ports are theirs, not the first comer's.
  for (const DesiredState& desired : living) {
    forward_hooks.push_back(desired.forward_hook);
    const std::vector<std::string> lost = PlanRepair(elements, table, desired);
    if (!skeleton.made_anew) {
      plan.repaired.insert(plan.repaired.end(), lost.begin(), lost.end());
    }
  }
  // Only what a living attachment lost is mended; what `change` needs for the first time is just
  // made.
  nft::Batch lost_by_living;
  const std::vector<std::string> lost = DescribeStaticRules(socket, forward_hooks, lost_by_living);
  plan.repaired.insert(plan.repaired.end(), lost.begin(), lost.end());
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

Plan MakePlan(nft::Socket& socket,
              const nft::Table& table,
              const Change& change,
              PlanMode mode,
              const ListDesired& living) {
  return mode == PlanMode::kVerify ? PlanVerified(socket, table, &change, living())
                                   : PlanQuickly(socket, table, change, mode);
}

// Asked only of a ruleset that is trusted.
bool IsSharedThere(nft::Socket& socket, const Change& change) {
  return change.shared_in_force || HasStaticRules(socket, change.forward_hook);
}

// After a refusal: a taken key is looked up; anything else means that the kernel's table is not
// what we trusted it to be.
PlanMode NextMode(PlanMode mode, const nft::Batch& batch, const nft::CommitReply& reply) {
  const nft::Refusal& first = reply.refused.front();
  if (mode == PlanMode::kVerify) {
    throw Error(
        Code::kKernel, Cat("cannot ", batch.messages()[first.message].label), first.details);
  }
  const bool only_taken =
      std::all_of(reply.refused.begin(), reply.refused.end(), [](const nft::Refusal& refusal) {
        return refusal.error == EEXIST;
      });
  return mode == PlanMode::kAssumeAbsent && only_taken ? PlanMode::kLookUp : PlanMode::kVerify;
}

void RequireTime(Deadline deadline) {
  if (std::chrono::steady_clock::now() > deadline) {
    throw Error(Code::kTryAgain,
                Cat("cannot change table ", nft::Text(TableId())),
                "other programs keep changing the nf_tables ruleset");
  }
}

}  // namespace

Outcome Apply(nft::Socket& socket,
              const nft::Table& table,
              const Change& change,
              std::optional<std::uint32_t> trusted,
              const ListDesired& living) {
  const Deadline deadline = FromNow(kTimeout);
  PlanMode mode = change.mode;
  std::uint32_t generation = trusted ? *trusted : socket.Generation();
  for (;; generation = socket.Generation()) {
    if (trusted != generation || !IsSharedThere(socket, change)) {
      mode = PlanMode::kVerify;
    }
    Plan plan = MakePlan(socket, table, change, mode, living);
    if (plan.conflict) {
      return {.conflict = std::move(plan.conflict), .generation = {}, .repaired = {}};
    }
    if (plan.batch.empty()) {
      return {.conflict = {}, .generation = generation, .repaired = {}};
    }
    const nft::CommitReply reply = socket.Commit(plan.batch, generation);
    if (reply.done()) {
      return {.conflict = {},
              .generation = nft::NextGeneration(generation),
              .repaired = std::move(plan.repaired)};
    }
    if (!reply.refused.empty()) {
      mode = NextMode(mode, plan.batch, reply);
    }
    RequireTime(deadline);
  }
}

std::optional<std::uint32_t> RemoveElements(nft::Socket& socket,
                                            const std::vector<nft::Element>& elements,
                                            std::optional<std::uint32_t> trusted) {
  Change change;
  change.remove_owned = elements;
  const Deadline deadline = FromNow(kTimeout);
  while (true) {
    const std::uint32_t generation = socket.Generation();
    nft::Batch batch;
    PlannedElements present(socket, TableId(), Reading::kSingly, batch);
    static_cast<void>(PlanChange(present, change));
    const bool still_trusted = trusted == generation;
    if (batch.empty()) {
      return still_trusted ? trusted : std::nullopt;
    }
    const nft::CommitReply reply = socket.Commit(batch, generation);
    if (reply.done()) {
      return still_trusted ? std::optional(nft::NextGeneration(generation)) : std::nullopt;
    }
    if (!reply.refused.empty()) {
      const nft::Refusal& first = reply.refused.front();
      throw Error(
          Code::kKernel, Cat("cannot ", batch.messages()[first.message].label), first.details);
    }
    RequireTime(deadline);
  }
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
  const Deadline deadline = FromNow(kTimeout);
  while (true) {
    const std::uint32_t generation = socket.Generation();
    Plan plan = PlanVerified(socket, table, nullptr, {desired});
    if (socket.Generation() == generation) {
      return std::move(plan.repaired);
    }
    RequireTime(deadline);
  }
}

}  // namespace nomad_bridge::firewall
