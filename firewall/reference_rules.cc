#include "firewall/reference_rules.h"

#include <algorithm>
#include <array>
#include <functional>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/file_lock.h"
#include "base/text.h"

namespace nomad_bridge::firewall {
namespace {

using Texts = std::vector<std::string>;

// Where one kind of rule stands, and how it is told.
struct Place {
  ReferencePart part;
  NftTableId table;
  std::string chain;
  std::function<bool(const NftKernelRule&)> is_his;
};

Texts Meaning(Texts expressions) {
  std::erase_if(expressions,
                [](const std::string& text) { return text.starts_with("[ counter "); });
  return expressions;
}

// What iptables-nft makes of -s or -d with one address: no word about the family, which the table
// says.
Texts AddressMatch(const Ip& ip, bool source) {
  NftRule rule;
  rule.Only(ip.family());
  const std::size_t about_family = rule.expressions().size();
  source ? rule.Saddr(Cidr::Host(ip)) : rule.Daddr(Cidr::Host(ip));
  Texts texts = ExpressionTexts(rule);
  texts.erase(texts.begin(), texts.begin() + static_cast<std::ptrdiff_t>(about_family));
  return texts;
}

// -s <ip> -j ACCEPT, or -d <ip> -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT.
bool AcceptsFor(const NftKernelRule& rule, const Ip& ip) {
  const Texts meaning = Meaning(rule.expressions);
  const std::string accept = ExpressionTexts(NftRule().Accept()).front();
  const auto begins_with = [&](const Texts& match) {
    return meaning.size() > match.size() &&
           std::equal(match.begin(), match.end(), meaning.begin()) && meaning.back() == accept;
  };
  const Texts from = AddressMatch(ip, true);
  const Texts to = AddressMatch(ip, false);
  return (begins_with(from) && meaning.size() == from.size() + 1) ||
         (begins_with(to) && meaning.size() > to.size() + 1);
}

std::vector<Place> PlacesOf(const Attachment& who, const std::vector<Ip>& addresses) {
  const auto says = [](std::string comment) {
    return [comment = std::move(comment)](const NftKernelRule& rule) {
      return rule.comment == comment;
    };
  };
  const auto accepts = [&addresses](const NftKernelRule& rule) {
    return std::any_of(
        addresses.begin(), addresses.end(), [&](const Ip& ip) { return AcceptsFor(rule, ip); });
  };
  const std::string nft_comment =
      Cat(", net: ", who.network, ", if: ", who.ifname, ", id: ", who.container_id);
  const auto ends_so = [nft_comment](const NftKernelRule& rule) {
    return rule.comment.ends_with(nft_comment);
  };
  std::vector<Place> places;
  const auto add = [&](ReferencePart part,
                       const NftTableId& table,
                       const std::string& chain,
                       const std::function<bool(const NftKernelRule&)>& is_his) {
    places.push_back({.part = part, .table = table, .chain = chain, .is_his = is_his});
  };
  using enum ReferencePart;
  for (const NftFamily family : {NftFamily::kIp, NftFamily::kIp6}) {
    const NftTableId nat{family, "nat"};
    const NftTableId hostport{family, "cni_hostport"};
    add(kMasquerade, nat, "POSTROUTING", says(ReferenceComment(who)));
    add(kForward, {family, "filter"}, "CNI-FORWARD", accepts);
    add(kPorts, nat, "CNI-HOSTPORT-DNAT", says("dnat " + ReferenceComment(who)));
    add(kPorts, hostport, "hostports", says(who.container_id));
    add(kPorts, hostport, "hostip_hostports", says(who.container_id));
  }
  add(kMasquerade, {NftFamily::kInet, "cni_plugins_masquerade"}, "masq_checks", ends_so);
  return places;
}

// As iptables-nft writes them, and as its own expressions would.
bool HasEffect(const NftKernelRule& rule) {
  constexpr std::array kEffects = {" name DNAT ", " name MASQUERADE ", "[ nat dnat ", "[ masq "};
  return std::any_of(
      rule.expressions.begin(), rule.expressions.end(), [&](const std::string& text) {
        return std::any_of(kEffects.begin(), kEffects.end(), [&](const char* effect) {
          return text.find(effect) != text.npos;
        });
      });
}

NftBatch PlanRemoval(const std::vector<ReferenceRule>& rules) {
  NftBatch batch;
  std::set<std::pair<std::string, std::string>> chains;
  for (const ReferenceRule& rule : rules) {
    batch.DeleteRule(rule.table, rule.chain, rule.handle);
  }
  for (const ReferenceRule& rule : rules) {
    const bool is_first = chains.emplace(Text(rule.table), rule.own_chain).second;
    if (!rule.own_chain.empty() && is_first) {
      batch.FlushChain(rule.table, rule.own_chain);
      batch.DeleteChain(rule.table, rule.own_chain);
    }
  }
  return batch;
}

}  // namespace

// As Go's %q writes plain names: network names and container ids hold nothing to escape.
std::string ReferenceComment(const Attachment& who) {
  return Cat("name: \"", who.network, "\" id: \"", who.container_id, '"');
}

bool IsOwnReferenceChain(const std::string& chain) {
  constexpr std::size_t kLength = 28;
  return chain.size() == kLength && chain.starts_with("CNI-") &&
         std::all_of(chain.end() - 21, chain.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

bool MayHaveReferenceRules(NftSocket& socket) {
  constexpr std::array<std::string_view, 3> kTables = {
      "nat", "cni_hostport", "cni_plugins_masquerade"};
  const std::vector<NftTableId> tables = socket.Tables();
  return std::any_of(tables.begin(), tables.end(), [&](const NftTableId& table) {
    return std::find(kTables.begin(), kTables.end(), table.name) != kTables.end();
  });
}

std::vector<ReferenceRule> FindReferenceRules(NftSocket& socket,
                                              const Attachment& who,
                                              const std::vector<Ip>& addresses) {
  std::vector<ReferenceRule> found;
  for (const Place& place : PlacesOf(who, addresses)) {
    for (const NftKernelRule& rule : socket.Rules(place.table, place.chain)) {
      if (place.is_his(rule)) {
        found.push_back(
            {.part = place.part,
             .table = place.table,
             .chain = place.chain,
             .handle = rule.handle,
             .own_chain = IsOwnReferenceChain(rule.target) ? rule.target : std::string()});
      }
    }
  }
  return found;
}

std::size_t CountEffects(NftSocket& socket, const std::vector<ReferenceRule>& rules) {
  std::size_t effects = 0;
  std::set<std::pair<std::string, std::string>> chains;
  for (const ReferenceRule& rule : rules) {
    if (rule.own_chain.empty()) {
      ++effects;
    } else if (chains.emplace(Text(rule.table), rule.own_chain).second) {
      const std::vector<NftKernelRule> own = socket.Rules(rule.table, rule.own_chain);
      effects += static_cast<std::size_t>(std::count_if(own.begin(), own.end(), HasEffect));
    }
  }
  return effects;
}

void RemoveReferenceRules(NftSocket& socket, const std::vector<ReferenceRule>& rules) {
  if (rules.empty()) {
    return;
  }
  // Handles are never used again, so that a change by others in between does no harm: the batch is
  // simply tied to the generation after it.
  const NftBatch batch = PlanRemoval(rules);
  const Deadline deadline = FromNow(kPatience);
  for (;;) {
    const NftReply reply = socket.Commit(batch, socket.Generation());
    if (reply.done()) {
      return;
    }
    if (!reply.refused.empty()) {
      const NftRefusal& first = reply.refused.front();
      throw Error(
          Code::kKernel, Cat("cannot ", batch.messages()[first.message].label), first.details);
    }
    if (std::chrono::steady_clock::now() > deadline) {
      throw Error(Code::kTryAgain,
                  "cannot remove rules of the reference plugins",
                  "other programs keep changing the nf_tables ruleset");
    }
  }
}

}  // namespace nomad_bridge::firewall
