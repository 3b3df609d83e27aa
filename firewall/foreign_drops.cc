#include "firewall/foreign_drops.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

#include "base/text.h"
#include "firewall/table.h"

namespace nomad_bridge::firewall {
namespace {

using Texts = std::vector<std::string>;

// What becomes of packets of ours that get to the end of a chain's rules.
enum class Fate { kGoOn, kAccepted, kDropped };

// Without what a rule does beside its verdict.
Texts VerdictOf(const nft::KernelRule& rule) {
  Texts meaning = nft::Meaning(rule.expressions);
  std::erase_if(meaning, [](const std::string& text) {
    const bool is_data = text.starts_with("[ immediate ") && !text.starts_with("[ immediate reg 0");
    return is_data || text.starts_with("[ log ") || text.starts_with("[ meta set ") ||
           text.starts_with("[ ct set ") || text.starts_with("[ target name LOG ") ||
           text.starts_with("[ target name NFLOG ");
  });
  return meaning;
}

bool HasPart(const std::string& text, std::string_view part) {
  return text.find(part) != text.npos;
}

// meta mark & 0x1000 == 0x1000 accept: what we tell operators to insert.
bool AcceptsMark(const Texts& verdict, int mark_bit) {
  const std::string bits = Cat("0x", Hex(std::uint64_t{1} << mark_bit, 8));
  return verdict.size() == 4 && verdict[0].starts_with("[ meta load mark ") &&
         HasPart(verdict[1], Cat("& ", bits)) && HasPart(verdict[2], Cat("eq reg 1 ", bits)) &&
         HasPart(verdict[3], " accept ]");
}

// The interface name of `element`, as a comparison prints it.
std::string NameText(const nft::Element& element) {
  std::string text;
  for (std::size_t word = 0; word + 4 <= element.key.size(); word += 4) {
    std::uint32_t value = 0;
    std::memcpy(&value, &element.key[word], sizeof value);
    text += Cat(" 0x", Hex(value, 8));
  }
  return text;
}

class Walk {
 public:
  Walk(nft::Socket& socket, const nft::Socket::TableChain& base, int accept_mark_bit)
      : socket_(socket), table_(base.table), accept_mark_bit_(accept_mark_bit) {
    if (IsBeforeOurs(base)) {
      for (const nft::Element& element : socket.Elements(TableId(), kBridges)) {
        bridges_.push_back(NameText(element));
      }
    }
  }

  // Ours is at priority -1, and sets the mark.
  [[nodiscard]] static bool IsBeforeOurs(const nft::Socket::TableChain& base) {
    return base.chain.hook->priority < 0;
  }

  // The kernel has seen to it that no chain leads back to itself.
  [[nodiscard]] Fate Through(const std::string& chain) {
    for (const nft::KernelRule& rule : socket_.Rules(table_, chain)) {
      const Texts verdict = VerdictOf(rule);
      if (Opens(verdict)) {
        return Fate::kAccepted;
      }
      if (verdict.size() != 1) {
        continue;  // for some packets only
      }
      const Fate fate = rule.target.empty() ? FateBy(verdict.front()) : Through(rule.target);
      const bool ends = HasPart(verdict.front(), " goto ") || HasPart(verdict.front(), " return");
      if (fate != Fate::kGoOn || ends) {
        return fate;
      }
    }
    return Fate::kGoOn;
  }

 private:
  [[nodiscard]] static Fate FateBy(const std::string& text) {
    const bool drops = HasPart(text, " drop ]") || text.starts_with("[ reject ") ||
                       text.starts_with("[ target name REJECT ");
    return drops ? Fate::kDropped : HasPart(text, " accept ]") ? Fate::kAccepted : Fate::kGoOn;
  }

  [[nodiscard]] bool Opens(const Texts& verdict) const {
    if (bridges_.empty()) {
      return AcceptsMark(verdict, accept_mark_bit_);
    }
    const auto has = [&](std::string_view part) {
      return std::ranges::any_of(verdict,
                                 [&](const std::string& text) { return HasPart(text, part); });
    };
    const bool is_by_name = has("meta load iifname") || has("meta load oifname");
    return is_by_name && has(" accept ]") &&
           (has("[ lookup ") || std::ranges::any_of(bridges_, has));
  }

  nft::Socket& socket_;
  nft::TableId table_;
  int accept_mark_bit_;
  Texts bridges_;  // none for a chain after ours
};

// At the forward hook; iptables' FORWARD has the static rules, and firewalld its zones.
bool IsForeign(const nft::Socket::TableChain& each) {
  const std::optional<nft::Hook>& hook = each.chain.hook;
  const nft::TableFamily family = each.table.family;
  const bool is_ip = family == nft::TableFamily::kIp || family == nft::TableFamily::kIp6;
  const bool is_inet = family == nft::TableFamily::kInet;
  const bool is_iptables = is_ip && each.table.name == "filter" && each.chain.name == "FORWARD";
  const bool is_firewalld = is_inet && each.table.name == "firewalld";
  return hook && hook->type == "filter" && hook->point == nft::Hook::Point::kForward &&
         (is_ip || is_inet) && each.table != TableId() && !is_iptables && !is_firewalld;
}

ForeignDrop Describe(const nft::Socket::TableChain& base, Fate fate, int accept_mark_bit) {
  const bool is_before = Walk::IsBeforeOurs(base);
  const std::string mark = Cat("0x", Hex(std::uint64_t{1} << accept_mark_bit, 4));
  return {.what = Format("chain {} of table {} ({}) comes {} ours and drops",
                         base.chain.name,
                         nft::Text(base.table),
                         fate == Fate::kDropped ? "a rule for all packets" : "policy drop",
                         is_before ? "before" : "after"),
          .fix = is_before
                     ? std::string("in that chain, before it drops: accept what comes from the "
                                   "bridge (iifname), and what goes to it (oifname)")
                     : Format("nft insert rule {} {} {} meta mark and {} == {} accept",
                              nft::Text(base.table.family),
                              ShellWord(base.table.name),
                              ShellWord(base.chain.name),
                              mark,
                              mark)};
}

}  // namespace

std::vector<ForeignDrop> FindForeignDrops(nft::Socket& socket, int accept_mark_bit) {
  std::vector<ForeignDrop> found;
  for (const nft::Socket::TableChain& each : socket.Chains()) {
    if (!IsForeign(each)) {
      continue;
    }
    const Fate fate = Walk(socket, each, accept_mark_bit).Through(each.chain.name);
    if (fate == Fate::kDropped || (fate == Fate::kGoOn && each.chain.hook->drops)) {
      found.push_back(Describe(each, fate, accept_mark_bit));
    }
  }
  return found;
}

}  // namespace nomad_bridge::firewall
