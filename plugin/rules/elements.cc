#include "plugin/rules/elements.h"

#include "base/list.h"
#include "firewall/address_policy.h"
#include "firewall/port_filter.h"
#include "firewall/ruleset.h"
#include "firewall/table.h"
#include "plugin/state/kernel_names.h"
#include "portmap/rules.h"

namespace nomad_bridge::rules {
namespace {

// By which interface its packets come, and what ingressPolicy makes of it. Those of a bridge are
// shared; those of foreign host ends are the attachment's own.
std::vector<nft::Element> InterfaceElements(const state::Record& record,
                                            const std::string& comment) {
  const auto elements_for = [&](const std::string& link) {
    std::vector<nft::Element> elements = {firewall::BridgeElement(link)};
    if (link != record.link.gateway_ifname || !record.link.gateways.empty()) {
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
    // With br_netfilter packets between two ports of the bridge pass the rules, too.
    elements.push_back(firewall::BridgeElement(record.link.bridge));
  }
  if (!record.link.gateway_ifname.empty()) {
    Append(elements, elements_for(record.link.gateway_ifname));
  }
  return elements;
}

bool IsSourceChecked(const state::Record& record) {
  return record.Has(cni::Part::kLink) && record.link.port.source_check;
}

std::vector<std::string> IsolatedPorts(const state::Record& record) {
  if (!record.Has(cni::Part::kForward) || record.rules.ingress != firewall::Ingress::kIsolated) {
    return {};
  }
  return record.link.bridge.empty() ? record.link.foreign_ports
                                    : std::vector{state::HostVethName(record.id)};
}

}  // namespace

bool NeedsPortFilter(const state::Record& record) {
  return IsSourceChecked(record) || !IsolatedPorts(record).empty();
}

std::vector<nft::Element> ElementsOf(const state::Record& record) {
  const std::string comment = state::ElementComment(record.id, record.labels);
  const bool has_ports = record.Has(cni::Part::kPorts);
  const bool masquerade = record.Has(cni::Part::kMasquerade) && record.rules.ip_masq;
  const bool is_port_of_gateway =
      !record.link.gateways.empty() && record.link.bridge == record.link.gateway_ifname;
  std::vector<firewall::AddressPolicy> policies;
  for (const Cidr& cidr : record.ipam.addresses) {
    policies.push_back({.address = cidr.address,
                        .forward = record.Has(cni::Part::kForward),
                        .masquerade = masquerade && is_port_of_gateway,
                        .masquerade_lan = masquerade && !is_port_of_gateway,
                        .snat = has_ports && record.rules.snat,
                        .masquerade_all = has_ports && record.rules.masq_all,
                        .inbound = record.Has(cni::Part::kForward) ? record.rules.inbound
                                                                   : firewall::Inbound::kAny});
  }
  std::vector<nft::Element> elements = firewall::Elements(policies, comment);
  for (const std::string& port : IsolatedPorts(record)) {
    elements.push_back(firewall::IsolatedElement(port, comment));
  }
  if (IsSourceChecked(record)) {
    Append(elements,
           firewall::Elements({.port = state::HostVethName(record.id),
                               .mac = record.ContainerMac(),
                               .addresses = AddressesOnly(record.ipam.addresses)},
                              comment));
  }
  if (has_ports) {
    Append(elements, portmap::Elements(record.rules.ports, comment));
  }
  if (elements.empty()) {
    return {};  // no rules that would match its interface
  }
  Append(elements, InterfaceElements(record, comment));
  return elements;
}

std::vector<nft::Element> FindElementsOf(nft::Socket& socket, std::string_view owner) {
  std::vector<nft::Element> elements = firewall::OwnedElements(socket);
  std::erase_if(elements, [&](const nft::Element& element) { return element.owner() != owner; });
  return elements;
}

std::optional<cni::Part> PartOf(const nft::Element& element) {
  const auto is_of = [&](std::string_view noun) {
    return element.set == firewall::SetName(noun, Family::kIpv4) ||
           element.set == firewall::SetName(noun, Family::kIpv6);
  };
  if (element.set == firewall::kBridges || element.set == firewall::kGateways) {
    return std::nullopt;
  }
  if (element.family == nft::TableFamily::kBridge) {
    return firewall::IsIsolatedElement(element) ? cni::Part::kForward : cni::Part::kLink;
  }
  if (is_of(firewall::kAlloc) || is_of(firewall::kClosed) ||
      element.set == firewall::kIngressRestricted || element.set == firewall::kIngressAllowed) {
    return cni::Part::kForward;
  }
  return is_of(firewall::kMasq) || is_of(firewall::kMasqLan) ? cni::Part::kMasquerade
                                                             : cni::Part::kPorts;
}

std::optional<Ip> AddressOf(const nft::Element& element) {
  if (firewall::FindIfname(element) || element.family == nft::TableFamily::kBridge) {
    return std::nullopt;
  }
  if (!element.data.empty()) {
    return portmap::ContainerIpOf(element);
  }
  return Ip(element.key);
}

}  // namespace nomad_bridge::rules
