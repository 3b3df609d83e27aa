#include "firewall/change.h"

#include <map>
#include <tuple>
#include <utility>

#include "base/list.h"
#include "base/memo.h"
#include "base/text.h"
#include "firewall/about.h"
#include "firewall/table.h"

namespace nomad_bridge::firewall {
namespace {

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
  using Key = std::tuple<nft::TableFamily, std::string, std::vector<std::uint8_t>>;

  static Key KeyOf(const nft::Element& element) {
    return {element.family, element.set, element.key};
  }

  nft::Socket& socket_;
  nft::Batch& batch_;
  std::map<Key, std::optional<nft::Element>> known_;
};

// Adds the sets and chains that the kernel lacks. All chains come before any rule, since rules name
// chains.
void PlanMade(nft::Socket& socket, const nft::Table& wanted, nft::Batch& batch) {
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

// Plans the removals, then the additions: a key may go from one owner to another.
std::optional<Conflict> PlanChange(PlannedElements& elements, const Change& change) {
  elements.Read({&change.add, &change.remove});
  for (const nft::Element& element : change.remove) {
    const std::optional<nft::Element> present = elements.Find(element);
    if (present && present->owner() == element.owner()) {
      elements.Delete(*present);
    }
  }
  for (const nft::Element& wanted : change.add) {
    const std::optional<nft::Element> present = elements.Find(wanted);
    if (PresenceOf(present, wanted) == Presence::kSame) {
      continue;
    }
    if (present && present->owner() != wanted.owner() &&
        !Contains(change.stale_owners, present->owner())) {
      return Conflict{.wanted = wanted, .present = *present};
    }
    if (present) {
      elements.Delete(*present);
    }
    elements.Add(wanted);
  }
  return std::nullopt;
}

// Returns the family of the addresses in the key of a set's elements, or of the address that these
// lead to.
std::optional<Family> FamilyOf(const nft::Set* set) {
  const auto has = [&](nft::Type type) {
    return set != nullptr && (Contains(set->key, type) || Contains(set->data, type));
  };
  return has(nft::Type::kIpv4Addr)   ? std::optional(Family::kIpv4)
         : has(nft::Type::kIpv6Addr) ? std::optional(Family::kIpv6)
                                     : std::nullopt;
}

}  // namespace

Presence PresenceOf(const std::optional<nft::Element>& present, const nft::Element& wanted) {
  if (!present) {
    return Presence::kMissing;
  }
  return IsShared(wanted) || *present == wanted ? Presence::kSame : Presence::kDifferent;
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
  presences.reserve(elements.size());
  for (std::size_t i = 0; i < elements.size(); ++i) {
    presences.push_back(PresenceOf(found[i], elements[i]));
  }
  return presences;
}

std::string Name(const nft::Set* set, const nft::Element& element) {
  const std::string key = set == nullptr ? "an element" : nft::KeyText(*set, element);
  return Format("{} in {}{}{}", key, element.set, IsShared(element) ? "" : " of ", element.owner());
}

Finding FindingOf(const nft::Set* set, const nft::Element& element, Presence presence) {
  const char* const how = presence == Presence::kMissing ? " is missing" : " was changed";
  return {.area = Finding::Area::kElement,
          .owner = std::string(element.owner()),
          .text = Cat(Name(set, element), how),
          .family = FamilyOf(set)};
}

ChangeOutcome ChangeElements(nft::Socket& socket, const Change& change) {
  nft::Batch batch;
  for (const nft::Table& table : change.make) {
    PlanMade(socket, table, batch);  // first: elements name these
  }
  PlannedElements elements(socket, batch);
  if (std::optional<Conflict> conflict = PlanChange(elements, change)) {
    return {.conflict = std::move(conflict)};
  }
  if (batch.empty()) {
    return {};
  }
  // Not tied to a generation: whatever others have changed meanwhile, the kernel refuses an element
  // that is there already, and the removal of one that is not.
  const nft::CommitReply reply = socket.Commit(batch, std::nullopt);
  return {.refusal = reply.done() ? std::nullopt : std::optional(nft::ErrorOf(batch, reply))};
}

void EnsureElementsGone(nft::Socket& socket, const std::vector<nft::Element>& elements) {
  // Others may remove an element between our look and our commit.
  constexpr int kMaxTries = 5;
  const Change change = {.remove = elements};
  ChangeOutcome outcome;
  for (int tries = 0; tries < kMaxTries; ++tries) {
    outcome = ChangeElements(socket, change);
    if (!outcome.refusal) {
      return;
    }
  }
  throw Error(*outcome.refusal);
}

std::vector<nft::Element> AllElements(nft::Socket& socket) {
  std::vector<nft::Element> all;
  for (const nft::TableFamily family : {nft::TableFamily::kInet, nft::TableFamily::kBridge}) {
    for (const nft::Set& set : socket.Sets(TableId(family))) {
      if (!set.is_dynamic() && set.name != kAbout) {
        Append(all, socket.Elements(TableId(family), set.name));
      }
    }
  }
  return all;
}

}  // namespace nomad_bridge::firewall
