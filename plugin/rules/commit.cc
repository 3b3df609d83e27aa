#include "plugin/rules/commit.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/list.h"
#include "firewall/about.h"
#include "firewall/change.h"
#include "firewall/table.h"
#include "plugin/rules/check_ruleset.h"
#include "plugin/rules/elements.h"
#include "plugin/rules/left_over.h"
#include "plugin/rules/policy_tables.h"
#include "plugin/state/kernel_names.h"

namespace nomad_bridge::rules {
namespace {

// How often a change is tried again if the kernel refuses it: tables or elements are missing.
constexpr int kMaxRepairs = 5;

// Returns the elements of an earlier ingressPolicy on the bridge of `record` that no attachment
// needs. Reads records only if there are such elements, after a change of the config.
std::vector<nft::Element> FindEarlierPolicy(state::Host& host, const state::Record& record) {
  if (!record.Has(cni::Part::kForward) || record.link.gateway_ifname.empty()) {
    return {};
  }
  std::vector<nft::Element> earlier;
  const std::vector<nft::Element> not_wanted =
      firewall::ElementsFor(record.rules.ingress, record.link.gateway_ifname).remove;
  const std::vector<firewall::Presence> presences = firewall::FindPresences(host.nft, not_wanted);
  for (std::size_t i = 0; i < not_wanted.size(); ++i) {
    if (presences[i] != firewall::Presence::kMissing) {
      earlier.push_back(not_wanted[i]);
    }
  }
  return WithoutNeeded(host, std::move(earlier), record.id);
}

// Plans and commits the change for one attachment, again until it is in force or is refused.
class Transaction {
 public:
  Transaction(state::Host& host, const state::Record& record)
      : host_(host), record_(record), change_{.add = ElementsOf(record.Finished().OnlyLive())} {}

  [[nodiscard]] std::vector<StaleOwner> Run(Finishes finishes) {
    // First: what others have removed is restored even if this attachment is refused, and a port
    // does not count as free only because somebody flushed its element.
    EnsureTables(host_, record_);
    change_.remove = FindEarlierPolicy(host_, record_);
    change_.make = TablesOfKind(host_.policy.Program(), record_);
    for (int repairs = 0;;) {
      const firewall::ChangeOutcome outcome = Try();
      if (outcome.conflict) {
        Resolve(*outcome.conflict);
      } else if (!outcome.refusal) {
        break;
      } else if (repairs++ == kMaxRepairs) {
        throw Error(*outcome.refusal);
      } else {
        // The change names a table, set or chain that is missing.
        RepairRuleset(host_, &record_);
      }
    }
    // Still under the rules' lock: otherwise a command could find the elements in force while the
    // record says kMaking, and conclude that a killed command left them.
    if (finishes == Finishes::kYes && record_.IsAny(state::Phase::kMaking)) {
      host_.records.Write(record_.Finished());
    }
    return std::move(stale_owners_);
  }

 private:
  [[nodiscard]] firewall::ChangeOutcome Try() {
    // Only a new attachment is checked for overlaps: a repair must not take a port away.
    std::optional<firewall::Conflict> overlap =
        record_.IsAny(state::Phase::kMaking) ? FindOverlap(host_, change_) : std::nullopt;
    return overlap ? firewall::ChangeOutcome{.conflict = std::move(overlap)}
                   : firewall::ChangeElements(host_.nft, change_);
  }

  void Resolve(const firewall::Conflict& conflict) {
    if (std::optional<StaleOwner> owner = ResolveConflict(host_, record_, conflict, change_)) {
      stale_owners_.push_back(*std::move(owner));
    }
  }

  state::Host& host_;
  const state::Record& record_;
  firewall::Change change_;
  std::vector<StaleOwner> stale_owners_;
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

// Returns the elements of `parts` of `record`, and the shared elements that it needs for nothing
// else. Takes them from the record, not from a dump of the sets, so the work does not grow with the
// number of attachments.
std::vector<nft::Element> ElementsOfParts(const state::Record& record, const cni::Parts& parts) {
  std::vector<nft::Element> elements = ElementsOf(record);
  const std::vector<nft::Element> kept = ElementsOf(record.Without(parts).OnlyLive());
  std::erase_if(elements, [&](const nft::Element& element) { return Contains(kept, element); });
  return elements;
}

// Returns the elements in the kernel whose comment names the attachment, except for those of parts
// that stay; and for an attachment without a record, of which nobody knows the interfaces, all
// shared elements. One dump of each set.
std::vector<nft::Element> FindElementsOfParts(state::Host& host,
                                              const state::Record& record,
                                              const cni::Parts& parts) {
  const std::string owner = state::HostVethName(record.id);
  const state::Record rest = record.Without(parts).OnlyLive();
  const auto stays = [&](cni::Part part) { return rest.Has(part); };
  const auto is_owned = [&](const nft::Element& element) {
    return element.owner() == owner && std::ranges::none_of(PartsOf(element), stays);
  };
  std::vector<nft::Element> elements = firewall::AllElements(host.nft);
  const bool has_any = std::ranges::any_of(elements, is_owned);
  std::erase_if(elements, [&](const nft::Element& element) {
    const bool may_be_shared =
        has_any && record.is_from_kernel && firewall::IsShared(element) && FindIfname(element);
    return !may_be_shared && !is_owned(element);
  });
  return elements;
}

// Returns whether the record shows all elements that the attachment has: it was written by the ADD,
// and by the policies in force, or their names in it are still those in the kernel.
bool ShowsAllElements(state::Host& host, const state::Record& record) {
  if (record.is_from_kernel) {
    return false;
  }
  const std::optional<firewall::About> about = firewall::FindAbout(host.nft);
  return about && about->policy_revision == record.rules.policy.revision;
}

}  // namespace

std::vector<StaleOwner> Commit(state::Host& host, const state::Record& record, Finishes finishes) {
  // Held from the comparison to the end of the commit, so that tables and policies stay the same.
  const FileLock one_at_a_time = host.records.LockRules();
  const state::Record current = WithCurrentPolicies(host, record);
  return Transaction(host, current).Run(finishes);
}

void RemoveElements(state::Host& host, const state::Record& record, const cni::Parts& parts) {
  std::vector<nft::Element> elements = ElementsOfParts(record, parts);
  const bool may_have_elements = record.is_from_kernel
                                     ? record.Only(parts).HasRules() || record.Has(cni::Part::kLink)
                                     : !elements.empty();
  if (!may_have_elements) {
    return;  // the kernel may not even have nf_tables
  }
  const FileLock one_at_a_time = host.records.LockRules();
  if (!ShowsAllElements(host, record)) {
    Append(elements, FindElementsOfParts(host, record, parts));
  }
  std::vector<nft::Element> shared = elements;
  std::erase_if(elements, &firewall::IsShared);
  std::erase_if(shared, [](const nft::Element& element) { return !firewall::IsShared(element); });
  Append(elements, WithoutNeeded(host, std::move(shared), record.id));
  firewall::EnsureElementsGone(host.nft, elements);
}

}  // namespace nomad_bridge::rules
