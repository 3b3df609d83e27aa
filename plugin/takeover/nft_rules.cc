#include "plugin/takeover/nft_rules.h"

#include <algorithm>
#include <array>
#include <functional>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/file_lock.h"
#include "base/text.h"

namespace nomad_bridge::takeover {
namespace {

using Texts = std::vector<std::string>;

// Where one kind of rule stands, and how it is told.
struct Location {
  ReferencePart part;
  nft::TableId table;
  std::string chain;
  std::function<bool(const nft::KernelRule&)> matches;
};

Texts Meaning(Texts expressions) {
  std::erase_if(expressions,
                [](const std::string& text) { return text.starts_with("[ counter "); });
  return expressions;
}

// What iptables-nft makes of -s or -d with one address: no word about the family, which the table
// says.
Texts AddressMatch(const Ip& ip, bool source) {
  nft::Rule rule;
  rule.Only(ip.family());
  const std::size_t about_family = rule.expressions().size();
  source ? rule.Saddr(Cidr::Host(ip)) : rule.Daddr(Cidr::Host(ip));
  Texts texts = nft::ExpressionTexts(rule);
  texts.erase(texts.begin(), texts.begin() + static_cast<std::ptrdiff_t>(about_family));
  return texts;
}

// -s <ip> -j ACCEPT, or -d <ip> -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT.
bool AcceptsFor(const nft::KernelRule& rule, const Ip& ip) {
  const Texts meaning = Meaning(rule.expressions);
  const std::string accept = nft::ExpressionTexts(nft::Rule().Accept()).front();
  const auto begins_with = [&](const Texts& match) {
    return meaning.size() > match.size() &&
           std::equal(match.begin(), match.end(), meaning.begin()) && meaning.back() == accept;
  };
  const Texts from = AddressMatch(ip, true);
  const Texts to = AddressMatch(ip, false);
  return (begins_with(from) && meaning.size() == from.size() + 1) ||
         (begins_with(to) && meaning.size() > to.size() + 1);
}

std::vector<Location> PlacesOf(const AttachmentId& id, const std::vector<Ip>& addresses) {
  const auto says = [](std::string comment) {
    return [comment = std::move(comment)](const nft::KernelRule& rule) {
      return rule.comment == comment;
    };
  };
  const auto accepts = [&addresses](const nft::KernelRule& rule) {
    return std::any_of(
        addresses.begin(), addresses.end(), [&](const Ip& ip) { return AcceptsFor(rule, ip); });
  };
  const std::string nft_comment =
      Cat(", net: ", id.network, ", if: ", id.ifname, ", id: ", id.container_id);
  const auto ends_so = [nft_comment](const nft::KernelRule& rule) {
    return rule.comment.ends_with(nft_comment);
  };
  std::vector<Location> places;
  const auto add = [&](ReferencePart part,
                       const nft::TableId& table,
                       const std::string& chain,
                       const std::function<bool(const nft::KernelRule&)>& matches) {
    places.push_back({.part = part, .table = table, .chain = chain, .matches = matches});
  };
  using enum ReferencePart;
  for (const nft::TableFamily family : {nft::TableFamily::kIp, nft::TableFamily::kIp6}) {
    const nft::TableId nat{family, "nat"};
    const nft::TableId hostport{family, "cni_hostport"};
    add(kMasquerade, nat, "POSTROUTING", says(ReferenceComment(id)));
    add(kForward, {family, "filter"}, "CNI-FORWARD", accepts);
    add(kPorts, nat, "CNI-HOSTPORT-DNAT", says("dnat " + ReferenceComment(id)));
    add(kPorts, hostport, "hostports", says(id.container_id));
    add(kPorts, hostport, "hostip_hostports", says(id.container_id));
  }
  add(kMasquerade, {nft::TableFamily::kInet, "cni_plugins_masquerade"}, "masq_checks", ends_so);
  return places;
}

// As iptables-nft writes them, and as its own expressions would.
bool HasEffect(const nft::KernelRule& rule) {
  constexpr std::array kEffects = {" name DNAT ", " name MASQUERADE ", "[ nat dnat ", "[ masq "};
  return std::any_of(
      rule.expressions.begin(), rule.expressions.end(), [&](const std::string& text) {
        return std::any_of(kEffects.begin(), kEffects.end(), [&](const char* effect) {
          return text.find(effect) != text.npos;
        });
      });
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
  return Cat("name: \"", id.network, "\" id: \"", id.container_id, '"');
}

bool IsOwnReferenceChain(const std::string& chain) {
  constexpr std::size_t kLength = 28;
  return chain.size() == kLength && chain.starts_with("CNI-") &&
         std::all_of(chain.end() - 21, chain.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

bool MayHaveReferenceRules(nft::Socket& socket) {
  constexpr std::array<std::string_view, 3> kTables = {
      "nat", "cni_hostport", "cni_plugins_masquerade"};
  const std::vector<nft::TableId> tables = socket.Tables();
  return std::any_of(tables.begin(), tables.end(), [&](const nft::TableId& table) {
    return std::find(kTables.begin(), kTables.end(), table.name) != kTables.end();
  });
}

std::vector<ReferenceRule> FindReferenceRules(nft::Socket& socket,
                                              const AttachmentId& id,
                                              const std::vector<Ip>& addresses) {
  std::vector<ReferenceRule> found;
  for (const Location& place : PlacesOf(id, addresses)) {
    for (const nft::KernelRule& rule : socket.Rules(place.table, place.chain)) {
      if (place.matches(rule)) {
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

std::size_t CountEffects(nft::Socket& socket, const std::vector<ReferenceRule>& rules) {
  std::size_t effects = 0;
  std::set<std::pair<std::string, std::string>> chains;
  for (const ReferenceRule& rule : rules) {
    if (rule.own_chain.empty()) {
      ++effects;
    } else if (chains.emplace(nft::Text(rule.table), rule.own_chain).second) {
      const std::vector<nft::KernelRule> own = socket.Rules(rule.table, rule.own_chain);
      effects += static_cast<std::size_t>(std::count_if(own.begin(), own.end(), HasEffect));
    }
  }
  return effects;
}

void RemoveReferenceRules(nft::Socket& socket, const std::vector<ReferenceRule>& rules) {
  if (rules.empty()) {
    return;
  }
  // Handles are never used again, so that a change by others in between does no harm: the batch is
  // simply tied to the generation after it.
  const nft::Batch batch = PlanRemoval(rules);
  const Deadline deadline = FromNow(kTimeout);
  for (;;) {
    const nft::CommitReply reply = socket.Commit(batch, socket.Generation());
    if (reply.done()) {
      return;
    }
    if (!reply.refused.empty()) {
      const nft::Refusal& first = reply.refused.front();
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

}  // namespace nomad_bridge::takeover
