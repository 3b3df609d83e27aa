#include "firewall/ruleset.h"

#include <algorithm>
#include <cerrno>
#include <map>
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

bool IsShared(const nft::Element& element) {
  return element.comment.empty();
}

// "tcp . 8080 in port4 of veth3f2a91c04d7e"
std::string Name(const nft::Table& table, const nft::Element& element) {
  const nft::Set* const set = table.FindSet(element.set);
  const std::string key = set == nullptr ? "an element" : nft::KeyText(*set, element);
  return Format("{} in {}{}{}", key, element.set, IsShared(element) ? "" : " of ", element.owner());
}

std::string ChangingTheTable() {
  return Cat("change table ", nft::Text(TableId()));
}

struct GoalPlan {
  nft::Batch batch;
  SkeletonPlan skeleton;
  std::vector<std::string> repaired;
};

GoalPlan PlanTable(nft::Socket& socket, const Goal& goal) {
  GoalPlan plan;
  plan.skeleton = DescribeSkeleton(socket, goal.table, plan.batch);
  plan.repaired = plan.skeleton.mismatches;
  std::vector<ForwardHook> hooks = goal.forward_hooks;
  if (goal.new_forward_hook) {
    // Described for the others alone first: what only the new one needs is not reported as repaired.
    nft::Batch unused;
    Append(plan.repaired, DescribeStaticRules(socket, hooks, unused));
    hooks.push_back(*goal.new_forward_hook);
    static_cast<void>(DescribeStaticRules(socket, hooks, plan.batch));
  } else {
    Append(plan.repaired, DescribeStaticRules(socket, hooks, plan.batch));
  }
  return plan;
}

// Adds to `plan` what makes the elements in the kernel those of `desired`.
void PlanElements(nft::Socket& socket,
                  const nft::Table& table,
                  const DesiredElements& desired,
                  GoalPlan& plan) {
  using Key = std::pair<std::string, std::vector<std::uint8_t>>;
  std::map<Key, const nft::Element*> missing;
  for (const nft::Element& element : desired.elements) {
    missing.try_emplace({element.set, element.key}, &element);
  }
  const auto compare = [&](const nft::Element& present) {
    const auto found = missing.find({present.set, present.key});
    const nft::Element* const wanted = found == missing.end() ? nullptr : found->second;
    const bool is_same = wanted && (IsShared(*wanted) || present == *wanted);
    const bool is_own = wanted && present.owner() == wanted->owner();
    if (is_same || (!is_own && desired.is_explained(present))) {
      missing.erase({present.set, present.key});
      return;
    }
    plan.batch.DeleteElement(table.id, present);
    if (!wanted) {
      plan.repaired.push_back(Cat("the left-over ", Name(table, present)));
    }
  };
  for (const nft::Set& set : table.sets) {
    if (!plan.skeleton.is_new) {
      std::ranges::for_each(socket.Elements(table.id, set.name), compare);
    }
  }
  for (const nft::Element& element : desired.elements) {
    if (missing.erase({element.set, element.key}) != 0) {
      plan.batch.AddElement(table.id, element);
      if (!plan.skeleton.is_new) {
        plan.repaired.push_back(Name(table, element));
      }
    }
  }
}

Restored RestoredAt(nft::Socket& socket, std::uint32_t generation, GoalPlan plan) {
  const std::optional<nft::KernelTable> table = socket.FindTable(TableId());
  return {.generation = plan.batch.empty() ? generation : nft::NextGeneration(generation),
          .table_handle = table ? table->handle : 0,
          .repaired = std::move(plan.repaired)};
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

struct ChangePlan {
  nft::Batch batch;
  std::optional<Conflict> conflict;
  std::vector<std::string> repaired;
};

// Shared elements are added without a look, too: the kernel accepts one that is there.
ChangePlan PlanChange(nft::Socket& socket,
                      const nft::Table& table,
                      const Change& change,
                      PlanMode mode) {
  ChangePlan plan;
  PlannedElements elements(socket, table.id, plan.batch);
  PlanDeletes(elements, change);  // first: a key may go from one owner to another in one batch
  for (const nft::Element& wanted : change.add) {
    if (mode == PlanMode::kAssumeAbsent) {
      elements.AssumeAbsent(wanted);
    }
    const std::optional<nft::Element> present = elements.Find(wanted);
    if (present && (IsShared(wanted) || *present == wanted)) {
      continue;
    }
    if (!present) {
      elements.Add(wanted);
    } else if (present->owner() == wanted.owner() ||
               Contains(change.stale_owners, present->owner())) {
      elements.Replace(*present, wanted);
    } else {
      plan.conflict = Conflict{.wanted = wanted, .present = *present};
      return plan;
    }
    if (mode == PlanMode::kRepair) {
      plan.repaired.push_back(Name(table, wanted));
    }
  }
  return plan;
}

bool IsTaken(const nft::CommitReply& reply) {
  return std::ranges::count(reply.refused, EEXIST, &nft::Refusal::error) ==
         std::ssize(reply.refused);
}

}  // namespace

std::optional<Restored> RestoreTable(nft::Socket& socket, const Goal& goal) {
  std::optional<Restored> restored;
  nft::RetryOnGenerations(socket, ChangingTheTable(), {}, [&](std::uint32_t generation) {
    GoalPlan plan = PlanTable(socket, goal);
    if (plan.skeleton.lacks_elements) {
      return true;
    }
    const bool done = nft::TryCommit(socket, plan.batch, generation);
    restored = RestoredAt(socket, generation, std::move(plan));
    return done;
  });
  return restored;
}

Restored RestoreAll(nft::Socket& socket, const Goal& goal, const DesiredElements& desired) {
  Restored restored;
  nft::RetryOnGenerations(socket, ChangingTheTable(), {}, [&](std::uint32_t generation) {
    GoalPlan plan = PlanTable(socket, goal);
    if (!plan.skeleton.is_new) {
      Append(plan.repaired, DescribeRemovals(socket, goal.table, plan.batch));
    } else if (!desired.elements.empty()) {
      plan.repaired.push_back(Cat("table ", nft::Text(goal.table.id), " with all that was in it"));
    }
    PlanElements(socket, goal.table, desired, plan);
    const bool done = nft::TryCommit(socket, plan.batch, generation);
    restored = RestoredAt(socket, generation, std::move(plan));
    return done;
  });
  return restored;
}

Outcome Apply(nft::Socket& socket,
              const nft::Table& table,
              const Change& change,
              std::uint32_t generation) {
  for (PlanMode mode = change.mode;; mode = PlanMode::kLookUp) {
    ChangePlan plan = PlanChange(socket, table, change, mode);
    if (plan.conflict) {
      return {.conflict = std::move(plan.conflict)};
    }
    if (plan.batch.empty()) {
      return {.generation = generation};
    }
    const nft::CommitReply reply = socket.Commit(plan.batch, generation);
    if (reply.generation_passed) {
      return {};
    }
    if (reply.done()) {
      return {.generation = nft::NextGeneration(generation), .repaired = std::move(plan.repaired)};
    }
    if (mode != PlanMode::kAssumeAbsent || !IsTaken(reply)) {
      return {.refusal = nft::ErrorOf(plan.batch, reply)};
    }
  }
}

std::optional<std::uint32_t> RemoveElements(nft::Socket& socket,
                                            const std::vector<nft::Element>& elements,
                                            std::optional<std::uint32_t> generation) {
  Change change;
  change.remove_owned = elements;
  std::optional<std::uint32_t> after;
  nft::RetryOnGenerations(socket, ChangingTheTable(), {}, [&](std::uint32_t now) {
    nft::Batch batch;
    PlannedElements present(socket, TableId(), batch);
    PlanDeletes(present, change);
    after.reset();
    if (generation == now) {
      after = batch.empty() ? now : nft::NextGeneration(now);
    }
    return nft::TryCommit(socket, batch, now);
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
                              const Goal& goal,
                              const std::vector<nft::Element>& elements) {
  std::vector<std::string> mismatches;
  nft::RetryOnGenerations(socket, ChangingTheTable(), {}, [&](std::uint32_t generation) {
    GoalPlan plan = PlanTable(socket, goal);
    mismatches = std::move(plan.repaired);
    if (plan.skeleton.is_new && !elements.empty()) {
      mismatches.push_back(Cat("table ", nft::Text(goal.table.id), " with all that was in it"));
    } else {
      const Change change{.add = elements, .mode = PlanMode::kRepair};
      ChangePlan own = PlanChange(socket, goal.table, change, change.mode);
      Append(mismatches, std::move(own.repaired));
      if (own.conflict) {
        mismatches.push_back(Name(goal.table, own.conflict->wanted));
      }
    }
    return socket.Generation() == generation;
  });
  return mismatches;
}

}  // namespace nomad_bridge::firewall
