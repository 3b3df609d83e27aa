#include "plugin/takeover/reference.h"

#include <algorithm>
#include <array>
#include <set>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "ipam/store.h"
#include "plugin/link/host_veth.h"
#include "plugin/takeover/legacy_reference.h"
#include "plugin/takeover/nft_rules.h"

namespace nomad_bridge::takeover {
namespace {

ReferenceParts ReferencePartsOf(const cni::Parts& parts) {
  constexpr std::array kPairs = {std::pair(cni::Part::kMasquerade, ReferencePart::kMasquerade),
                                 std::pair(cni::Part::kForward, ReferencePart::kForward),
                                 std::pair(cni::Part::kPorts, ReferencePart::kPorts)};
  ReferenceParts wanted;
  for (const auto& [part, theirs] : kPairs) {
    if (parts.contains(part)) {
      wanted.insert(theirs);
    }
  }
  return wanted;
}

// In how many families, and for how many ports in all of them, `ports` lead to `addresses`.
struct Publishing {
  std::size_t jumps = 0;  // at least one per family and protocol
  std::size_t ports = 0;
};

Publishing PublishingFor(const std::vector<Ip>& addresses,
                         const std::vector<portmap::PortMapping>& ports) {
  std::set<std::pair<Family, portmap::Protocol>> jumps;
  std::set<std::tuple<Family, portmap::Protocol, std::uint16_t>> led;
  for (const Ip& address : addresses) {
    for (const portmap::PortMapping& port : ports) {
      if (!port.only || *port.only == address.family()) {
        jumps.emplace(address.family(), port.protocol);
        led.emplace(address.family(), port.protocol, port.host_port);
      }
    }
  }
  return {.jumps = jumps.size(), .ports = led.size()};
}

// Whether nf_tables has as many rules for `part` as an ADD makes.
bool IsWhole(nft::Socket& nft,
             std::vector<ReferenceRule> rules,
             ReferencePart part,
             const std::vector<Ip>& addresses,
             const std::vector<portmap::PortMapping>& ports) {
  std::erase_if(rules, [&](const ReferenceRule& rule) { return rule.part != part; });
  switch (part) {
    case ReferencePart::kForward:
      return rules.size() >= 2 * addresses.size();  // what it sends, and the answers
    case ReferencePart::kMasquerade:
      return rules.size() >= addresses.size() && CountEffects(nft, rules) >= addresses.size();
    case ReferencePart::kPorts:
      break;
  }
  const Publishing wanted = PublishingFor(addresses, ports);
  return rules.size() >= wanted.jumps && CountEffects(nft, rules) >= wanted.ports;
}

// What an ADD by `name` made.
ReferenceParts ExpectedParts(const cni::PluginType& type, const config::RulesConfig& rules) {
  ReferenceParts parts = ReferencePartsOf(type.parts);
  if (!rules.ip_masq) {
    parts.erase(ReferencePart::kMasquerade);
  }
  if (rules.ports.empty()) {
    parts.erase(ReferencePart::kPorts);
  }
  return parts;
}

// Those of `expected` that neither nf_tables nor a table of iptables-legacy has.
ReferenceParts LostParts(state::Host& host,
                         const AttachmentId& id,
                         const std::vector<Ip>& addresses,
                         const std::vector<portmap::PortMapping>& ports,
                         ReferenceParts expected) {
  const std::vector<ReferenceRule> rules = FindReferenceRules(host.nft, id, addresses);
  std::erase_if(expected, [&](ReferencePart part) {
    return IsWhole(host.nft, rules, part, addresses, ports);
  });
  const std::vector<LegacyFinding> findings = FindLegacyReferenceRules(id, addresses, expected);
  std::erase_if(expected,
                [&](ReferencePart part) { return IsWhole(findings, part, addresses, ports); });
  return expected;
}

const char* MismatchOf(ReferencePart part) {
  switch (part) {
    case ReferencePart::kMasquerade:
      return "the rule that masquerades it is missing";
    case ReferencePart::kForward:
      return "the rules that let it talk are missing";
    case ReferencePart::kPorts:
      break;
  }
  return "the rules of its published ports are missing";
}

void RemoveFromNfTables(state::Host& host,
                        const AttachmentId& id,
                        const std::vector<Ip>& addresses,
                        const ReferenceParts& parts) {
  std::vector<ReferenceRule> rules = FindReferenceRules(host.nft, id, addresses);
  std::erase_if(rules, [&](const ReferenceRule& rule) { return !parts.contains(rule.part); });
  RemoveReferenceRules(host.nft, rules);
}

void SayIgnored(const Error& error) {
  LogLine("cannot look for rules of the reference plugins, ignoring: ", error.what());
}

bool HasLease(const cni::Request& request, const std::string& data_dir, const Ip& address) {
  const std::optional<ipam::Store> store = ipam::Store::OpenIfExists(data_dir, request.id.network);
  const std::optional<ipam::LeaseOwner> owner = store ? store->FindOwner(address) : std::nullopt;
  return owner && owner->Matches({request.id.container_id, request.id.ifname});
}

}  // namespace

bool IsReferenceMade(state::Host& host, const cni::Request& request, const config::Config& config) {
  if (link::FindHostVeth(host.net, request.id, false)) {
    return false;
  }
  const std::vector<Cidr> addresses = link::AddressesIn(*config.prev_result, request);
  return std::any_of(addresses.begin(), addresses.end(), [&](const Cidr& cidr) {
    return HasLease(request, config.ipam.data_dir, cidr.address);
  });
}

bool HasReferenceRules(state::Host& host, const AttachmentId& id) {
  if (MayHaveReferenceRules(host.nft) && !FindReferenceRules(host.nft, id, {}).empty()) {
    return true;
  }
  try {
    return !FindLegacyReferenceRules(id, {}, {ReferencePart::kMasquerade, ReferencePart::kPorts})
                .empty();
  } catch (const Error& error) {
    SayIgnored(error);
    return false;
  }
}

void RemoveReferenceRulesOf(state::Host& host,
                            const AttachmentId& id,
                            const std::vector<Ip>& addresses,
                            const cni::Parts& parts) {
  const ReferenceParts theirs = ReferencePartsOf(parts);
  RemoveFromNfTables(host, id, addresses, theirs);
  RemoveLegacyReferenceRules(id, addresses, theirs);
}

void TryRemoveReferenceRules(state::Host& host,
                             const AttachmentId& id,
                             const std::vector<Ip>& addresses,
                             const cni::Parts& parts) {
  const ReferenceParts theirs = ReferencePartsOf(parts);
  if (theirs.empty()) {
    return;
  }
  RemoveFromNfTables(host, id, addresses, theirs);
  try {
    RemoveLegacyReferenceRules(id, addresses, theirs);
  } catch (const Error& error) {
    SayIgnored(error);
  }
}

void EnsureReferenceLinkGone(state::Host& host,
                             link::Container& container,
                             const cni::Request& request,
                             const std::string& bridge) {
  const std::optional<rtnl::Link> inside = container.net.FindLink(request.id.ifname);
  const std::optional<rtnl::Link> master = host.net.FindLink(bridge);
  if (!inside || inside->kind != "veth" || !master) {
    return;
  }
  const std::optional<rtnl::Link> outside = host.net.FindLink(inside->peer);
  const bool is_pair = outside && outside->kind == "veth" && outside->peer == inside->index &&
                       outside->master == master->index && outside->alias.empty();
  if (is_pair) {
    host.net.EnsureLinkGone(outside->name);
  }
}

std::vector<std::string> DiffReference(state::Host& host,
                                       const cni::Request& request,
                                       const cni::PluginType& type,
                                       const config::Config& config) {
  const std::vector<Ip> addresses = AddressesOnly(link::AddressesIn(*config.prev_result, request));
  std::vector<std::string> mismatches;
  if (type.Provides(cni::Part::kAddress) && config.ipam.type == cni::kHostLocal) {
    for (const Ip& address : addresses) {
      if (!HasLease(request, config.ipam.data_dir, address)) {
        mismatches.push_back(Cat("the lease of ", address, " is missing"));
      }
    }
  }
  for (const ReferencePart part : LostParts(
           host, request.id, addresses, config.rules.ports, ExpectedParts(type, config.rules))) {
    mismatches.emplace_back(MismatchOf(part));
  }
  return mismatches;
}

}  // namespace nomad_bridge::takeover
