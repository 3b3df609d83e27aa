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
#include "plugin/rules/policy_tables.h"
#include "plugin/state/kernel_names.h"

namespace nomad_bridge::rules {
namespace {

// Returns the elements of an earlier ingressPolicy on the bridge of `record` that no live
// attachment needs. Reads records only if there are such elements, after a change of the config.
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

std::vector<nft::Element> RemovedElements(const state::Record& record, const state::Record& rest) {
  std::vector<nft::Element> elements = ElementsOf(record);
  const std::vector<nft::Element> kept = ElementsOf(rest.OnlyLive());
  std::erase_if(elements, [&](const nft::Element& element) { return Contains(kept, element); });
  return elements;
}

// Returns the shared elements that `other` needs. A DEL removes a part's own elements under the
// rules' lock. Until then, a part in phase kLeaving still needs the shared elements. So if several
// DELs run at once, the last of them finds that no attachment needs the shared elements.
std::vector<nft::Element> ElementsNeededBy(state::Host& host, const state::Record& other) {
  state::Record rest = other;
  std::erase_if(rest.parts, [](const auto& part) { return part.second == state::Phase::kLeaving; });
  if (rest.parts == other.parts) {
    return ElementsOf(other);
  }
  std::vector<nft::Element> leaving = RemovedElements(other, rest.Finished());
  std::erase_if(leaving, [](const nft::Element& element) { return element.comment.empty(); });
  const bool is_in_force =
      Contains(firewall::FindPresences(host.nft, leaving), firewall::Presence::kSame);
  return ElementsOf(is_in_force ? other : rest);
}

// Returns the shared elements of `gone` that no remaining attachment needs.
std::vector<nft::Element> FindUnneeded(state::Host& host,
                                       const std::vector<nft::Element>& elements,
                                       const AttachmentId& gone) {
  std::vector<nft::Element> shared = elements;
  std::erase_if(shared, [](const nft::Element& element) {
    return !element.comment.empty() || !FindIfname(element);
  });
  const auto keep_for = [&](const std::optional<state::Record>& other) {
    const std::vector<nft::Element> needed =
        other ? ElementsNeededBy(host, *other) : std::vector<nft::Element>();
    std::erase_if(shared, [&](const nft::Element& element) { return Contains(needed, element); });
  };
  if (!shared.empty()) {
    // Looks in the own network first: usually a record there needs the same elements, and then no
    // other record is read.
    keep_for(host.records.FindNeighbour(gone));
  }
  if (shared.empty()) {
    return shared;
  }
  std::set<std::string> recorded = {state::HostVethName(gone)};
  for (const AttachmentId& id : host.records.List("")) {
    const std::optional<state::Record> other = id == gone ? std::nullopt : host.records.Find(id);
    // If a record cannot be read, its port shows below that the elements are needed.
    if (other) {
      recorded.insert(state::HostVethName(id));
    }
    keep_for(other);
  }
  std::map<std::string, bool> is_used;  // by interface, which several elements name
  std::erase_if(shared, [&](const nft::Element& element) {
    const auto [known, is_new] = is_used.try_emplace(FindIfname(element).value());
    if (is_new) {
      known->second = link::HasUnrecordedPort(host.net, known->first, recorded);
    }
    return known->second;
  });
  return shared;
}

// Plans and commits the change for one attachment, again until it is in force or is refused.
class Transaction {
 public:
  // Converges first. So what others have removed is restored even if this attachment is refused,
  // and a port does not count as free only because somebody flushed its element.
  Transaction(state::Host& host, const state::Record& record)
      : host_(host), record_(record), change_{.add = ElementsOf(record.Finished().OnlyLive())} {
    ConvergeAgain();
    change_.remove_shared = FindEarlierPolicy(host, record);
  }

  [[nodiscard]] std::uint32_t generation() const { return checkpoint_.generation; }

  // Tries to commit at `generation` of the ruleset. Returns false if it has to be tried again.
  [[nodiscard]] bool Try(std::uint32_t generation) {
    // If somebody has changed a rule since, first restores what they removed of ours. The repair is
    // a batch of its own, so that it stays even if our change is refused.
    if (generation != checkpoint_.generation) {
      ConvergeAgain();
    }
    // Only a new attachment is checked for overlaps: a repair must not take a port away.
    const std::optional<firewall::Conflict> overlap =
        record_.IsAny(state::Phase::kMaking) ? FindOverlap(host_, change_, checkpoint_.published_on)
                                             : std::nullopt;
    const firewall::CommitResult result =
        overlap ? firewall::CommitResult{.conflict = overlap}
                : firewall::Commit(host_.nft, change_, checkpoint_.generation);
    if (result.conflict) {
      TakeResolution(ResolveConflict(host_, record_, *result.conflict, change_));
    } else if (result.refusal) {
      CompareEverything(*result.refusal);
    } else if (result.generation) {
      Finish(*result.generation);
      return true;
    }
    return false;
  }

  [[nodiscard]] Committed TakeCommitted() {
    return {.stale_owners = std::move(stale_owners_), .checkpoint = std::move(checkpoint_)};
  }

 private:
  void TakeResolution(Resolution resolution) {
    has_siblings_ = has_siblings_ || resolution.is_left_to_sibling;
    if (resolution.stale_owner) {
      stale_owners_.push_back(*std::move(resolution.stale_owner));
    }
  }

  // The kernel refuses a change that names a missing set or chain: then the checkpoint is wrong
  // about our tables. The first call compares everything; the second call throws `refusal`.
  void CompareEverything(const Error& refusal) {
    if (std::exchange(is_everything_compared_, true)) {
      throw Error(refusal);
    }
    checkpoint_.Expire();
    SaveCheckpoint(host_, checkpoint_);
    ConvergeAgain();
  }

  void ConvergeAgain() {
    Mismatches repaired(Mode::kRepair);  // dropped: only CHECK and reconcile name what they repair
    checkpoint_ = Converge(host_, {.added = &record_}, repaired).checkpoint;
    const std::string kind = KindNameOf(record_.rules.policy);
    const bool is_new = !kind.empty() && !checkpoint_.policy_kinds.contains(kind);
    change_.make =
        is_new ? TableOfKind(host_.policy.Program(), record_.Workload()) : nft::Table{.id = {}};
  }

  void Finish(std::uint32_t generation) {
    // Still under the rules' lock: otherwise a command could find the elements in force while the
    // record says kMaking, and conclude that a killed command left them.
    if (record_.IsAny(state::Phase::kMaking)) {
      host_.records.Write(record_.Finished());
    }
    // After the record: if this process is killed in between, the next command compares more than
    // it must.
    if (checkpoint_.generation != generation || (has_siblings_ && !checkpoint_.has_siblings)) {
      checkpoint_.generation = generation;
      checkpoint_.has_siblings = checkpoint_.has_siblings || has_siblings_;
      AddKind(record_, checkpoint_.policy_kinds);
      NotePublished(record_, checkpoint_);
      SaveCheckpoint(host_, checkpoint_);
    }
  }

  state::Host& host_;
  const state::Record& record_;
  firewall::Change change_;
  state::Checkpoint checkpoint_;
  std::vector<StaleOwner> stale_owners_;
  bool has_siblings_ = false;
  bool is_everything_compared_ = false;
};

// Returns `record` as judged by the policies in force. They may have changed since the record was
// written; the rules' lock keeps them fixed now. Writes the judgement to the record's file before
// the kernel changes, so that the elements of a killed ADD can be found.
state::Record WithCurrentPolicies(state::Host& host, const state::Record& record) {
  host.policy.Refresh();
  state::Record current = WithPolicies(record, host.policy.Program());
  if (current.rules.policy != record.rules.policy && record.IsAny(state::Phase::kMaking)) {
    host.records.Write(current);
  }
  return current;
}

// Returns the elements in the kernel whose comment names the attachment, for parts that `rest`
// lacks.
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

// Compares nothing, because a DEL has to work whatever the rules look like. A checkpoint that was
// current stays current; if it was not, the next ADD or CHECK compares.
void RemoveUnderLock(state::Host& host,
                     const std::vector<nft::Element>& elements,
                     const std::vector<nft::Element>& shared,
                     std::optional<state::Checkpoint> checkpoint) {
  const std::optional<std::uint32_t> generation =
      firewall::RemoveElements(host.nft,
                               elements,
                               checkpoint ? std::optional(checkpoint->generation) : std::nullopt,
                               shared);
  if (checkpoint && generation && *generation != checkpoint->generation) {
    checkpoint->generation = *generation;
    SaveCheckpoint(host, *checkpoint);
  }
}

}  // namespace

Committed Commit(state::Host& host, const state::Record& record) {
  // Held from the comparison to the end of the commit, so that checkpoint and policies stay the
  // same.
  const FileLock one_at_a_time = host.records.LockRules();
  const state::Record current = WithCurrentPolicies(host, record);
  Transaction transaction(host, current);
  nft::RetryOnGenerations(host.nft,
                          Cat("change table ", nft::Text(firewall::TableId())),
                          transaction.generation(),
                          [&](std::uint32_t generation) { return transaction.Try(generation); });
  return transaction.TakeCommitted();
}

void RemoveElements(state::Host& host, const state::Record& record, const state::Record& rest) {
  // Takes the elements from the record, not from a dump of the sets, so the work does not grow with
  // the number of attachments.
  std::vector<nft::Element> elements = RemovedElements(record, rest);
  if (elements.empty()) {
    return;
  }
  const FileLock one_at_a_time = host.records.LockRules();
  const std::optional<state::Checkpoint> checkpoint = host.checkpoint.Find();
  // If other policies were applied since the record was written, it may have more elements.
  if (!checkpoint || checkpoint->policy_revision != record.rules.policy.revision) {
    Append(elements, FindElementsBut(host, record, rest));
  }
  RemoveUnderLock(host, elements, FindUnneeded(host, elements, record.id), checkpoint);
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
        host.checkpoint.Find());
  }
}

}  // namespace nomad_bridge::rules
