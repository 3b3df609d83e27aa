#include "plugin/rules.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "firewall/table.h"
#include "plugin/living.h"
#include "plugin/log.h"
#include "plugin/names.h"
#include "plugin/other_firewalls.h"
#include "plugin/shared_rules.h"
#include "plugin/teardown.h"
#include "portmap/elements.h"
#include "portmap/rules.h"

namespace nomad_bridge {
namespace {

NftTable NodeTable(int accept_mark_bit) {
  NftTable table = firewall::Describe(accept_mark_bit);
  portmap::Describe(table);
  return table;
}

std::optional<std::uint32_t> Generation(const std::optional<Records::Trust>& trust) {
  return trust ? std::optional(trust->generation) : std::nullopt;
}

// nullopt also if anybody has changed the ruleset since.
std::optional<Records::Trust> FindCurrentTrust(Host& host) {
  std::optional<Records::Trust> trust = host.records.FindTrust();
  return trust && trust->generation == host.nft.Generation() ? trust : std::nullopt;
}

// Only who is forwarded for says which bit marks it.
bool SaysMarkBit(const Record& record) {
  return !record.policy.admin_chain.empty();
}

// The bit of the node's rules: what `record` says, else what the node has already.
int MarkBitFor(Host& host, const Record& record, const std::optional<Records::Trust>& trust) {
  if (SaysMarkBit(record)) {
    return record.policy.accept_mark_bit;
  }
  if (trust) {
    return trust->accept_mark_bit;
  }
  const std::vector<Record> others = LivingOthers(host, record.who);
  const auto other = std::find_if(others.begin(), others.end(), SaysMarkBit);
  return other != others.end() ? other->policy.accept_mark_bit : record.policy.accept_mark_bit;
}

// The mark is one bit for the whole node, so networks have to agree on it.
void RequireSameMarkBit(Host& host, const Record& record) {
  for (const Record& other : LivingOthers(host, record.who)) {
    if (SaysMarkBit(other) && other.policy.accept_mark_bit != record.policy.accept_mark_bit &&
        other.who.network != record.who.network) {
      throw Error(
          Code::kConflict,
          Cat("acceptMarkBit is ",
              record.policy.accept_mark_bit,
              " in network ",
              Quoted(record.who.network),
              ", but ",
              other.policy.accept_mark_bit,
              " in network ",
              Quoted(other.who.network)),
          "the bit is one for the whole node: networks with live allocations must agree on it");
    }
  }
}

std::vector<firewall::Holding> HoldingsOfOthers(Host& host, const Attachment& except) {
  std::vector<firewall::Holding> holdings;
  for (const Record& other : LivingOthers(host, except)) {
    holdings.push_back({.policy = other.policy, .elements = ElementsOf(other)});
  }
  return holdings;
}

std::string DescribeConflict(const firewall::Conflict& conflict) {
  const std::string port = portmap::DescribeKey(conflict.wanted);
  if (!port.empty()) {
    return Cat("host port ", port);
  }
  return conflict.wanted.set == firewall::kBridges ? "its interface on the host"
                                                   : Cat("address ", Ip(conflict.wanted.key));
}

[[noreturn]] void ThrowTaken(const firewall::Conflict& conflict,
                             const std::optional<Record>& owner) {
  const std::string what = Cat(DescribeConflict(conflict), " is taken by ");
  if (!owner) {
    throw Error(Code::kConflict,
                Cat(what, "an attachment without a record"),
                Cat("its element in table inet nomad-bridge says: ", conflict.present.comment));
  }
  throw Error(
      Code::kConflict,
      Cat(what, NameOwner(owner->labels, owner->who.container_id)),
      Cat("network ",
          Quoted(owner->who.network),
          ", container ",
          Quoted(owner->who.container_id),
          ", interface ",
          Quoted(owner->who.ifname),
          owner->addresses.empty() ? "" : Cat(", address ", owner->addresses.front().address)));
}

bool IsSameContainer(const Attachment& who, const Record& record) {
  return who.container_id == record.who.container_id && who != record.who;
}

// A dead attachment in the way of ours, kept from any other command while it is taken over.
struct Dead {
  RangeLock lock;
  Record record;
};

// The owner of the element in the way if it is dead; throws if it lives. nullopt: dead without a
// record.
std::optional<Dead> RequireDead(Host& host, const firewall::Conflict& conflict) {
  const std::string owner_key(conflict.present.owner());
  std::optional<Record> owner = host.records.FindOwner(owner_key);
  if (!owner) {
    const std::optional<Link> veth = host.net.FindLink(owner_key);
    if (owner_key.empty() || veth) {
      ThrowTaken(conflict, owner);
    }
    return std::nullopt;
  }
  std::optional<RangeLock> lock = host.records.TryLock(owner->who);
  if (!lock || IsAlive(host, *owner)) {
    ThrowTaken(conflict, owner);
  }
  return Dead{*std::move(lock), *std::move(owner)};
}

// A runtime publishes a container's ports in every network the container is in (podman does), and
// they lead to it either way: what another attachment of it holds is left there, until HandOnPorts().
bool YieldToSameContainer(Host& host,
                          const Record& record,
                          const firewall::Conflict& conflict,
                          firewall::Change& change) {
  const std::optional<Record> owner = host.records.FindOwner(std::string(conflict.present.owner()));
  const bool is_port = !portmap::DescribeKey(conflict.wanted).empty();
  if (!is_port || !owner || !IsSameContainer(owner->who, record) || !IsAlive(host, *owner)) {
    return false;
  }
  std::erase_if(change.wanted, [&](const NftElement& wanted) {
    return wanted.set == conflict.wanted.set && wanted.key == conflict.wanted.key;
  });
  Say(DescribeConflict(conflict),
      " stays with the same container in network ",
      Quoted(owner->who.network));
  return true;
}

// What the dead hold goes in the same batch, but for what is taken over from them.
void AddUnwanted(firewall::Change& change, const Record& dead) {
  for (NftElement& element : ElementsOf(dead)) {
    const bool taken_over =
        std::any_of(change.wanted.begin(), change.wanted.end(), [&](const NftElement& wanted) {
          return wanted.set == element.set && wanted.key == element.key;
        });
    if (!taken_over && !element.comment.empty()) {
      change.unwanted.push_back(std::move(element));
    }
  }
}

// Without it the next one looks for itself: no reason to fail, least of all for a DEL.
void SaveTrust(Host& host, Records::Trust trust, std::optional<std::uint32_t> generation) {
  if (!generation) {
    return;
  }
  trust.generation = *generation;
  try {
    host.records.WriteTrust(trust);
  } catch (const Error& error) {
    Say(error.what(), ", ignoring");
  }
}

struct Committed {
  std::vector<Dead> dead;  // in the way of the change, and widening it
  Records::Trust trust;
};

Committed Commit(Host& host,
                 const Record& record,
                 firewall::Change& change,
                 const firewall::HoldingsOfLiving& living) {
  const RangeLock one_at_a_time = host.records.LockRules();
  std::optional<Records::Trust> trust = FindCurrentTrust(host);
  const int mark_bit = MarkBitFor(host, record, trust);
  if (!trust || trust->accept_mark_bit != mark_bit) {
    if (SaysMarkBit(record)) {
      RequireSameMarkBit(host, record);
    }
    trust.reset();
  }
  Committed committed{.dead = {}, .trust = trust.value_or(Records::Trust{})};
  std::vector<std::string>& shared = committed.trust.shared;
  const std::string hash = HashOfShared(record, change.wanted);
  change.shared_is_there = std::find(shared.begin(), shared.end(), hash) != shared.end();
  const Outdated outdated = change.shared_is_there ? Outdated{} : FindOutdated(host, record);
  change.retired = outdated.retired;
  const NftTable table = NodeTable(mark_bit);
  firewall::Outcome outcome;
  while ((outcome = firewall::Apply(host.nft, table, change, Generation(trust), living)).conflict) {
    if (YieldToSameContainer(host, record, *outcome.conflict, change)) {
      continue;
    }
    change.dead.emplace_back(outcome.conflict->present.owner());
    if (std::optional<Dead> owner = RequireDead(host, *outcome.conflict)) {
      AddUnwanted(change, owner->record);
      committed.dead.push_back(*std::move(owner));
    }
  }
  for (const std::string& phrase : outcome.mended) {
    Say("mended ", phrase);
  }
  if (!change.retired.empty()) {
    shared.clear();  // who asked for that, will have to again
  }
  std::erase_if(shared, [&](const std::string& known) { return IsOfAnotherPolicy(known, record); });
  if (!change.shared_is_there && !outdated.is_kept) {
    shared.push_back(hash);
  }
  committed.trust.accept_mark_bit = mark_bit;
  SaveTrust(host, committed.trust, outcome.generation);
  return committed;
}

// Others decide after us; what they are told, and what cannot be helped, holds until the ruleset is
// changed again. Their tools take their time, so nobody's lock is held meanwhile.
void MindOthers(Host& host, const Record& record, Records::Trust trust) {
  const bool is_known =
      std::find(trust.gates.begin(), trust.gates.end(), record.gate) != trust.gates.end();
  if (SaysMarkBit(record) && !is_known) {
    OpenOtherFirewalls(host, record);
    trust.notes = NotesOnOtherFirewalls(host, record.policy.accept_mark_bit);
    const RangeLock one_at_a_time = host.records.LockRules();
    if (std::optional<Records::Trust> now = host.records.FindTrust()) {
      std::erase(now->gates, record.gate);  // another ADD may have told them meanwhile
      now->gates.push_back(record.gate);
      now->notes = trust.notes;
      host.records.WriteTrust(*now);
    }
  }
  for (const std::string& note : trust.notes) {
    Say(note);
  }
}

void Publish(Host& host,
             const Record& record,
             bool again,
             const firewall::HoldingsOfLiving& living) {
  firewall::Change change{.policy = record.policy, .wanted = ElementsOf(record), .again = again};
  if (change.wanted.empty()) {
    return;  // a bare link: the kernel may even have no nf_tables
  }
  Committed committed = Commit(host, record, change, living);
  for (const Dead& owner : committed.dead) {
    Say("took over from the dead container ", Quoted(owner.record.who.container_id));
    for (const std::string& failure : TearDown(host, owner.record)) {
      Say(failure, ", ignoring");
    }
  }
  MindOthers(host, record, std::move(committed.trust));
}

}  // namespace

void PublishRules(Host& host, const Record& record, bool again) {
  Publish(host, record, again, [&] { return HoldingsOfOthers(host, record.who); });
}

void MendRules(Host& host, const Record& record) {
  const std::optional<Records::Trust> trust = FindCurrentTrust(host);
  if (!trust) {
    // This attachment is among the living: what it lost was lost, and is said so.
    Publish(host, record, true, [&] { return HoldingsOfOthers(host, {}); });
    return;
  }
  if (SaysMarkBit(record)) {
    OpenLegacyTables(record);  // of which the generation says nothing
  }
  for (const std::string& note : trust->notes) {
    Say(note);
  }
}

void WithdrawRules(Host& host, const std::vector<NftElement>& elements) {
  std::vector<NftElement> owned;
  std::copy_if(
      elements.begin(), elements.end(), std::back_inserter(owned), [](const NftElement& element) {
        return !element.comment.empty();
      });
  if (owned.empty()) {
    return;
  }
  const RangeLock one_at_a_time = host.records.LockRules();
  const std::optional<Records::Trust> trust = host.records.FindTrust();
  const std::optional<std::uint32_t> generation =
      firewall::Withdraw(host.nft, owned, Generation(trust));
  SaveTrust(host, trust.value_or(Records::Trust{}), generation);
}

void HandOnPorts(Host& host, const Record& record) {
  if (!record.Has(Part::kPorts) || record.ports.empty()) {
    return;
  }
  for (const Attachment& who : host.records.List("")) {
    if (!IsSameContainer(who, record)) {
      continue;
    }
    // Whoever works on it publishes its ports, or takes them away.
    const std::optional<RangeLock> lock = host.records.TryLock(who);
    const std::optional<Record> other = lock ? host.records.Find(who) : std::nullopt;
    if (other && other->Has(Part::kPorts) && IsAlive(host, *other)) {
      PublishRules(host, *other, true);
    }
  }
}

std::vector<NftElement> FindRulesOf(Host& host, const Attachment& who) {
  std::vector<NftElement> elements = firewall::OwnedElements(host.nft);
  const std::string owner = HostVethName(who);
  std::erase_if(elements, [&](const NftElement& element) { return element.owner() != owner; });
  return elements;
}

std::optional<Part> PartOf(const NftElement& element) {
  const auto is_of = [&](std::string_view noun) {
    return element.set == firewall::SetName(noun, Family::kIpv4) ||
           element.set == firewall::SetName(noun, Family::kIpv6);
  };
  if (element.set == firewall::kBridges) {
    return std::nullopt;
  }
  if (is_of(firewall::kAlloc) || element.set == firewall::kGuarded ||
      element.set == firewall::kWithin) {
    return Part::kForward;
  }
  return is_of(firewall::kMasq) ? Part::kMasquerade : Part::kPorts;
}

std::vector<std::string> MissingRules(Host& host, const Record& record) {
  const std::vector<NftElement> elements = ElementsOf(record);
  if (elements.empty()) {
    return {};
  }
  const int mark_bit = MarkBitFor(host, record, host.records.FindTrust());
  return firewall::Missing(
      host.nft, NodeTable(mark_bit), {.policy = record.policy, .elements = elements});
}

}  // namespace nomad_bridge
