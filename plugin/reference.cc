#include "plugin/reference.h"

#include <algorithm>
#include <array>
#include <set>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "firewall/reference_rules.h"
#include "ipam/store.h"
#include "plugin/legacy_reference.h"
#include "plugin/link.h"
#include "plugin/log.h"

namespace nomad_bridge {
namespace {

using firewall::ReferencePart;
using firewall::ReferenceRule;

ReferenceParts ReferencePartsOf(const Parts& parts) {
  constexpr std::array kPairs = {std::pair(Part::kMasquerade, ReferencePart::kMasquerade),
                                 std::pair(Part::kForward, ReferencePart::kForward),
                                 std::pair(Part::kPorts, ReferencePart::kPorts)};
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
                         const std::vector<portmap::Published>& ports) {
  std::set<std::pair<Family, portmap::Protocol>> jumps;
  std::set<std::tuple<Family, portmap::Protocol, std::uint16_t>> led;
  for (const Ip& address : addresses) {
    for (const portmap::Published& port : ports) {
      if (!port.only || *port.only == address.family()) {
        jumps.emplace(address.family(), port.protocol);
        led.emplace(address.family(), port.protocol, port.host_port);
      }
    }
  }
  return {.jumps = jumps.size(), .ports = led.size()};
}

// Whether nf_tables has as many rules for `part` as an ADD makes.
bool IsWhole(NftSocket& nft,
             std::vector<ReferenceRule> rules,
             ReferencePart part,
             const std::vector<Ip>& addresses,
             const std::vector<portmap::Published>& ports) {
  std::erase_if(rules, [&](const ReferenceRule& rule) { return rule.part != part; });
  switch (part) {
    case ReferencePart::kForward:
      return rules.size() >= 2 * addresses.size();  // what it sends, and the answers
    case ReferencePart::kMasquerade:
      return rules.size() >= addresses.size() &&
             firewall::CountEffects(nft, rules) >= addresses.size();
    case ReferencePart::kPorts:
      break;
  }
  const Publishing wanted = PublishingFor(addresses, ports);
  return rules.size() >= wanted.jumps && firewall::CountEffects(nft, rules) >= wanted.ports;
}

// What an ADD by `name` made.
ReferenceParts ExpectedParts(const Name& name, const RulesConfig& rules) {
  ReferenceParts parts = ReferencePartsOf(name.parts);
  if (!rules.ip_masq) {
    parts.erase(ReferencePart::kMasquerade);
  }
  if (rules.ports.empty()) {
    parts.erase(ReferencePart::kPorts);
  }
  return parts;
}

// Those of `expected` that neither nf_tables nor a table of iptables-legacy has.
ReferenceParts LostParts(Host& host,
                         const Attachment& who,
                         const std::vector<Ip>& addresses,
                         const std::vector<portmap::Published>& ports,
                         ReferenceParts expected) {
  const std::vector<ReferenceRule> rules = firewall::FindReferenceRules(host.nft, who, addresses);
  std::erase_if(expected, [&](ReferencePart part) {
    return IsWhole(host.nft, rules, part, addresses, ports);
  });
  const std::vector<LegacyFinding> findings = FindLegacyReferenceRules(who, addresses, expected);
  std::erase_if(expected,
                [&](ReferencePart part) { return IsWhole(findings, part, addresses, ports); });
  return expected;
}

const char* Fault(ReferencePart part) {
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

void RemoveFromNfTables(Host& host,
                        const Attachment& who,
                        const std::vector<Ip>& addresses,
                        const ReferenceParts& parts) {
  std::vector<ReferenceRule> rules = firewall::FindReferenceRules(host.nft, who, addresses);
  std::erase_if(rules, [&](const ReferenceRule& rule) { return !parts.contains(rule.part); });
  firewall::RemoveReferenceRules(host.nft, rules);
}

void SayIgnored(const Error& error) {
  Say("cannot look for rules of the reference plugins, ignoring: ", error.what());
}

bool HasLease(const Request& request, const std::string& data_dir, const Ip& address) {
  const std::optional<ipam::Store> store = ipam::Store::Find(data_dir, request.who.network);
  const std::optional<ipam::Holder> holder = store ? store->HolderOf(address) : std::nullopt;
  return holder && holder->Covers({request.who.container_id, request.who.ifname});
}

}  // namespace

bool IsReferenceMade(Host& host, const Request& request, const Config& config) {
  if (FindHostVeth(host.net, request.who, false)) {
    return false;
  }
  const std::vector<Cidr> addresses = AddressesIn(*config.prev_result, request);
  return std::any_of(addresses.begin(), addresses.end(), [&](const Cidr& cidr) {
    return HasLease(request, config.ipam.data_dir, cidr.address);
  });
}

bool HasReferenceRules(Host& host, const Attachment& who) {
  if (firewall::MayHaveReferenceRules(host.nft) &&
      !firewall::FindReferenceRules(host.nft, who, {}).empty()) {
    return true;
  }
  try {
    return !FindLegacyReferenceRules(who, {}, {ReferencePart::kMasquerade, ReferencePart::kPorts})
                .empty();
  } catch (const Error& error) {
    SayIgnored(error);
    return false;
  }
}

void RemoveReferenceRulesOf(Host& host,
                            const Attachment& who,
                            const std::vector<Ip>& addresses,
                            const Parts& parts) {
  const ReferenceParts theirs = ReferencePartsOf(parts);
  RemoveFromNfTables(host, who, addresses, theirs);
  RemoveLegacyReferenceRules(who, addresses, theirs);
}

void RemovePerhapsReferenceRulesOf(Host& host,
                                   const Attachment& who,
                                   const std::vector<Ip>& addresses,
                                   const Parts& parts) {
  const ReferenceParts theirs = ReferencePartsOf(parts);
  if (theirs.empty()) {
    return;
  }
  RemoveFromNfTables(host, who, addresses, theirs);
  try {
    RemoveLegacyReferenceRules(who, addresses, theirs);
  } catch (const Error& error) {
    SayIgnored(error);
  }
}

void EnsureReferenceLinkGone(Host& host,
                             Guest& guest,
                             const Request& request,
                             const std::string& bridge) {
  const std::optional<Link> inside = guest.net.FindLink(request.who.ifname);
  const std::optional<Link> master = host.net.FindLink(bridge);
  if (!inside || inside->kind != "veth" || !master) {
    return;
  }
  const std::optional<Link> outside = host.net.FindLink(inside->peer);
  const bool is_pair = outside && outside->kind == "veth" && outside->peer == inside->index &&
                       outside->master == master->index && outside->alias.empty();
  if (is_pair) {
    host.net.EnsureLinkGone(outside->name);
  }
}

std::vector<std::string> ReferenceFaults(Host& host,
                                         const Request& request,
                                         const Name& name,
                                         const Config& config) {
  const std::vector<Ip> addresses = AddressesOnly(AddressesIn(*config.prev_result, request));
  std::vector<std::string> faults;
  if (name.Does(Part::kAddress) && config.ipam.type == kHostLocal) {
    for (const Ip& address : addresses) {
      if (!HasLease(request, config.ipam.data_dir, address)) {
        faults.push_back(Cat("the lease of ", address, " is missing"));
      }
    }
  }
  for (const ReferencePart part : LostParts(
           host, request.who, addresses, config.rules.ports, ExpectedParts(name, config.rules))) {
    faults.emplace_back(Fault(part));
  }
  return faults;
}

}  // namespace nomad_bridge
