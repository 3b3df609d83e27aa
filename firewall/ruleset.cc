#include "firewall/ruleset.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/list.h"
#include "base/text.h"
#include "firewall/goal_plan.h"
#include "firewall/planned_elements.h"
#include "firewall/table.h"
#include "netlink/nft/commit.h"

namespace nomad_bridge::firewall {
namespace {

std::string ChangingTheTable() {
  return Cat("change table ", nft::Text(TableId()));
}

// Without `desired` elements are not looked at: nullopt if some are missing.
std::optional<Restored> Restore(nft::Socket& socket,
                                const Goal& goal,
                                const DesiredElements* desired) {
  std::optional<Restored> restored;
  nft::RetryOnGenerations(socket, ChangingTheTable(), {}, [&](std::uint32_t generation) {
    GoalPlan plan = desired != nullptr ? PlanAll(socket, goal, *desired) : PlanTables(socket, goal);
    if (desired == nullptr && plan.lacks_elements) {
      return true;
    }
    const bool done = nft::TryCommit(socket, plan.batch, generation);
    restored = {.generation = plan.batch.empty() ? generation : nft::NextGeneration(generation),
                .table_handles = HandlesOf(socket, goal.tables),
                .repaired = std::move(plan.repaired)};
    return done;
  });
  return restored;
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
  std::vector<nft::Element> repaired;
};

// Shared elements are added without a look, too: the kernel accepts one that is there.
ChangePlan PlanChange(nft::Socket& socket, const Change& change, PlanMode mode) {
  ChangePlan plan;
  PlannedElements elements(socket, plan.batch);
  PlanDeletes(elements, change);  // first: a key may go from one owner to another in one batch
  for (const nft::Element& wanted : change.add) {
    if (mode == PlanMode::kAssumeAbsent) {
      elements.AssumeAbsent(wanted);
    }
    const std::optional<nft::Element> present = elements.Find(wanted);
    if (present && (IsShared(wanted) || *present == wanted)) {
      continue;
    }
    if (present && present->owner() != wanted.owner() &&
        !Contains(change.stale_owners, present->owner())) {
      plan.conflict = Conflict{.wanted = wanted, .present = *present};
      return plan;
    }
    if (present) {
      elements.Delete(*present);
    }
    elements.Add(wanted);
    if (mode == PlanMode::kRepair) {
      plan.repaired.push_back(wanted);
    }
  }
  return plan;
}

bool IsTaken(const nft::CommitReply& reply) {
  return std::ranges::count(reply.refused, EEXIST, &nft::Refusal::error) ==
         std::ssize(reply.refused);
}

}  // namespace

std::string Name(const Tables& tables, const nft::Element& element) {
  const auto table = std::ranges::find(tables, TableOf(element), &nft::Table::id);
  const nft::Set* const set = table == tables.end() ? nullptr : table->FindSet(element.set);
  const std::string key = set == nullptr ? "an element" : nft::KeyText(*set, element);
  return Format("{} in {}{}{}", key, element.set, IsShared(element) ? "" : " of ", element.owner());
}

std::vector<std::uint64_t> HandlesOf(nft::Socket& socket, const Tables& tables) {
  std::vector<std::uint64_t> handles;
  for (const nft::Table& each : tables) {
    const std::optional<nft::KernelTable> table = socket.FindTable(each.id);
    handles.push_back(table ? table->handle : 0);
  }
  return handles;
}

std::optional<Restored> RestoreTable(nft::Socket& socket, const Goal& goal) {
  return Restore(socket, goal, nullptr);
}

Restored RestoreAll(nft::Socket& socket, const Goal& goal, const DesiredElements& desired) {
  return Restore(socket, goal, &desired).value();
}

Outcome Apply(nft::Socket& socket, const Change& change, std::uint32_t generation) {
  for (PlanMode mode = change.mode;; mode = PlanMode::kLookUp) {
    ChangePlan plan = PlanChange(socket, change, mode);
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
    PlannedElements present(socket, batch);
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
  for (const nft::TableFamily family : {nft::TableFamily::kInet, nft::TableFamily::kBridge}) {
    for (const nft::Set& set : socket.Sets(TableId(family))) {
      for (nft::Element& element : socket.Elements(TableId(family), set.name)) {
        if (!IsShared(element)) {
          owned.push_back(std::move(element));
        }
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
    GoalPlan plan = PlanTables(socket, goal);
    mismatches = std::move(plan.repaired);
    Change change{.add = elements, .mode = PlanMode::kRepair};
    for (const nft::Table& table : goal.tables) {
      if (plan.is_new.contains(table.id.family) &&
          std::erase_if(change.add, [&](const nft::Element& element) {
            return element.family == table.id.family;
          }) != 0) {
        mismatches.push_back(LostTable(table));
      }
    }
    ChangePlan own = PlanChange(socket, change, change.mode);
    if (own.conflict) {
      own.repaired.push_back(own.conflict->wanted);
    }
    for (const nft::Element& element : own.repaired) {
      mismatches.push_back(Name(goal.tables, element));
    }
    return socket.Generation() == generation;
  });
  return mismatches;
}

std::vector<std::string> DiffAll(nft::Socket& socket,
                                 const Goal& goal,
                                 const DesiredElements& desired) {
  std::vector<std::string> mismatches;
  nft::RetryOnGenerations(socket, ChangingTheTable(), {}, [&](std::uint32_t generation) {
    mismatches = PlanAll(socket, goal, desired).repaired;
    return socket.Generation() == generation;
  });
  return mismatches;
}

}  // namespace nomad_bridge::firewall
