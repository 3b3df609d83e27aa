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

// How much is looked at before a commit; the next one only if the one before was refused.
enum class Care {
  kTrusting,   // our elements are taken to be absent: the kernel says if one is not
  kLookingUp,  // the elements in question are read one by one
  kVerifying,  // everything that should be there is compared with what is
};

struct Plan {
  NftBatch batch;
  std::optional<Conflict> conflict;
  std::vector<std::string> mended;
};

bool IsShared(const NftElement& element) {
  return element.comment.empty();
}

// "tcp . 8080 in port4 of veth3f2a91c04d7e"
std::string Name(const NftTable& table, const NftElement& element) {
  const NftSet* const set = table.FindSet(element.set);
  const std::string key = set == nullptr ? "an element" : KeyText(*set, element);
  return Cat(key, " in ", element.set, IsShared(element) ? "" : " of ", element.owner());
}

void PlanDeletes(PlannedElements& elements, const Change& change) {
  for (const NftElement& unwanted : change.unwanted) {
    const std::optional<NftElement> present = elements.Find(unwanted);
    if (present && !IsShared(unwanted) && present->owner() == unwanted.owner()) {
      elements.Delete(*present);
    }
  }
  for (const NftElement& retired : change.retired) {
    if (elements.Find(retired)) {
      elements.Delete(retired);
    }
  }
}

std::optional<Conflict> PlanChange(PlannedElements& elements, const Change& change) {
  PlanDeletes(elements, change);  // first: a key may go from one owner to another in one batch
  for (const NftElement& wanted : change.wanted) {
    const std::optional<NftElement> present = elements.Find(wanted);
    if (!present) {
      elements.Add(wanted);
      continue;
    }
    if (IsShared(wanted) || *present == wanted) {
      continue;
    }
    const bool mine = present->owner() == wanted.owner();
    if (!mine && std::count(change.dead.begin(), change.dead.end(), present->owner()) == 0) {
      return Conflict{.wanted = wanted, .present = *present};
    }
    elements.Replace(*present, wanted);
  }
  return std::nullopt;
}

// Puts back what `holding` lost, and names it. What now belongs to somebody else is left alone.
std::vector<std::string> PlanRepair(PlannedElements& elements,
                                    const NftTable& table,
                                    const Holding& holding) {
  std::vector<std::string> phrases;
  for (const NftElement& held : holding.elements) {
    const std::optional<NftElement> present = elements.Find(held);
    if (!present) {
      elements.Add(held);
      phrases.push_back(Name(table, held));
    } else if (!IsShared(held) && present->owner() == held.owner() && *present != held) {
      elements.Replace(*present, held);
      phrases.push_back(Name(table, held));
    }
  }
  return phrases;
}

// `change` may be absent: then the plan is only what `living` need.
Plan PlanVerified(NftSocket& socket,
                  const NftTable& table,
                  const Change* change,
                  const std::vector<Holding>& living) {
  Plan plan;
  const SkeletonPlan skeleton = DescribeSkeleton(socket, table, plan.batch);
  PlannedElements elements(
      socket, table.id, skeleton.made_anew ? Reading::kNothing : Reading::kWholeSets, plan.batch);
  std::vector<Policy> policies;
  plan.mended = skeleton.phrases;
  const bool had_elements = std::any_of(
      living.begin(), living.end(), [](const Holding& one) { return !one.elements.empty(); });
  if (skeleton.made_anew && had_elements) {
    plan.mended.push_back(Cat("table ", Text(table.id), " with all that was in it"));
  }
  // The living first: after a flush their ports are theirs, not the first comer's.
  for (const Holding& holding : living) {
    policies.push_back(holding.policy);
    const std::vector<std::string> lost = PlanRepair(elements, table, holding);
    if (!skeleton.made_anew) {
      plan.mended.insert(plan.mended.end(), lost.begin(), lost.end());
    }
  }
  // Only what a living attachment lost is mended; what `change` needs for the first time is just
  // made.
  NftBatch lost_by_living;
  const std::vector<std::string> lost = DescribeStaticRules(socket, policies, lost_by_living);
  plan.mended.insert(plan.mended.end(), lost.begin(), lost.end());
  if (change != nullptr) {
    plan.conflict = PlanChange(elements, *change);
    policies.push_back(change->policy);
  }
  static_cast<void>(DescribeStaticRules(socket, policies, plan.batch));
  return plan;
}

Plan PlanQuickly(NftSocket& socket, const NftTable& table, const Change& change, Care care) {
  Plan plan;
  PlannedElements elements(socket, table.id, Reading::kSingly, plan.batch);
  for (const NftElement& wanted : change.wanted) {
    if (IsShared(wanted) && change.shared_is_there) {
      elements.AssumePresent(wanted);
    } else if (!IsShared(wanted) && care == Care::kTrusting) {
      elements.AssumeAbsent(wanted);
    }
  }
  plan.conflict = PlanChange(elements, change);
  return plan;
}

Plan MakePlan(NftSocket& socket,
              const NftTable& table,
              const Change& change,
              Care care,
              const HoldingsOfLiving& living) {
  return care == Care::kVerifying ? PlanVerified(socket, table, &change, living())
                                  : PlanQuickly(socket, table, change, care);
}

// Asked only of a ruleset that is trusted.
bool IsSharedThere(NftSocket& socket, const Change& change) {
  return change.shared_is_there || HasStaticRules(socket, change.policy);
}

// After a refusal: a taken key is looked up; anything else means that the kernel's table is not
// what we trusted it to be.
Care MoreCareful(Care care, const NftBatch& batch, const NftReply& reply) {
  const NftRefusal& first = reply.refused.front();
  if (care == Care::kVerifying) {
    throw Error(
        Code::kKernel, Cat("cannot ", batch.messages()[first.message].label), first.details);
  }
  const bool only_taken =
      std::all_of(reply.refused.begin(), reply.refused.end(), [](const NftRefusal& refusal) {
        return refusal.error == EEXIST;
      });
  return care == Care::kTrusting && only_taken ? Care::kLookingUp : Care::kVerifying;
}

void RequireTime(Deadline deadline) {
  if (std::chrono::steady_clock::now() > deadline) {
    throw Error(Code::kTryAgain,
                Cat("cannot change table ", Text(TableId())),
                "other programs keep changing the nf_tables ruleset");
  }
}

}  // namespace

Outcome Apply(NftSocket& socket,
              const NftTable& table,
              const Change& change,
              std::optional<std::uint32_t> trusted,
              const HoldingsOfLiving& living) {
  const Deadline deadline = FromNow(kPatience);
  Care care = change.again ? Care::kLookingUp : Care::kTrusting;
  std::uint32_t generation = trusted ? *trusted : socket.Generation();
  for (;; generation = socket.Generation()) {
    if (trusted != generation || !IsSharedThere(socket, change)) {
      care = Care::kVerifying;
    }
    Plan plan = MakePlan(socket, table, change, care, living);
    if (plan.conflict) {
      return {.conflict = std::move(plan.conflict), .generation = {}, .mended = {}};
    }
    if (plan.batch.empty()) {
      return {.conflict = {}, .generation = generation, .mended = {}};
    }
    const NftReply reply = socket.Commit(plan.batch, generation);
    if (reply.done()) {
      return {.conflict = {},
              .generation = NextGeneration(generation),
              .mended = std::move(plan.mended)};
    }
    if (!reply.refused.empty()) {
      care = MoreCareful(care, plan.batch, reply);
    }
    RequireTime(deadline);
  }
}

std::optional<std::uint32_t> Withdraw(NftSocket& socket,
                                      const std::vector<NftElement>& elements,
                                      std::optional<std::uint32_t> trusted) {
  Change change;
  change.unwanted = elements;
  const Deadline deadline = FromNow(kPatience);
  while (true) {
    const std::uint32_t generation = socket.Generation();
    NftBatch batch;
    PlannedElements present(socket, TableId(), Reading::kSingly, batch);
    static_cast<void>(PlanChange(present, change));
    const bool still_trusted = trusted == generation;
    if (batch.empty()) {
      return still_trusted ? trusted : std::nullopt;
    }
    const NftReply reply = socket.Commit(batch, generation);
    if (reply.done()) {
      return still_trusted ? std::optional(NextGeneration(generation)) : std::nullopt;
    }
    if (!reply.refused.empty()) {
      const NftRefusal& first = reply.refused.front();
      throw Error(
          Code::kKernel, Cat("cannot ", batch.messages()[first.message].label), first.details);
    }
    RequireTime(deadline);
  }
}

std::vector<NftElement> OwnedElements(NftSocket& socket) {
  std::vector<NftElement> owned;
  for (const NftSet& set : socket.Sets(TableId())) {
    for (NftElement& element : socket.Elements(TableId(), set.name)) {
      if (!IsShared(element)) {
        owned.push_back(std::move(element));
      }
    }
  }
  return owned;
}

std::vector<std::string> Missing(NftSocket& socket, const NftTable& table, const Holding& holding) {
  const Deadline deadline = FromNow(kPatience);
  while (true) {
    const std::uint32_t generation = socket.Generation();
    Plan plan = PlanVerified(socket, table, nullptr, {holding});
    if (socket.Generation() == generation) {
      return std::move(plan.mended);
    }
    RequireTime(deadline);
  }
}

}  // namespace nomad_bridge::firewall
