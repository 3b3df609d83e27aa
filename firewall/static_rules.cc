#include "firewall/static_rules.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <set>
#include <utility>

#include "base/list.h"
#include "base/text.h"

namespace nomad_bridge::firewall {
namespace {

using Texts = std::vector<std::string>;

// The needs of table filter of one family.
struct Wanted {
  nft::TableId table;
  std::set<std::string> admin_chains;
  int mark_bit = 0;
  bool is_any = false;  // some hook is of this family
};

// jump CNI-FORWARD
nft::Rule JumpToUs() {
  return nft::Rule().Counter().Jump(kCniForward).Comment(kJumpComment);
}

// jump NOMAD-ADMIN
nft::Rule JumpToAdmin(const std::string& chain) {
  return nft::Rule().Counter().Jump(chain).Comment(kAdminComment);
}

// meta mark & 0x1000 == 0x1000 accept
nft::Rule AcceptMark(int bit) {
  return nft::Rule().MarkBitIsSet(bit).Counter().Accept().Comment(kAcceptComment);
}

// Returns the mark as the kernel stores it in a rule. The kernel's message about any rule with this
// mark contains these bytes.
std::string BytesOfMark(int bit) {
  const std::uint32_t mark = std::uint32_t{1} << bit;
  std::string bytes(sizeof mark, '\0');
  std::memcpy(bytes.data(), &mark, sizeof mark);
  return bytes;
}

// Returns the expressions of the same accept as old iptables-nft writes it: with mark, mask and
// "not" of xt_mark as the kernel stores them.
Texts XtAcceptMark(int bit) {
  std::string hex;
  for (const char byte : BytesOfMark(bit)) {
    hex += Hex(static_cast<unsigned char>(byte), 2);
  }
  return {Format("[ match name mark rev 1 info {}{}00000000 ]", hex, hex),
          nft::ExpressionTexts(nft::Rule().Accept()).front()};
}

bool DoesTheSame(const nft::KernelRule& present, const nft::Rule& rule) {
  return nft::Meaning(present.expressions) == nft::Meaning(nft::ExpressionTexts(rule));
}

bool Has(const std::vector<nft::KernelRule>& present, const nft::Rule& rule) {
  return std::ranges::any_of(
      present, [&](const nft::KernelRule& candidate) { return DoesTheSame(candidate, rule); });
}

bool AcceptsMark(const nft::KernelRule& rule, int bit) {
  return DoesTheSame(rule, AcceptMark(bit)) || nft::Meaning(rule.expressions) == XtAcceptMark(bit);
}

// Recognizes our rule by its comment, whichever bit it accepts.
bool HasOurComment(const nft::KernelRule& rule) {
  const Texts meaning = nft::Meaning(rule.expressions);
  return rule.comment == kAcceptComment && !meaning.empty() &&
         meaning.front().find(" mark ") != std::string::npos &&
         meaning.back() == nft::ExpressionTexts(nft::Rule().Accept()).front();
}

// Returns our accepts of any mark, and accepts of bit `mark_bit` without any comment: nft does not
// print the comments that iptables-restore makes, so they are lost when nft loads its own list
// again. Rules with a comment come first.
std::vector<nft::KernelRule> OurAccepts(std::vector<nft::KernelRule> rules, int mark_bit) {
  std::erase_if(rules, [&](const nft::KernelRule& rule) {
    return !HasOurComment(rule) && !(rule.comment.empty() && AcceptsMark(rule, mark_bit));
  });
  std::stable_partition(rules.begin(), rules.end(), HasOurComment);
  return rules;
}

// Returns texts to look for: the kernel's message about each of these accepts contains one of them.
// Messages about the reference plugin's rules in CNI-FORWARD, perhaps hundreds, contain none of
// them, and are skipped.
std::vector<std::string> TextsOfAccepts(int mark_bit) {
  return {kAcceptComment, BytesOfMark(mark_bit)};
}

std::vector<Wanted> PerFamily(const std::vector<ForwardHook>& forward_hooks) {
  std::vector<Wanted> wanted;
  for (const nft::TableFamily family : {nft::TableFamily::kIp, nft::TableFamily::kIp6}) {
    Wanted each{.table = {family, "filter"}};
    for (const ForwardHook& hook : forward_hooks) {
      if (family == nft::TableFamily::kIp || hook.ipv6) {
        each.mark_bit = hook.accept_mark_bit;
        each.admin_chains.insert(hook.admin_chain);
        each.is_any = true;
      }
    }
    each.admin_chains.erase("");
    if (each.is_any) {
      wanted.push_back(std::move(each));
    }
  }
  return wanted;
}

// Adds FORWARD, as iptables itself creates it, and the chains behind it. Returns whether
// CNI-FORWARD was missing.
bool PlanChains(nft::Socket& socket, const Wanted& wanted, nft::Batch& batch) {
  if (!socket.FindTable(wanted.table)) {
    batch.AddTable(wanted.table);
  }
  const auto ensure = [&](const nft::Chain& chain) {
    const bool absent = !socket.FindChain(wanted.table, chain.name);
    if (absent) {
      batch.AddChain(wanted.table, chain);
    }
    return absent;
  };
  static_cast<void>(ensure(
      {.name = kForward,
       .hook = nft::Hook{.type = "filter", .point = nft::Hook::Point::kForward, .priority = 0}}));
  for (const std::string& name : wanted.admin_chains) {
    static_cast<void>(ensure({.name = name}));
  }
  return ensure({.name = kCniForward});
}

std::vector<std::string> PlanRules(nft::Socket& socket, const Wanted& wanted, nft::Batch& batch) {
  std::vector<std::string> findings;
  const auto repaired = [&](const std::string& what) {
    findings.push_back(Format("{} is missing in table {}", what, nft::Text(wanted.table)));
  };
  if (!Has(socket.Rules(wanted.table, kForward, {kCniForward}), JumpToUs())) {
    batch.InsertRule(wanted.table, kForward, JumpToUs());
    repaired("the jump from FORWARD to CNI-FORWARD");
  }
  std::vector<std::string> texts = TextsOfAccepts(wanted.mark_bit);
  texts.insert(texts.end(), wanted.admin_chains.begin(), wanted.admin_chains.end());
  const std::vector<nft::KernelRule> present = socket.Rules(wanted.table, kCniForward, texts);
  for (const std::string& chain : wanted.admin_chains) {
    if (!Has(present, JumpToAdmin(chain))) {
      batch.InsertRule(wanted.table, kCniForward, JumpToAdmin(chain));
      repaired(Cat("the jump from CNI-FORWARD to ", chain));
    }
  }
  bool accepted = false;
  for (const nft::KernelRule& rule : OurAccepts(present, wanted.mark_bit)) {
    if (!accepted && AcceptsMark(rule, wanted.mark_bit)) {
      accepted = true;
    } else {
      batch.DeleteRule(wanted.table, kCniForward, rule.handle);
    }
  }
  if (!accepted) {
    batch.AppendRule(wanted.table, kCniForward, AcceptMark(wanted.mark_bit));
    repaired("the accept of our mark in CNI-FORWARD");
  }
  return findings;
}

}  // namespace

FindingList PlanStaticRules(nft::Socket& socket,
                            const std::vector<ForwardHook>& forward_hooks,
                            nft::Batch& batch) {
  FindingList findings;
  for (const Wanted& wanted : PerFamily(forward_hooks)) {
    nft::Batch rules;
    std::vector<std::string> lost = PlanRules(socket, wanted, rules);
    if (rules.empty()) {
      continue;  // the chains are there: rules lead to each of them
    }
    const bool is_new = PlanChains(socket, wanted, batch);
    batch.Append(std::move(rules));
    if (is_new) {
      lost = {Format("the forwarding rules in table {} are missing", nft::Text(wanted.table))};
    }
    const bool is_ipv4 = wanted.table.family == nft::TableFamily::kIp;
    for (std::string& text : lost) {
      findings.push_back({.area = Finding::Area::kStaticRules,
                          .text = std::move(text),
                          .family = is_ipv4 ? Family::kIpv4 : Family::kIpv6});
    }
  }
  return findings;
}

std::vector<std::string> PlanAcceptsGone(nft::Socket& socket, int mark_bit, nft::Batch& batch) {
  std::vector<std::string> gone;
  for (const nft::TableFamily family : {nft::TableFamily::kIp, nft::TableFamily::kIp6}) {
    const nft::TableId table{family, "filter"};
    if (!socket.FindTable(table)) {
      continue;
    }
    for (const nft::KernelRule& rule :
         OurAccepts(socket.Rules(table, kCniForward, TextsOfAccepts(mark_bit)), mark_bit)) {
      batch.DeleteRule(table, kCniForward, rule.handle);
      gone.push_back(Format("the accept of our mark in table {}", nft::Text(table)));
    }
  }
  return gone;
}

}  // namespace nomad_bridge::firewall
