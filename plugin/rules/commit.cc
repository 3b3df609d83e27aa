#include "plugin/rules/commit.h"

#include <map>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/list.h"
#include "base/text.h"
#include "firewall/address_policy.h"
#include "firewall/table.h"
#include "netlink/nft/socket.h"
#include "plugin/link/host_veth.h"
#include "plugin/link/liveness.h"
#include "plugin/rules/converge.h"
#include "plugin/rules/elements.h"
#include "plugin/rules/forward_hooks.h"
#include "plugin/rules/intact.h"
#include "plugin/rules/policy_tables.h"
#include "plugin/state/events.h"
#include "plugin/state/kernel_names.h"

namespace nomad_bridge::rules {
namespace {

// What an earlier ingressPolicy of the bridge of `record` has left, unless a live attachment still
// needs it. Records are read only if there is something, after a change of the config.
std::vector<nft::Element> FindEarlierPolicy(state::Host& host, const state::Record& record) {
  if (!record.Has(cni::Part::kForward) || record.link.gateway_ifname.empty()) {
    return {};
  }
  std::vector<nft::Element> earlier =
      firewall::ElementsFor(record.rules.ingress, record.link.gateway_ifname).remove;
  std::erase_if(earlier, [&](const nft::Element& element) {
    return !host.nft.FindElement(firewall::TableId(), element);
  });
  if (!earlier.empty()) {
    link::LiveAttachments others(host, record.id);
    for (const state::Record& other : others.records()) {
      const std::vector<nft::Element> needed = ElementsOf(other);
      std::erase_if(earlier,
                    [&](const nft::Element& element) { return Contains(needed, element); });
    }
  }
  return earlier;
}

// Those of `elements` that `gone` shared with others behind its interfaces, unless one of them is
// left. Nearly always the first record that is read, of its own network, shows that one is.
std::vector<nft::Element> FindUnneeded(state::Host& host,
                                       const std::vector<nft::Element>& elements,
                                       const AttachmentId& gone) {
  std::vector<nft::Element> shared = elements;
  std::erase_if(shared, [](const nft::Element& element) {
    return !element.comment.empty() || !FindIfname(element);
  });
  const auto keep_for = [&](const std::optional<state::Record>& other) {
    const std::vector<nft::Element> needed =
        other ? ElementsOf(*other) : std::vector<nft::Element>();
    std::erase_if(shared, [&](const nft::Element& element) { return Contains(needed, element); });
  };
  keep_for(host.records.FindNeighbour(gone));
  if (shared.empty()) {
    return shared;
  }
  std::set<std::string> recorded = {state::HostVethName(gone)};
  for (const AttachmentId& id : host.records.List("")) {
    const std::optional<state::Record> other = id == gone ? std::nullopt : host.records.Find(id);
    if (other) {  // what one that cannot be read needs, its port alone says
      recorded.insert(state::HostVethName(id));
    }
    keep_for(other);
  }
  std::map<std::string, bool> is_used;  // by interface, which several elements are about
  std::erase_if(shared, [&](const nft::Element& element) {
    const auto [known, is_new] = is_used.try_emplace(FindIfname(element).value());
    if (is_new) {
      known->second = link::HasUnrecordedPort(host.net, known->first, recorded);
    }
    return known->second;
  });
  return shared;
}

// One change, made again until it is in force or cannot be.
class Transaction {
 public:
  Transaction(state::Host& host,
              const state::Record& record,
              firewall::Change change,
              Mismatches& mismatches)
      : host_(host), record_(record), change_(std::move(change)), mismatches_(mismatches) {
    ConvergeAgain();
    change_.remove_shared = FindEarlierPolicy(host, record);
  }

  [[nodiscard]] std::uint32_t generation() const { return checkpoint_.generation; }

  // On the ruleset's `generation`. False if it has to be tried again.
  [[nodiscard]] bool Try(std::uint32_t generation) {
    // Somebody has changed a rule since: what they removed of ours is put back before our change,
    // in a batch of its own, so that it is back even if our change is refused.
    if (generation != checkpoint_.generation) {
      ConvergeAgain();
    }
    // Only of what is new: a repair takes no port away.
    const std::optional<firewall::Conflict> overlap =
        record_.IsAny(state::Phase::kMaking) ? FindOverlap(host_, change_, checkpoint_.published_on)
                                             : std::nullopt;
    firewall::Outcome outcome = overlap
                                    ? firewall::Outcome{.conflict = overlap}
                                    : firewall::Commit(host_.nft, change_, checkpoint_.generation);
    if (outcome.conflict) {
      SettleConflict(*outcome.conflict);
    } else if (outcome.refusal) {
      CompareAll(*outcome.refusal);
    } else if (outcome.generation) {
      Finish(outcome);
      return true;
    }
    return false;
  }

  [[nodiscard]] Committed TakeCommitted() {
    return {.stale_owners = std::move(stale_owners_), .checkpoint = std::move(checkpoint_)};
  }

 private:
  void SettleConflict(const firewall::Conflict& conflict) {
    Settlement settlement = Settle(host_, record_, conflict, change_);
    has_siblings_ = has_siblings_ || settlement.is_left_to_sibling;
    if (settlement.stale_owner) {
      stale_owners_.push_back(*std::move(settlement.stale_owner));
    }
    // An element of somebody else was there: that none of ours is can no longer be assumed, either.
    if (change_.mode == firewall::PlanMode::kAssumeAbsent) {
      change_.mode = firewall::PlanMode::kLookUp;
    }
  }

  // The table is not what the checkpoint says. Throws if that was of no use.
  void CompareAll(const Error& refusal) {
    if (std::exchange(is_all_compared_, true)) {
      throw Error(refusal);
    }
    checkpoint_.Expire();
    SaveCheckpoint(host_, checkpoint_);
    ConvergeAgain();
  }

  void ConvergeAgain() {
    checkpoint_ = Converge(host_, {.added = &record_}, mismatches_).checkpoint;
  }

  void Finish(const firewall::Outcome& outcome) {
    // Still under the rules' lock: nobody may find elements in force whose record says that they
    // are being made, and take them for what a killed command left.
    if (record_.IsAny(state::Phase::kMaking)) {
      host_.records.Write(record_.Finished());
    }
    if (IsNew(record_)) {
      Toggle(checkpoint_, record_.id);
    }
    const bool is_changed = checkpoint_.generation != *outcome.generation ||
                            (has_siblings_ && !checkpoint_.has_siblings);
    checkpoint_.generation = *outcome.generation;
    checkpoint_.has_siblings = checkpoint_.has_siblings || has_siblings_;
    if (is_changed) {
      NotePublished(record_, checkpoint_);
      SaveCheckpoint(host_, checkpoint_);
    }
  }

  state::Host& host_;
  const state::Record& record_;
  firewall::Change change_;
  Mismatches& mismatches_;
  state::Checkpoint checkpoint_;
  std::vector<StaleOwner> stale_owners_;
  bool has_siblings_ = false;
  bool is_all_compared_ = false;
};

// Other policies may have been applied since its record was written; under the rules' lock they
// stay as they are. Its file says so first: what a killed ADD has added is found by it.
state::Record JudgedNow(state::Host& host, const state::Record& record) {
  host.policy.Refresh();
  state::Record judged = Judged(record, host.policy.Program());
  if (judged.rules.policy != record.rules.policy && record.IsAny(state::Phase::kMaking)) {
    host.records.Write(judged);
  }
  return judged;
}

std::vector<nft::Element> ElementsBut(const state::Record& record, const state::Record& rest) {
  std::vector<nft::Element> elements = ElementsOf(record);
  const std::vector<nft::Element> kept = ElementsOf(rest.OnlyLive());
  std::erase_if(elements, [&](const nft::Element& element) { return Contains(kept, element); });
  return elements;
}

// All in the kernel that are the attachment's by their comments, for parts that `rest` lacks.
std::vector<nft::Element> FindElementsBut(state::Host& host,
                                          const state::Record& record,
                                          const state::Record& rest) {
  std::vector<nft::Element> elements = FindElementsOf(host.nft, state::HostVethName(record.id));
  const state::Record kept = rest.OnlyLive();
  std::erase_if(elements, [&](const nft::Element& element) {
    return std::ranges::any_of(PartsOf(element), [&](cni::Part part) { return kept.Has(part); });
  });
  return elements;
}

void RemoveUnderLock(state::Host& host,
                     const std::vector<nft::Element>& elements,
                     const std::vector<nft::Element>& shared,
                     std::optional<state::Checkpoint> checkpoint,
                     const AttachmentId* gone) {
  // Nothing is compared here, as a DEL has to work whatever the rules look like. If the checkpoint
  // was current it is so afterwards; if it was not, the next ADD or CHECK compares.
  const std::optional<std::uint32_t> generation =
      firewall::RemoveElements(host.nft,
                               elements,
                               checkpoint ? std::optional(checkpoint->generation) : std::nullopt,
                               shared);
  if (checkpoint && generation && *generation != checkpoint->generation) {
    checkpoint->generation = *generation;
    if (gone != nullptr) {
      Toggle(*checkpoint, *gone);
    }
    SaveCheckpoint(host, *checkpoint);
  }
}

}  // namespace

Committed Commit(state::Host& host, const state::Record& record, firewall::PlanMode mode) {
  Mismatches mismatches(Mode::kRepair);
  const state::RepairLog log(mismatches);
  const FileLock one_at_a_time = host.records.LockRules();
  const state::Record judged = JudgedNow(host, record);
  Transaction transaction(
      host,
      judged,
      firewall::Change{.add = ElementsOf(judged.Finished().OnlyLive()), .mode = mode},
      mismatches);
  nft::RetryOnGenerations(host.nft,
                          Cat("change table ", nft::Text(firewall::TableId())),
                          transaction.generation(),
                          [&](std::uint32_t generation) { return transaction.Try(generation); });
  return transaction.TakeCommitted();
}

void RemoveElements(state::Host& host, const state::Record& record, const state::Record& rest) {
  std::vector<nft::Element> elements = ElementsBut(record, rest);
  if (elements.empty()) {
    return;
  }
  const FileLock one_at_a_time = host.records.LockRules();
  const std::optional<state::Checkpoint> checkpoint = host.checkpoint.Find();
  // By other policies than its record's it may have more.
  if (!checkpoint || checkpoint->policy_revision != record.rules.policy.revision) {
    Append(elements, FindElementsBut(host, record, rest));
  }
  RemoveUnderLock(host,
                  elements,
                  FindUnneeded(host, elements, record.id),
                  checkpoint,
                  rest.OnlyLive().HasRules() ? nullptr : &record.id);
}

void RemoveElements(state::Host& host,
                    const std::vector<nft::Element>& elements,
                    const AttachmentId* gone) {
  if (!elements.empty()) {
    const FileLock one_at_a_time = host.records.LockRules();
    RemoveUnderLock(
        host,
        elements,
        gone != nullptr ? FindUnneeded(host, elements, *gone) : std::vector<nft::Element>(),
        host.checkpoint.Find(),
        gone);
  }
}

}  // namespace nomad_bridge::rules
