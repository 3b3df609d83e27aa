#include "plugin/takeover/nft_rules.h"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include "base/list.h"
#include "base/text.h"
#include "netlink/nft/commit.h"

namespace nomad_bridge::takeover {
namespace {

using Texts = std::vector<std::string>;

// Where rules of one kind stand, and how they are recognised.
struct Location {
  cni::Part part;
  nft::TableId table;
  std::string chain;
  std::function<bool(const nft::KernelRule&)> matches;
};

// iptables-nft's -s or -d with one address: without a match on the family, which the table implies.
Texts AddressMatch(const Ip& ip, bool source) {
  nft::Rule rule;
  rule.Only(ip.family());
  const auto about_family = static_cast<std::ptrdiff_t>(rule.expressions().size());
  source ? rule.Saddr(Cidr::Host(ip)) : rule.Daddr(Cidr::Host(ip));
  const Texts texts = nft::ExpressionTexts(rule);
  return {texts.begin() + about_family, texts.end()};
}

// -s <ip> -j ACCEPT, or -d <ip> -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT.
bool AcceptsFor(const nft::KernelRule& rule, const Ip& ip) {
  const Texts meaning = nft::Meaning(rule.expressions);
  const std::string accept = nft::ExpressionTexts(nft::Rule().Accept()).front();
  const auto begins_with = [&](const Texts& match) {
    return meaning.size() > match.size() && meaning.back() == accept &&
           std::equal(match.begin(), match.end(), meaning.begin());
  };
  const Texts from = AddressMatch(ip, true);
  const Texts to = AddressMatch(ip, false);
  return rule.comment.empty() && ((begins_with(from) && meaning.size() == from.size() + 1) ||
                                  (begins_with(to) && meaning.size() > to.size() + 1));
}

std::vector<Location> LocationsOf(const AttachmentId& id, const std::vector<Ip>& addresses) {
  const auto has_comment = [](const std::string& comment) {
    return [comment](const nft::KernelRule& rule) { return rule.comment == comment; };
  };
  const auto accepts = [addresses](const nft::KernelRule& rule) {
    return std::ranges::any_of(addresses, [&](const Ip& ip) { return AcceptsFor(rule, ip); });
  };
  const std::string ending =
      Format(", net: {}, if: {}, id: {}", id.network, id.ifname, id.container_id);
  const auto ends_so = [ending](const nft::KernelRule& rule) {
    return rule.comment.ends_with(ending);
  };
  using enum cni::Part;
  std::vector<Location> locations;
  locations.push_back(
      {kMasquerade, {nft::TableFamily::kInet, "cni_plugins_masquerade"}, "masq_checks", ends_so});
  for (const nft::TableFamily family : {nft::TableFamily::kIp, nft::TableFamily::kIp6}) {
    const nft::TableId nat{family, "nat"};
    const nft::TableId hostport{family, "cni_hostport"};
    const std::string comment = ReferenceComment(id);
    Append(locations,
           {{kMasquerade, nat, "POSTROUTING", has_comment(comment)},
            {kForward, {family, "filter"}, "CNI-FORWARD", accepts},
            {kPorts, nat, "CNI-HOSTPORT-DNAT", has_comment("dnat " + comment)},
            {kPorts, hostport, "hostports", has_comment(id.container_id)},
            {kPorts, hostport, "hostip_hostports", has_comment(id.container_id)}});
  }
  return locations;
}

nft::Batch PlanRemoval(const std::vector<ReferenceRule>& rules) {
  nft::Batch batch;
  std::set<std::pair<std::string, std::string>> chains;
  for (const ReferenceRule& rule : rules) {
    batch.DeleteRule(rule.table, rule.chain, rule.handle);
  }
  for (const ReferenceRule& rule : rules) {
    const bool is_first = chains.emplace(nft::Text(rule.table), rule.own_chain).second;
    if (!rule.own_chain.empty() && is_first) {
      batch.FlushChain(rule.table, rule.own_chain);
      batch.DeleteChain(rule.table, rule.own_chain);
    }
  }
  return batch;
}

}  // namespace

// As Go's %q writes plain names: network names and container ids hold nothing to escape.
std::string ReferenceComment(const AttachmentId& id) {
  return Format("name: \"{}\" id: \"{}\"", id.network, id.container_id);
}

bool IsOwnReferenceChain(const std::string& chain) {
  constexpr std::size_t kLength = 28;
  return chain.size() == kLength && chain.starts_with("CNI-") &&
         chain.find_first_not_of("0123456789abcdef", kLength - 21) == chain.npos;
}

std::vector<ReferenceRule> FindReferenceRules(nft::Socket& socket,
                                              const AttachmentId& id,
                                              const std::vector<Ip>& addresses,
                                              const cni::Parts& parts) {
  std::vector<Location> locations = LocationsOf(id, addresses);
  std::erase_if(locations, [&](const Location& each) { return !parts.contains(each.part); });
  if (locations.empty()) {
    return {};
  }
  // One dump spares those of chains in tables that do not exist: nearly all of them.
  const std::vector<nft::KernelTable> tables = socket.Tables();
  std::vector<ReferenceRule> found;
  for (const Location& location : locations) {
    if (std::ranges::find(tables, location.table, &nft::KernelTable::id) == tables.end()) {
      continue;
    }
    for (const nft::KernelRule& rule : socket.Rules(location.table, location.chain)) {
      if (location.matches(rule)) {
        found.push_back(
            {.part = location.part,
             .table = location.table,
             .chain = location.chain,
             .handle = rule.handle,
             .own_chain = IsOwnReferenceChain(rule.target) ? rule.target : std::string()});
      }
    }
  }
  return found;
}

void RemoveReferenceRules(nft::Socket& socket, const std::vector<ReferenceRule>& rules) {
  if (rules.empty()) {
    return;
  }
  // Handles are never used again, so one plan serves whatever others change in between.
  const nft::Batch batch = PlanRemoval(rules);
  nft::RetryOnGenerations(
      socket, "remove rules of the reference plugins", {}, [&](std::uint32_t generation) {
        return nft::TryCommit(socket, batch, generation);
      });
}

}  // namespace nomad_bridge::takeover
