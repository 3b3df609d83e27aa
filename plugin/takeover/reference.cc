#include "plugin/takeover/reference.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <set>

#include "base/error.h"
#include "base/list.h"
#include "base/log.h"
#include "base/text.h"
#include "ipam/store.h"
#include "plugin/link/host_veth.h"
#include "plugin/takeover/dnat_rule.h"

namespace nomad_bridge::takeover {
namespace {

struct ReferenceRule {
  cni::Part part = cni::Part::kMasquerade;
  nft::TableId table;
  std::string chain;
  std::uint64_t handle = 0;
  std::string own_chain;  // the attachment's own chain, if the rule jumps to it; else empty

  bool operator==(const ReferenceRule&) const = default;
};

using Texts = std::vector<std::string>;

// Where the rules of one kind are, and how to recognise them.
struct Location {
  cni::Part part;
  nft::TableId table;
  std::string chain;
  std::function<bool(const nft::KernelRule&)> matches;
};

// Returns the match of iptables-nft's -s or -d with one address. It does not match the family,
// because the table implies it.
Texts AddressMatch(const Ip& ip, bool source) {
  nft::Rule rule;
  rule.Only(ip.family());
  const auto about_family = static_cast<std::ptrdiff_t>(rule.expressions().size());
  source ? rule.Saddr(Cidr::Host(ip)) : rule.Daddr(Cidr::Host(ip));
  const Texts texts = nft::ExpressionTexts(rule);
  return {texts.begin() + about_family, texts.end()};
}

// Matches -s <ip> -j ACCEPT, and -d <ip> -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT.
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

// Returns the comment on the jump to the attachment's chain for masquerading. The comment on the
// jump to the chain for its ports has "dnat " before it. Go writes the names with %q, but network
// names and container ids contain nothing to escape.
std::string ReferenceComment(const AttachmentId& id) {
  return Format("name: \"{}\" id: \"{}\"", id.network, id.container_id);
}

// Returns whether `chain` has the name of a chain that only one attachment uses.
bool IsOwnReferenceChain(const std::string& chain) {
  constexpr std::size_t kLength = 28;
  return chain.size() == kLength && chain.starts_with("CNI-") &&
         chain.find_first_not_of("0123456789abcdef", kLength - 21) == chain.npos;
}

std::vector<Location> LocationsOf(const Search& search) {
  const AttachmentId& id = search.id;
  const auto has_comment = [](const std::string& comment) {
    return [comment](const nft::KernelRule& rule) { return rule.comment == comment; };
  };
  const auto accepts = [addresses = search.addresses](const nft::KernelRule& rule) {
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

std::vector<ReferenceRule> FindReferenceRules(RuleDumps& dumps, const Search& search) {
  std::vector<Location> locations = LocationsOf(search);
  std::erase_if(locations, [&](const Location& each) { return !search.parts.contains(each.part); });
  std::vector<ReferenceRule> found;
  for (const Location& location : locations) {
    for (const nft::KernelRule& rule : dumps.Of(location.table, location.chain)) {
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

// Returns the rules of the attachment's own chain to which `found` jumps; without one, `found`
// itself.
std::vector<nft::KernelRule> TranslatingRules(const ReferenceRule& found, RuleDumps& dumps) {
  if (!found.own_chain.empty()) {
    return dumps.Of(found.table, found.own_chain);
  }
  std::vector<nft::KernelRule> rules = dumps.Of(found.table, found.chain);
  std::erase_if(rules, [&](const nft::KernelRule& each) { return each.handle != found.handle; });
  return rules;
}

// Removes `rules` and the attachment's own chains in one atomic batch.
void RemoveReferenceRules(nft::Socket& socket, const std::vector<ReferenceRule>& rules) {
  // The kernel never reuses a handle, so rules that others add in between stay.
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
  nft::RetryOnGenerations(
      socket, "remove rules of the reference plugins", {}, [&](std::uint32_t generation) {
        return nft::TryCommit(socket, batch, generation);
      });
}

// Returns the parts for which an ADD makes rules, with the families of the addresses.
std::set<std::pair<cni::Part, Family>> ExpectedParts(const Search& search,
                                                     const config::RulesConfig& rules) {
  std::set<std::pair<cni::Part, Family>> parts;
  for (const Ip& address : search.addresses) {
    const Family family = address.family();
    const bool has_ports = std::ranges::any_of(rules.ports, [&](const portmap::PortMapping& port) {
      return port.only.value_or(family) == family;
    });
    for (const auto& [part, is_expected] : {std::pair(cni::Part::kMasquerade, rules.ip_masq),
                                            std::pair(cni::Part::kForward, true),
                                            std::pair(cni::Part::kPorts, has_ports)}) {
      if (is_expected && search.parts.contains(part)) {
        parts.emplace(part, family);
      }
    }
  }
  return parts;
}

// Returns the parts that have no rule for some family. Does not verify that the rules of a part are
// complete.
cni::Parts LostParts(state::Host& host, const Search& search, const config::RulesConfig& rules) {
  auto expected = ExpectedParts(search, rules);
  RuleDumps dumps(host.nft);
  for (const ReferenceRule& rule : FindReferenceRules(dumps, search)) {
    if (rule.table.family != nft::TableFamily::kIp6) {
      expected.erase({rule.part, Family::kIpv4});
    }
    if (rule.table.family != nft::TableFamily::kIp) {
      expected.erase({rule.part, Family::kIpv6});
    }
  }
  cni::Parts lost;
  for (const auto& [part, family] : expected) {
    lost.insert(part);
  }
  return lost;
}

const char* FindingOf(cni::Part part) {
  if (part == cni::Part::kMasquerade) {
    return "the rule that masquerades it is missing";
  }
  return part == cni::Part::kForward ? "the rules that accept its packets are missing"
                                     : "the rules of its published ports are missing";
}

bool HasLease(const cni::Request& request, const std::string& data_dir, const Ip& address) {
  const std::optional<ipam::Store> store = ipam::Store::OpenIfExists(data_dir, request.id.network);
  const std::optional<ipam::LeaseOwner> owner = store ? store->FindOwner(address) : std::nullopt;
  return owner && owner->Matches({request.id.container_id, request.id.ifname});
}

}  // namespace

const std::vector<nft::KernelRule>& RuleDumps::Of(const nft::TableId& table,
                                                  const std::string& chain) {
  if (!tables_) {
    tables_ = socket_.get().Tables();  // avoids dumps of chains in tables that do not exist
  }
  const auto [rules, is_new] = rules_.try_emplace({nft::Text(table), chain});
  if (is_new && std::ranges::find(*tables_, table, &nft::KernelTable::id) != tables_->end()) {
    rules->second = socket_.get().Rules(table, chain, texts_);
  }
  return rules->second;
}

void RuleDumps::Forget(const nft::TableId& table, const std::string& chain, std::uint64_t handle) {
  std::erase_if(rules_[{nft::Text(table), chain}],
                [&](const nft::KernelRule& rule) { return rule.handle == handle; });
}

bool IsReferenceMade(state::Host& host, const cni::Request& request, const config::Config& config) {
  if (link::FindHostVeth(host.net, request.id, link::Recorded::kNo)) {
    return false;
  }
  const std::vector<Cidr> addresses = link::AddressesIn(*config.prev_result, request);
  return std::ranges::any_of(addresses, [&](const Cidr& cidr) {
    return HasLease(request, config.ipam.data_dir, cidr.address);
  });
}

bool IsAccepted(nft::Socket& socket, const Ip& address) {
  const std::span<const std::uint8_t> bytes = address.bytes();
  RuleDumps dumps(socket, std::string(bytes.begin(), bytes.end()));
  const nft::TableFamily family =
      address.is_ipv4() ? nft::TableFamily::kIp : nft::TableFamily::kIp6;
  return std::ranges::any_of(
      dumps.Of({family, "filter"}, "CNI-FORWARD"),
      [&](const nft::KernelRule& rule) { return AcceptsFor(rule, address); });
}

bool HasReferenceRules(const Search& search, RuleDumps& dumps) {
  return !FindReferenceRules(dumps, search).empty();
}

std::vector<portmap::DnatEntry> PublishedPorts(const AttachmentId& id, RuleDumps& dumps) {
  std::vector<portmap::DnatEntry> ports;
  for (const ReferenceRule& found :
       FindReferenceRules(dumps, {.id = id, .addresses = {}, .parts = {cni::Part::kPorts}})) {
    const Family family =
        found.table.family == nft::TableFamily::kIp6 ? Family::kIpv6 : Family::kIpv4;
    for (const nft::KernelRule& rule : TranslatingRules(found, dumps)) {
      const std::optional<portmap::DnatEntry> port = ParseDnatRule(rule, family);
      // Several rules jump to one chain: one for each protocol.
      if (port && !Contains(ports, *port)) {
        ports.push_back(*port);
      }
    }
  }
  return ports;
}

bool HasReferenceRules(const AttachmentId& id, RuleDumps& dumps) {
  return HasReferenceRules({.id = id, .parts = {cni::Part::kMasquerade, cni::Part::kPorts}}, dumps);
}

void RemoveReferenceRulesOf(state::Host& host, const Search& search) {
  RuleDumps dumps(host.nft);
  RemoveReferenceRulesOf(host, search, dumps);
}

// The kernel refuses the whole batch if somebody has removed one of the rules since they were read.
// Then reads the rules again and retries, as long as the rules that it finds change.
void RemoveReferenceRulesOf(state::Host& host, const Search& search, RuleDumps& dumps) {
  std::vector<ReferenceRule> found = FindReferenceRules(dumps, search);
  while (!found.empty()) {
    try {
      RemoveReferenceRules(host.nft, found);
      for (const ReferenceRule& rule : found) {
        dumps.Forget(rule.table, rule.chain, rule.handle);
      }
      return;
    } catch (const Error&) {
      dumps.ReadAgain();
      std::vector<ReferenceRule> left = FindReferenceRules(dumps, search);
      if (left == found) {
        throw;
      }
      found = std::move(left);
    }
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
    // An allocation with NET_ADMIN can choose both numbers, so that they point to a neighbour's
    // link. So this deletes the end inside, which certainly belongs to the container. The kernel
    // deletes the other end with it.
    container.net.EnsureLinkGone(inside->name);
  }
}

std::vector<std::string> DiffReference(state::Host& host,
                                       const cni::Request& request,
                                       const cni::PluginType& type,
                                       const config::Config& config) {
  const Search search{.id = request.id,
                      .addresses = AddressesOnly(link::AddressesIn(*config.prev_result, request)),
                      .parts = type.parts};
  std::vector<std::string> findings;
  if (type.Provides(cni::Part::kAddress) && config.ipam.type == cni::kHostLocal) {
    for (const Ip& address : search.addresses) {
      if (!HasLease(request, config.ipam.data_dir, address)) {
        findings.push_back(Cat("the lease of ", address, " is missing"));
      }
    }
  }
  for (const cni::Part part : LostParts(host, search, config.rules)) {
    findings.emplace_back(FindingOf(part));
  }
  return findings;
}

}  // namespace nomad_bridge::takeover
