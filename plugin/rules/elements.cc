#include "plugin/rules/elements.h"

#include <algorithm>
#include <array>
#include <set>
#include <span>
#include <tuple>

#include "base/list.h"
#include "firewall/change.h"
#include "firewall/port_filter.h"
#include "firewall/table.h"
#include "plugin/rules/policy_admission.h"
#include "plugin/rules/policy_ports.h"
#include "plugin/rules/policy_tables.h"
#include "plugin/rules/tables.h"
#include "plugin/state/kernel_names.h"
#include "portmap/rules.h"

namespace nomad_bridge::rules {
namespace {

// Returns whether only allocations are behind the gateway of `record`. A bridge that somebody else
// made may connect the node to its LAN, whatever addresses the bridge has.
bool IsInside(const state::Record& record) {
  return !record.link.gateways.empty() && !record.link.adopted;
}

// Returns elements for the interfaces by which the attachment's packets come in, and for their
// ingressPolicy. Elements of a bridge are shared; elements of foreign host ends belong to the
// attachment.
std::vector<nft::Element> InterfaceElements(const state::Record& record,
                                            const std::string& comment) {
  const auto elements_for = [&](const std::string& link) {
    std::vector<nft::Element> elements = {firewall::BridgeElement(link)};
    if (link != record.link.gateway_ifname || IsInside(record)) {
      elements.push_back(firewall::GatewayElement(link));
    }
    if (record.Has(cni::Part::kForward)) {
      Append(elements, firewall::ElementsFor(record.rules.ingress, link).add);
    }
    return elements;
  };
  std::vector<nft::Element> elements;
  for (const std::string& link : record.link.foreign_host_ifnames) {
    Append(elements, elements_for(link));
  }
  for (nft::Element& element : elements) {
    element.comment = comment;
  }
  if (!record.link.bridge.empty() && record.link.bridge != record.link.gateway_ifname) {
    // With br_netfilter, packets between two ports of the bridge pass the rules, too.
    elements.push_back(firewall::BridgeElement(record.link.bridge));
  }
  if (!record.link.gateway_ifname.empty()) {
    Append(elements, elements_for(record.link.gateway_ifname));
  }
  return elements;
}

// Ports of another plugin's bridge are not checked: that plugin may give its container more
// addresses.
bool IsSourceChecked(const state::Record& record) {
  return record.Has(cni::Part::kLink) && record.link.port.source_check;
}

// Returns the ports that table bridge isolates from each other. Without br_netfilter no rule of
// table inet sees a packet between two ports of one bridge.
std::vector<std::string> IsolatedPorts(const state::Record& record) {
  const bool is_isolated =
      record.Has(cni::Part::kForward) && record.rules.ingress == firewall::Ingress::kIsolated;
  return is_isolated ? PortsOf(record) : std::vector<std::string>();
}

std::vector<nft::Element> PortElements(const state::Record& record, const std::string& comment) {
  std::vector<nft::Element> elements;
  for (const std::string& port : IsolatedPorts(record)) {
    Append(elements,
           firewall::IsolatedElements(port, AddressesOnly(record.ipam.addresses), comment));
  }
  return elements;
}

// Returns the elements by which policies recognize the attachment's packets: its addresses with the
// interfaces that the packets come in by.
std::vector<nft::Element> SourceInterfaceElements(const state::Record& record,
                                                  const std::string& comment) {
  const std::set<std::string> links = SourceInterfaces(record);
  std::vector<nft::Element> elements;
  for (const Cidr& cidr : record.ipam.addresses) {
    for (const std::string& link : links) {
      std::vector<std::uint8_t> key = firewall::AddressKey(cidr.address);
      Append(key, firewall::NameKey(link));
      elements.push_back({.set = firewall::SetName(kSourceInterfaces, cidr.address.family()),
                          .key = std::move(key),
                          .comment = comment});
    }
  }
  return elements;
}

// Returns all elements that policies need; none if there are no policies, or if they cannot be in
// force for the attachment.
std::vector<nft::Element> ElementsForPolicies(const state::Record& record,
                                              const std::string& comment) {
  if (record.rules.policy.revision.empty() || !IsJudged(record)) {
    return {};
  }
  std::vector<nft::Element> elements = PolicyElements(record, comment);
  Append(elements, SourceInterfaceElements(record, comment));
  Append(elements, PolicyPortElements(record, comment));
  if (record.Has(cni::Part::kLink) && record.link.made_by_us) {
    std::vector<std::uint8_t> pair = firewall::NameKey(record.link.bridge);
    Append(pair, firewall::NameKey(record.link.bridge));
    elements.push_back({.set = kSameBridge, .key = std::move(pair)});
  }
  return elements;
}

std::vector<firewall::AddressPolicy> AddressPolicies(const state::Record& record) {
  const bool has_ports = record.Has(cni::Part::kPorts);
  const bool masquerade = record.Has(cni::Part::kMasquerade) && record.rules.ip_masq;
  const bool is_port_of_gateway =
      IsInside(record) && record.link.bridge == record.link.gateway_ifname;
  std::vector<firewall::AddressPolicy> policies;
  for (const Cidr& cidr : record.ipam.addresses) {
    policies.push_back(
        {.address = cidr.address,
         .forward = record.Has(cni::Part::kForward),
         .masquerade = masquerade && is_port_of_gateway,
         .masquerade_lan = masquerade && !is_port_of_gateway,
         .not_masqueraded_to = masquerade ? record.rules.non_masquerade_cidrs : std::vector<Cidr>(),
         .random_ports = masquerade && record.rules.random_ports,
         .snat = has_ports && record.rules.snat,
         .masquerade_all = has_ports && record.rules.masq_all,
         .inbound =
             record.Has(cni::Part::kForward) ? record.rules.inbound : firewall::Inbound::kAny});
  }
  return policies;
}

}  // namespace

bool NeedsPortFilter(const state::Record& record) {
  const state::Record::Policy& policy = record.rules.policy;
  const bool is_judged =
      IsJudged(record) && !PortsOf(record).empty() && (policy.judges_ports || policy.MayRefuse());
  return IsSourceChecked(record) || !IsolatedPorts(record).empty() || is_judged;
}

std::vector<nft::Element> ElementsOf(const state::Record& record) {
  const std::string comment = state::ElementComment(record.id, record.labels);
  std::vector<nft::Element> elements = firewall::Elements(AddressPolicies(record), comment);
  Append(elements, PortElements(record, comment));
  if (IsSourceChecked(record)) {
    Append(elements,
           firewall::Elements({.port = state::HostVethName(record.id),
                               .mac = record.ContainerMac(),
                               .addresses = AddressesOnly(record.ipam.addresses)},
                              comment));
  }
  if (record.Has(cni::Part::kPorts)) {
    Append(elements, portmap::Elements(record.rules.ports, comment));
  }
  // Only if the attachment has elements of its own: without those, no rule would use the interface
  // elements. Policies do not use them.
  if (!elements.empty()) {
    Append(elements, InterfaceElements(record, comment));
  }
  Append(elements, ElementsForPolicies(record, comment));
  return elements;
}

// Dumps all sets: for a caller that has no record, or a record that does not show all elements.
std::vector<nft::Element> FindElementsOf(nft::Socket& socket, std::string_view owner) {
  std::vector<nft::Element> elements = firewall::AllElements(socket);
  std::erase_if(elements, [&](const nft::Element& element) { return element.owner() != owner; });
  return elements;
}

cni::Parts PartsOf(const nft::Element& element) {
  using enum cni::Part;
  const firewall::OwnSet* const own = FindRow(element);
  switch (own == nullptr ? firewall::Role::kNone : own->role) {
    case firewall::Role::kNone:
      return {};
    case firewall::Role::kAny:
    case firewall::Role::kJudged:
      return {kLink, kMasquerade, kForward, kPorts};
    case firewall::Role::kForwarding:
      return {kForward};
    case firewall::Role::kMasquerade:
      return {kMasquerade};
    case firewall::Role::kPorts:
      return {kPorts};
    case firewall::Role::kSource:
      return {kLink};
  }
  return {};
}

std::optional<Ip> AddressOf(const nft::Element& element) {
  const firewall::OwnSet* const own = FindRow(element);
  if (own == nullptr) {
    return std::nullopt;
  }
  for (const auto& [fields, bytes] :
       {std::tie(own->set.data, element.data), std::tie(own->set.key, element.key)}) {
    const nft::Type first = fields.empty() ? nft::Type::kIfname : fields.front();
    if (first == nft::Type::kIpv4Addr || first == nft::Type::kIpv6Addr) {
      return Ip(std::span(bytes).first(nft::PaddedBytes(first)));
    }
  }
  return std::nullopt;
}

std::optional<std::string> FindIfname(const nft::Element& element) {
  const firewall::OwnSet* const own = FindRow(element);
  return own != nullptr && own->set.key.front() == nft::Type::kIfname
             ? std::optional(std::string(element.key.begin(), std::ranges::find(element.key, 0)))
             : std::nullopt;
}

}  // namespace nomad_bridge::rules
