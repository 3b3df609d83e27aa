#include "firewall/ruleset.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/list.h"
#include "base/memo.h"
#include "base/text.h"
#include "firewall/goal_plan.h"
#include "firewall/table.h"

namespace nomad_bridge::firewall {
namespace {

std::string ChangingTheTable() {
  return Cat("change table ", nft::Text(TableId()));
}

// Knows the elements of our tables as a batch will leave them: reads each element from the kernel
// once, and applies the changes of the batch.
class PlannedElements {
 public:
  PlannedElements(nft::Socket& socket, nft::Batch& batch) : socket_(socket), batch_(batch) {}

  // Returns the element with the set and key of `like`, as the batch leaves it.
  [[nodiscard]] std::optional<nft::Element> Find(const nft::Element& like) {
    return AskOnce(known_, KeyOf(like), [&] { return socket_.FindElement(TableOf(like), like); });
  }

  // Reads all at once, in one round trip.
  void Read(const std::vector<const std::vector<nft::Element>*>& lists) {
    std::vector<std::pair<nft::TableId, nft::Element>> likes;
    for (const std::vector<nft::Element>* const list : lists) {
      for (const nft::Element& element : *list) {
        likes.emplace_back(TableOf(element), element);
      }
    }
    const std::vector<std::optional<nft::Element>> found = socket_.FindElements(likes);
    for (std::size_t i = 0; i < likes.size(); ++i) {
      known_[KeyOf(likes[i].second)] = found[i];
    }
  }

  void Add(const nft::Element& element) {
    batch_.AddElement(TableOf(element), element);
    known_[KeyOf(element)] = element;
  }
  void Delete(const nft::Element& element) {
    batch_.DeleteElement(TableOf(element), element);
    known_[KeyOf(element)] = std::nullopt;
  }

 private:
  // Like ElementKey, but outlives the element.
  using Key = std::tuple<nft::TableFamily, std::string, std::vector<std::uint8_t>, bool>;

  nft::Socket& socket_;
  nft::Batch& batch_;
  std::map<Key, std::optional<nft::Element>> known_;
};

// Adds what the kernel lacks. Sets and counters come before chains, whose rules name them; all
// chains come before any rule, since rules name chains.
void PlanMissing(nft::Socket& socket, const nft::Table& wanted, nft::Batch& batch) {
  for (const nft::Set& set : wanted.sets) {
    batch.AddSet(wanted.id, set);  // the kernel accepts an existing set
  }
  for (const nft::Counter& counter : wanted.counters) {
    batch.AddCounter(wanted.id, counter);  // the same for a counter
  }
  std::vector<const nft::Chain*> missing;
  for (const nft::Chain& chain : wanted.chains) {
    if (!socket.FindChain(wanted.id, chain.name)) {
      batch.AddChain(wanted.id, chain);
      missing.push_back(&chain);
    }
  }
  for (const nft::Chain* const chain : missing) {
    for (const nft::Rule& rule : chain->rules) {
      batch.AppendRule(wanted.id, chain->name, rule);
    }
  }
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
};

ChangePlan PlanChange(nft::Socket& socket, const Change& change) {
  ChangePlan plan;
  PlanMissing(socket, change.make, plan.batch);  // first: elements name these
  PlannedElements elements(socket, plan.batch);
  elements.Read({&change.add, &change.remove_owned, &change.remove_shared});
  PlanDeletes(elements, change);  // before the adds: a key may go from one owner to another
  for (const nft::Element& wanted : change.add) {
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
  }
  return plan;
}

const nft::Set* FindSet(const Tables& tables, const nft::Element& element) {
  const auto table = std::ranges::find(tables, TableOf(element), &nft::Table::id);
  return table == tables.end() ? nullptr : table->FindSet(element.set);
}

// Returns the family of the addresses in the element's key, or of the address that it leads to.
std::optional<Family> FamilyOf(const Tables& tables, const nft::Element& element) {
  const nft::Set* const set = FindSet(tables, element);
  const auto has = [&](nft::Type type) {
    return set != nullptr && (Contains(set->key, type) || Contains(set->data, type));
  };
  return has(nft::Type::kIpv4Addr)   ? std::optional(Family::kIpv4)
         : has(nft::Type::kIpv6Addr) ? std::optional(Family::kIpv6)
                                     : std::nullopt;
}

}  // namespace

std::string Name(const Tables& tables, const nft::Element& element) {
  const nft::Set* const set = FindSet(tables, element);
  const std::string key = set == nullptr ? "an element" : nft::KeyText(*set, element);
  return Format("{} in {}{}{}", key, element.set, IsShared(element) ? "" : " of ", element.owner());
}

std::vector<std::uint64_t> HandlesOf(nft::Socket& socket, const std::vector<nft::TableId>& tables) {
  std::vector<std::uint64_t> handles;
  for (const nft::TableId& id : tables) {
    const std::optional<nft::KernelTable> table = socket.FindTable(id);
    handles.push_back(table && !table->is_dormant ? table->handle : 0);
  }
  return handles;
}

std::optional<Compared> Compare(nft::Socket& socket,
                                const Goal& goal,
                                const DesiredElements* desired,
                                Mode mode) {
  std::optional<Compared> compared;
  nft::RetryOnGenerations(socket, ChangingTheTable(), {}, [&](std::uint32_t generation) {
    GoalPlan plan = desired != nullptr ? PlanAll(socket, goal, *desired) : PlanTables(socket, goal);
    if (desired == nullptr && plan.lacks_elements) {
      compared.reset();
      return true;
    }
    compared = {.generation = generation, .mismatches = std::move(plan.mismatches)};
    if (mode == Mode::kLook) {
      return socket.Generation() == generation;
    }
    const bool done = nft::TryCommit(socket, plan.batch, generation);
    if (!plan.batch.empty()) {
      compared->generation = nft::NextGeneration(generation);
    }
    return done;
  });
  return compared;
}

std::vector<Presence> FindPresences(nft::Socket& socket,
                                    const std::vector<nft::Element>& elements) {
  std::vector<std::pair<nft::TableId, nft::Element>> likes;
  likes.reserve(elements.size());
  for (const nft::Element& element : elements) {
    likes.emplace_back(TableOf(element), element);
  }
  const std::vector<std::optional<nft::Element>> found = socket.FindElements(likes);
  std::vector<Presence> presences;
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const bool is_same = found[i] && (IsShared(elements[i]) || *found[i] == elements[i]);
    presences.push_back(!found[i] ? Presence::kMissing
                        : is_same ? Presence::kSame
                                  : Presence::kDifferent);
  }
  return presences;
}

Mismatch MismatchOf(const Tables& tables, const nft::Element& element, Presence presence) {
  const char* const how = presence == Presence::kMissing ? " is missing" : " was changed";
  return {.area = Mismatch::Area::kElement,
          .owner = std::string(element.owner()),
          .text = Cat(Name(tables, element), how),
          .family = FamilyOf(tables, element)};
}

CommitResult Commit(nft::Socket& socket, const Change& change, std::uint32_t generation) {
  ChangePlan plan = PlanChange(socket, change);
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
  if (!reply.done()) {
    return {.refusal = nft::ErrorOf(plan.batch, reply)};
  }
  return {.generation = nft::NextGeneration(generation)};
}

std::optional<std::uint32_t> RemoveElements(nft::Socket& socket,
                                            const std::vector<nft::Element>& elements,
                                            std::optional<std::uint32_t> generation,
                                            const std::vector<nft::Element>& shared) {
  Change change;
  change.remove_owned = elements;
  change.remove_shared = shared;
  std::optional<std::uint32_t> after;
  nft::RetryOnGenerations(socket, ChangingTheTable(), {}, [&](std::uint32_t now) {
    const CommitResult result = Commit(socket, change, now);
    if (result.refusal) {
      throw Error(*result.refusal);
    }
    after = generation == now ? result.generation : std::nullopt;
    return result.generation.has_value();
  });
  return after;
}

std::vector<nft::Element> AllElements(nft::Socket& socket) {
  std::vector<nft::Element> all;
  for (const nft::TableFamily family : {nft::TableFamily::kInet, nft::TableFamily::kBridge}) {
    for (const nft::Set& set : socket.Sets(TableId(family))) {
      if (!set.is_dynamic()) {
        Append(all, socket.Elements(TableId(family), set.name));
      }
    }
  }
  return all;
}

std::vector<nft::Element> OwnedElements(nft::Socket& socket) {
  std::vector<nft::Element> owned = AllElements(socket);
  std::erase_if(owned, IsShared);
  return owned;
}

}  // namespace nomad_bridge::firewall
