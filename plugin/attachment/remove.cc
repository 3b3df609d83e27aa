#include "plugin/attachment/remove.h"

#include <algorithm>

#include "base/error.h"
#include "base/list.h"
#include "base/log.h"
#include "firewall/ruleset.h"
#include "plugin/attachment/leases.h"
#include "plugin/attachment/publish.h"
#include "plugin/cni/error_list.h"
#include "plugin/link/host_veth.h"
#include "plugin/link/liveness.h"
#include "plugin/rules/commit.h"
#include "plugin/rules/elements.h"
#include "plugin/rules/stale_conntrack.h"
#include "plugin/state/kernel_names.h"
#include "plugin/takeover/reference.h"

namespace nomad_bridge::attachment {
namespace {

// Writes the record if possible. If the disk is full, or a newer release wrote the record, the
// command goes on without it, although other commands may then repair what this one removes.
void WritePhase(state::Host& host, const state::Record& record) {
  try {
    host.records.Write(record);
  } catch (const Error& error) {
    LogLine("{}, ignoring", error.what());
  }
}

bool HasReferenceRules(state::Host& host, const AttachmentId& id) {
  takeover::RuleDumps dumps(host.nft, id.container_id);
  return takeover::HasReferenceRules(id, dumps);
}

cni::Parts RemovedParts(const state::Record& record, const state::Record& rest) {
  cni::Parts removed;
  for (const auto& [part, phase] : record.parts) {
    if (record.Has(part) && !rest.IsLive(part)) {
      removed.insert(part);
    }
  }
  return removed;
}

// Returns the elements of `id` in the kernel, and the elements without an owner, because `id` may
// share them. Returns none if no element belongs to `id`.
std::vector<nft::Element> OwnAndSharedElements(state::Host& host,
                                               const AttachmentId& id,
                                               Dumps& dumps) {
  if (!dumps.elements) {
    dumps.elements = firewall::AllElements(host.nft);
  }
  const std::string owner = state::HostVethName(id);
  const auto is_its = [&](const nft::Element& element) { return element.owner() == owner; };
  if (std::ranges::none_of(*dumps.elements, is_its)) {
    return {};
  }
  std::vector<nft::Element> elements = *dumps.elements;
  std::erase_if(elements, [&](const nft::Element& element) {
    return !element.comment.empty() && !is_its(element);
  });
  return elements;
}

}  // namespace

std::vector<std::string> Remove(state::Host& host,
                                const state::Record& record,
                                const state::Record& rest) {
  const cni::Parts removed = RemovedParts(record, rest);
  cni::ErrorList failures;
  const auto release = [&] { failures.Try("the leases", [&] { ReleaseAddresses(record); }); };
  const bool is_delegated = record.ipam.delegated.has_value();
  // Before anything else: a repair that found the attachment live would restore what is removed
  // here.
  WritePhase(host, record.With(removed, state::Phase::kLeaving));
  // Another IPAM plugin runs before the link goes: a DHCP client sends its release over the link,
  // while the rules still check what it sends.
  if (removed.contains(cni::Part::kAddress) && is_delegated) {
    release();
  }
  // Link before rules: without rules nothing checks what the container sends.
  if (removed.contains(cni::Part::kLink)) {
    failures.Try("the link", [&] { link::EnsureLinkGone(host, record); });
  }
  failures.Try("the rules", [&] { rules::RemoveElements(host, record, rest); });
  // After the rules: a port has one element, so a sibling gets the port only once it is free.
  if (removed.contains(cni::Part::kPorts)) {
    failures.Try("its published ports", [&] { TransferPortsToSibling(host, record); });
  }
  // After the rules and the link: until then the next packet would begin the same flow again.
  failures.Try("stale UDP flows", [&] {
    cni::Parts parts = removed;
    if (record.PhaseOf(cni::Part::kPorts) == state::Phase::kMaking) {
      // Never committed: the ports may belong to another attachment, whose flows go on.
      parts.erase(cni::Part::kPorts);
    }
    rules::DeleteStaleConntrack(host, record, parts);
  });
  // After the link: an ADD may take the address as soon as it is released, but the container
  // answers for the address until its link is gone.
  if (removed.contains(cni::Part::kAddress) && !is_delegated) {
    release();
  }
  // Last, and only if nothing failed: the next DEL reads in the record what is left.
  if (failures.empty() && rest.IsEmpty()) {
    failures.Try("the record", [&] { host.records.EnsureGone(record.id); });
  } else if (failures.empty()) {
    WritePhase(host, rest);
  }
  return failures.list();
}

std::vector<std::string> RemoveAll(state::Host& host, const state::Record& record) {
  state::Record nothing = record;
  nothing.parts.clear();
  return Remove(host, record, nothing);
}

void UndoPublish(state::Host& host, const state::Record& record, const state::Record& rest) {
  // The phases on disk show whether the parts were committed.
  cni::ErrorList(Remove(host, host.records.Find(record.id).value_or(record), rest))
      .ThrowIfAny("some of them are still there");
}

void RemoveEarlier(state::Host& host,
                   const AttachmentId& id,
                   const std::optional<state::Record>& earlier,
                   const std::string& data_dir,
                   Undo& undo) {
  if (earlier) {
    // The new ADD uses the leases and the record again, so a failed ADD has to remove them.
    undo.Then("remove what an earlier ADD left", [&host, earlier] {
      cni::ErrorList(RemoveAll(host, *earlier)).ThrowIfAny("some of it is still there");
    });
    // Before the link: a repair must not restore it. A newer release's record is never rewritten
    // (record_store.h).
    if (!earlier->is_of_newer_release) {
      host.records.Write(earlier->All(state::Phase::kLeaving));
    }
    // Link before rules, as in Remove().
    link::EnsureLinkGone(host, *earlier);
    rules::RemoveElements(host, *earlier, earlier->All(state::Phase::kLeaving));
  } else if (link::FindHostVeth(host.net, id, link::Recorded::kNo) || HasReferenceRules(host, id)) {
    cni::ErrorList(RemoveUnrecorded(host, {.id = id, .data_dir = data_dir}))
        .ThrowIfAny("cannot remove what an earlier ADD without a record left");
  }
}

std::vector<std::string> RemoveUnrecorded(state::Host& host, const Unrecorded& unrecorded) {
  Dumps dumps(host.nft);
  return RemoveUnrecorded(host, unrecorded, dumps);
}

std::vector<std::string> RemoveUnrecorded(state::Host& host,
                                          const Unrecorded& unrecorded,
                                          Dumps& dumps) {
  const AttachmentId& id = unrecorded.id;
  std::vector<Ip> leases = unrecorded.leases.value_or(std::vector<Ip>());
  cni::ErrorList failures;
  if (!unrecorded.leases) {
    failures.Try("what is leased to it", [&] { leases = FindLeasesOf(id, unrecorded.data_dir); });
  }
  // Link, rules, leases, record: the order of Remove(), for the same reasons.
  failures.Try("the link", [&] { link::EnsureUnrecordedLinkGone(host, id); });
  failures.Try("the rules",
               [&] { rules::RemoveElements(host, OwnAndSharedElements(host, id, dumps), &id); });
  failures.Try("the reference plugins' rules", [&] {
    std::vector<Ip> all = unrecorded.addresses;
    Append(all, leases);
    takeover::RemoveReferenceRulesOf(
        host,
        {id, all, {cni::Part::kMasquerade, cni::Part::kForward, cni::Part::kPorts}},
        dumps.reference_rules);
  });
  failures.Try("the leases", [&] { ReleaseLeases(id, unrecorded.data_dir, leases); });
  if (failures.empty()) {
    failures.Try("the record", [&] { host.records.EnsureVoidGone(id); });
  }
  return failures.list();
}

}  // namespace nomad_bridge::attachment
