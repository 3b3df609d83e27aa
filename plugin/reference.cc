#include "plugin/reference.h"

#include <algorithm>

#include "base/text.h"
#include "firewall/reference_rules.h"
#include "ipam/store.h"
#include "plugin/link.h"

namespace nomad_bridge {
namespace {

using firewall::ReferencePart;
using firewall::ReferenceRule;

Part PartOf(ReferencePart part) {
  switch (part) {
    case ReferencePart::kMasquerade:
      return Part::kMasquerade;
    case ReferencePart::kForward:
      return Part::kForward;
    case ReferencePart::kPorts:
      break;
  }
  return Part::kPorts;
}

bool HasRuleOf(const std::vector<ReferenceRule>& rules, ReferencePart part) {
  return std::any_of(
      rules.begin(), rules.end(), [&](const ReferenceRule& rule) { return rule.part == part; });
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
  return host.nft.HasTable({NftFamily::kIp, "nat"}) &&
         !firewall::FindReferenceRules(host.nft, who, {}).empty();
}

void RemoveReferenceRulesOf(Host& host,
                            const Attachment& who,
                            const std::vector<Ip>& addresses,
                            const Parts& parts) {
  std::vector<ReferenceRule> rules = firewall::FindReferenceRules(host.nft, who, addresses);
  std::erase_if(rules,
                [&](const ReferenceRule& rule) { return !parts.contains(PartOf(rule.part)); });
  firewall::RemoveReferenceRules(host.nft, rules);
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
  const std::vector<ReferenceRule> rules =
      firewall::FindReferenceRules(host.nft, request.who, addresses);
  std::vector<std::string> faults;
  if (name.Does(Part::kAddress) && config.ipam.type == kHostLocal) {
    for (const Ip& address : addresses) {
      if (!HasLease(request, config.ipam.data_dir, address)) {
        faults.push_back(Cat("the lease of ", address, " is missing"));
      }
    }
  }
  if (name.Does(Part::kMasquerade) && config.rules.ip_masq &&
      !HasRuleOf(rules, ReferencePart::kMasquerade)) {
    faults.emplace_back("the rule that masquerades it is missing");
  }
  if (name.Does(Part::kForward) && !HasRuleOf(rules, ReferencePart::kForward)) {
    faults.emplace_back("the rules that let it talk are missing");
  }
  if (name.Does(Part::kPorts) && !config.rules.ports.empty() &&
      !HasRuleOf(rules, ReferencePart::kPorts)) {
    faults.emplace_back("the rules of its published ports are missing");
  }
  return faults;
}

}  // namespace nomad_bridge
