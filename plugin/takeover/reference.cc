#include "plugin/takeover/reference.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "ipam/store.h"
#include "plugin/link/host_veth.h"
#include "plugin/takeover/legacy_rules.h"
#include "plugin/takeover/nft_rules.h"

namespace nomad_bridge::takeover {
namespace {

// What an ADD of `type` makes rules for, by the families of `addresses`.
std::set<std::pair<cni::Part, Family>> ExpectedParts(const cni::PluginType& type,
                                                     const config::RulesConfig& rules,
                                                     const std::vector<Ip>& addresses) {
  std::set<std::pair<cni::Part, Family>> parts;
  for (const Ip& address : addresses) {
    const Family family = address.family();
    const bool has_ports = std::ranges::any_of(rules.ports, [&](const portmap::PortMapping& port) {
      return port.only.value_or(family) == family;
    });
    for (const auto& [part, is_expected] : {std::pair(cni::Part::kMasquerade, rules.ip_masq),
                                            std::pair(cni::Part::kForward, true),
                                            std::pair(cni::Part::kPorts, has_ports)}) {
      if (is_expected && type.Provides(part)) {
        parts.emplace(part, family);
      }
    }
  }
  return parts;
}

// The parts that, for some family, have a rule neither in nf_tables nor in iptables-legacy. Whether
// the rules of a part are complete is not verified.
cni::Parts LostParts(state::Host& host,
                     const AttachmentId& id,
                     const std::vector<Ip>& addresses,
                     const cni::PluginType& type,
                     const config::RulesConfig& rules) {
  auto expected = ExpectedParts(type, rules, addresses);
  for (const ReferenceRule& rule : FindReferenceRules(host.nft, id, addresses, type.parts)) {
    if (rule.table.family != nft::TableFamily::kIp6) {
      expected.erase({rule.part, Family::kIpv4});
    }
    if (rule.table.family != nft::TableFamily::kIp) {
      expected.erase({rule.part, Family::kIpv6});
    }
  }
  if (expected.empty()) {
    return {};
  }
  for (const LegacyFinding& finding : FindLegacyRules(id, addresses, type.parts)) {
    for (const LegacyReferenceRule& rule : finding.rules) {
      if (rule.rule.chain != rule.own_chain) {  // a rule in there does not lead there
        expected.erase({rule.part, finding.family});
      }
    }
  }
  cni::Parts lost;
  for (const auto& [part, family] : expected) {
    lost.insert(part);
  }
  return lost;
}

const char* MismatchOf(cni::Part part) {
  if (part == cni::Part::kMasquerade) {
    return "the rule that masquerades it is missing";
  }
  return part == cni::Part::kForward ? "the rules that accept its packets are missing"
                                     : "the rules of its published ports are missing";
}

void LogIgnored(const Error& error) {
  LogLine("cannot look for rules of the reference plugins, ignoring: {}", error.what());
}

bool HasLease(const cni::Request& request, const std::string& data_dir, const Ip& address) {
  const std::optional<ipam::Store> store = ipam::Store::OpenIfExists(data_dir, request.id.network);
  const std::optional<ipam::LeaseOwner> owner = store ? store->FindOwner(address) : std::nullopt;
  return owner && owner->Matches({request.id.container_id, request.id.ifname});
}

}  // namespace

bool IsReferenceMade(state::Host& host, const cni::Request& request, const config::Config& config) {
  if (link::FindHostVeth(host.net, request.id, link::Recorded::kNo)) {
    return false;
  }
  const std::vector<Cidr> addresses = link::AddressesIn(*config.prev_result, request);
  return std::ranges::any_of(addresses, [&](const Cidr& cidr) {
    return HasLease(request, config.ipam.data_dir, cidr.address);
  });
}

bool HasReferenceRules(state::Host& host, const AttachmentId& id) {
  const cni::Parts parts = {cni::Part::kMasquerade, cni::Part::kPorts};  // known without an address
  if (!FindReferenceRules(host.nft, id, {}, parts).empty()) {
    return true;
  }
  try {
    return !FindLegacyRules(id, {}, parts).empty();
  } catch (const Error& error) {
    LogIgnored(error);
    return false;
  }
}

void RemoveReferenceRulesOf(state::Host& host,
                            const AttachmentId& id,
                            const std::vector<Ip>& addresses,
                            const cni::Parts& parts,
                            LegacyError on_error) {
  RemoveReferenceRules(host.nft, FindReferenceRules(host.nft, id, addresses, parts));
  try {
    RemoveLegacyRules(id, addresses, parts);
  } catch (const Error& error) {
    if (on_error == LegacyError::kThrow) {
      throw;
    }
    LogIgnored(error);
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
  for (const cni::Part part : LostParts(host, request.id, addresses, type, config.rules)) {
    mismatches.emplace_back(MismatchOf(part));
  }
  return mismatches;
}

}  // namespace nomad_bridge::takeover
