#include "plugin/attachment/remove.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "plugin/attachment/leases.h"
#include "plugin/attachment/publish.h"
#include "plugin/cni/error_list.h"
#include "plugin/link/host_veth.h"
#include "plugin/rules/commit.h"
#include "plugin/rules/stale_conntrack.h"
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

// Removes the record if nothing of the attachment is left, else writes `rest`.
void WriteRest(state::Host& host, const state::Record& rest, cni::ErrorList& failures) {
  if (!rest.parts.empty()) {
    WritePhase(host, rest);
  } else if (rest.is_from_kernel) {
    failures.Try("the record", [&] { host.records.EnsureVoidGone(rest.id); });
  } else {
    failures.Try("the record", [&] { host.records.EnsureGone(rest.id); });
  }
}

}  // namespace

std::vector<std::string> Remove(state::Host& host,
                                const state::Record& record,
                                const cni::Parts& parts) {
  const state::Record leaving = record.Only(parts);
  cni::ErrorList failures;
  const auto release = [&] { failures.Try("the leases", [&] { ReleaseAddresses(record); }); };
  const bool is_delegated = record.ipam.delegated.has_value();
  // Before anything else: a repair that found the attachment live would restore what is removed
  // here.
  WritePhase(host, record.With(leaving.AllParts(), state::Phase::kLeaving));
  // Another IPAM plugin runs before the link goes: a DHCP client sends its release over the link,
  // while the rules still check what it sends.
  if (leaving.Has(cni::Part::kAddress) && is_delegated) {
    release();
  }
  // Link before rules: without rules nothing checks what the container sends.
  if (leaving.Has(cni::Part::kLink)) {
    failures.Try("the link", [&] { link::EnsureLinkGone(host, record); });
  }
  failures.Try("the rules", [&] { rules::RemoveElements(host, record, parts); });
  if (record.is_from_kernel) {
    // Perhaps the reference plugins made what we have no record of.
    failures.Try("the reference plugins' rules", [&] {
      takeover::RemoveReferenceRulesOf(host,
                                       {record.id, AddressesOnly(record.ipam.addresses), parts});
    });
  }
  // After the rules: a port has one element, so a sibling gets the port only once it is free.
  if (leaving.Has(cni::Part::kPorts)) {
    PublishForSiblings(host, record);
  }
  // After the rules and the link: until then the next packet would begin the same flow again.
  failures.Try("stale UDP flows", [&] {
    cni::Parts with_flows = leaving.AllParts();
    if (record.PhaseOf(cni::Part::kPorts) == state::Phase::kMaking) {
      // Never committed: the ports may belong to another attachment, whose flows go on.
      with_flows.erase(cni::Part::kPorts);
    }
    rules::DeleteStaleConntrack(host, record, with_flows);
  });
  // After the link: an ADD may take the address as soon as it is released, but the container
  // answers for the address until its link is gone.
  if (leaving.Has(cni::Part::kAddress) && !is_delegated) {
    release();
  }
  // Last, and only if nothing failed: the next DEL reads in the record what is left.
  if (failures.empty()) {
    WriteRest(host, record.Without(parts), failures);
  }
  return failures.list();
}

void UndoParts(state::Host& host, const state::Record& record, const cni::Parts& parts) {
  cni::ErrorList(Remove(host, host.records.Find(record.id).value_or(record), parts))
      .ThrowIfAny("some of it is still there");
}

}  // namespace nomad_bridge::attachment
