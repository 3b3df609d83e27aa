#include "plugin/attachment/unrecorded.h"

#include "base/list.h"
#include "firewall/change.h"
#include "plugin/attachment/leases.h"
#include "plugin/link/host_veth.h"
#include "plugin/rules/elements.h"
#include "plugin/state/kernel_names.h"
#include "portmap/rules.h"

namespace nomad_bridge::attachment {
namespace {

void NotePart(cni::Part part, state::Record& record) {
  record.parts.emplace(part, state::Phase::kLive);
}

void NoteLeases(const Leases& leases, state::Record& record) {
  record.ipam.data_dir = leases.data_dir;
  for (const Ip& address : leases.addresses) {
    record.ipam.leases.push_back(Cidr::Host(address));
    NotePart(cni::Part::kAddress, record);
  }
  record.ipam.addresses = record.ipam.leases;
}

// Adds what the elements of the attachment show: its addresses, its ports, and the parts that the
// elements belong to.
void NoteElements(const std::vector<nft::Element>& elements, state::Record& record) {
  const std::string owner = state::HostVethName(record.id);
  for (const nft::Element& element : elements) {
    if (element.owner() != owner) {
      continue;
    }
    // An element that several parts may need does not show which of them are there.
    if (const cni::Parts parts = rules::PartsOf(element); parts.size() == 1) {
      NotePart(*parts.begin(), record);
    }
    const std::optional<Ip> address = rules::AddressOf(element);
    if (address && !Contains(record.ipam.addresses, Cidr::Host(*address))) {
      record.ipam.addresses.push_back(Cidr::Host(*address));
    }
    if (const std::optional<portmap::DnatEntry> port = portmap::FindEntry(element)) {
      record.rules.ports.push_back(*port);
    }
  }
}

}  // namespace

state::Record RecordFromKernel(state::Host& host,
                               const AttachmentId& id,
                               const Leases& leases,
                               Dumps& dumps) {
  state::Record record;
  record.id = id;
  record.is_from_kernel = true;
  NoteLeases(leases, record);
  if (link::FindHostVeth(host.net, id, link::Recorded::kNo)) {
    NotePart(cni::Part::kLink, record);
  }
  if (!dumps.elements) {
    dumps.elements = firewall::AllElements(host.nft);
  }
  NoteElements(*dumps.elements, record);
  const std::vector<Ip> addresses = AddressesOnly(record.ipam.addresses);
  for (const cni::Part part : {cni::Part::kMasquerade, cni::Part::kForward, cni::Part::kPorts}) {
    if (takeover::HasReferenceRules({id, addresses, {part}}, dumps.reference_rules)) {
      NotePart(part, record);
    }
  }
  return record;
}

state::Record RecordFromKernel(state::Host& host,
                               const AttachmentId& id,
                               const std::string& data_dir,
                               cni::ErrorList& failures) {
  Leases leases = {.data_dir = data_dir, .addresses = {}};
  failures.Try("what is leased to it", [&] { leases.addresses = FindLeasesOf(id, data_dir); });
  Dumps dumps(host.nft);
  state::Record record;
  failures.Try("its rules", [&] { record = RecordFromKernel(host, id, leases, dumps); });
  if (!record.is_from_kernel) {
    // The kernel cannot tell. The leases are released all the same.
    record.id = id;
    record.is_from_kernel = true;
    NoteLeases(leases, record);
  }
  return record;
}

}  // namespace nomad_bridge::attachment
