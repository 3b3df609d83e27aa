#include "firewall/static_rules.h"

#include <algorithm>
#include <bit>
#include <set>

#include "base/text.h"

namespace nomad_bridge::firewall {
namespace {

constexpr const char* kForward = "FORWARD";
constexpr const char* kCniForward = "CNI-FORWARD";
constexpr int kMarkBits = 32;
constexpr const char* kAcceptComment = "nomad-bridge: accepted by table inet nomad-bridge";

using Texts = std::vector<std::string>;

// What is wanted of one family's table filter.
struct Wanted {
  NftTableId table;
  std::set<std::string> admin_chains;
  int mark_bit = 0;
};

// jump CNI-FORWARD
NftRule JumpToUs() {
  return NftRule().Counter().Jump(kCniForward).Comment("CNI firewall plugin rules");
}

// jump NOMAD-ADMIN
NftRule JumpToAdmin(const std::string& chain) {
  return NftRule().Counter().Jump(chain).Comment("CNI firewall plugin admin overrides");
}

// meta mark & 0x1000 == 0x1000 accept
NftRule AcceptMark(int bit) {
  return NftRule().MarkBitIsSet(bit).Counter().Accept().Comment(kAcceptComment);
}

// iptables' xt_mark of the same meaning: mark, mask and "not" as it lies in the kernel, which old
// iptables-nft uses.
Texts XtAcceptMark(int bit) {
  std::uint32_t mark = std::uint32_t{1} << bit;
  std::string hex;
  for (std::size_t i = 0; i < sizeof mark; ++i) {
    const std::size_t byte = std::endian::native == std::endian::little ? i : sizeof mark - 1 - i;
    hex += Hex(mark >> (byte * 8) & 0xff, 2);
  }
  return {Cat("[ match name mark rev 1 info ", hex, hex, "00000000 ]"),
          ExpressionTexts(NftRule().Accept()).front()};
}

// Counters and comments do not change what a rule does.
Texts Meaning(Texts expressions) {
  std::erase_if(expressions, [](const std::string& text) {
    return text.starts_with("[ counter ") || text.starts_with("[ match name comment ");
  });
  return expressions;
}

bool DoesTheSame(const NftKernelRule& present, const NftRule& rule) {
  return Meaning(present.expressions) == Meaning(ExpressionTexts(rule));
}

bool Has(const std::vector<NftKernelRule>& present, const NftRule& rule) {
  return std::any_of(present.begin(), present.end(), [&](const NftKernelRule& candidate) {
    return DoesTheSame(candidate, rule);
  });
}

bool AcceptsMark(const NftKernelRule& rule, int bit) {
  return DoesTheSame(rule, AcceptMark(bit)) || Meaning(rule.expressions) == XtAcceptMark(bit);
}

// The bit whose mark `rule`, one of ours, accepts, and nothing else; -1 if it is another rule.
int AcceptedBit(const NftKernelRule& rule) {
  const std::string accept = ExpressionTexts(NftRule().Accept()).front();
  const Texts meaning = Meaning(rule.expressions);
  if (rule.comment != kAcceptComment || meaning.empty() || meaning.back() != accept ||
      meaning.front().find(" mark ") == std::string::npos) {
    return -1;
  }
  int bit = kMarkBits - 1;
  while (bit >= 0 && !AcceptsMark(rule, bit)) {
    --bit;
  }
  return bit;
}

std::vector<Wanted> PerFamily(const std::vector<Policy>& policies) {
  Wanted ipv4{.table = {NftFamily::kIp, "filter"}, .admin_chains = {}};
  Wanted ipv6{.table = {NftFamily::kIp6, "filter"}, .admin_chains = {}};
  for (const Policy& policy : policies) {
    if (policy.admin_chain.empty()) {
      continue;
    }
    ipv4.mark_bit = ipv6.mark_bit = policy.accept_mark_bit;
    ipv4.admin_chains.insert(policy.admin_chain);
    if (policy.ipv6) {
      ipv6.admin_chains.insert(policy.admin_chain);
    }
  }
  std::vector<Wanted> wanted = {std::move(ipv4), std::move(ipv6)};
  std::erase_if(wanted, [](const Wanted& family) { return family.admin_chains.empty(); });
  return wanted;
}

// FORWARD, as iptables itself makes it, and the chains behind it. Returns whether CNI-FORWARD had
// to be made.
bool DescribeChains(NftSocket& socket, const Wanted& wanted, NftBatch& batch) {
  if (!socket.HasTable(wanted.table)) {
    batch.AddTable(wanted.table);
  }
  const auto ensure = [&](const NftChain& chain) {
    const bool absent = !socket.FindChain(wanted.table, chain.name);
    if (absent) {
      batch.AddChain(wanted.table, chain);
    }
    return absent;
  };
  static_cast<void>(ensure(
      {.name = kForward,
       .hook = NftHook{.type = "filter", .point = NftHook::Point::kForward, .priority = 0}}));
  for (const std::string& name : wanted.admin_chains) {
    static_cast<void>(ensure({.name = name}));
  }
  return ensure({.name = kCniForward});
}

std::vector<std::string> DescribeRules(NftSocket& socket, const Wanted& wanted, NftBatch& batch) {
  std::vector<std::string> phrases;
  const auto mended = [&](const std::string& what) {
    phrases.push_back(Cat(what, " in table ", Text(wanted.table)));
  };
  if (!Has(socket.Rules(wanted.table, kForward), JumpToUs())) {
    batch.InsertRule(wanted.table, kForward, JumpToUs());
    mended("the jump from FORWARD to CNI-FORWARD");
  }
  const std::vector<NftKernelRule> present = socket.Rules(wanted.table, kCniForward);
  for (const std::string& chain : wanted.admin_chains) {
    if (!Has(present, JumpToAdmin(chain))) {
      batch.InsertRule(wanted.table, kCniForward, JumpToAdmin(chain));
      mended(Cat("the jump from CNI-FORWARD to ", chain));
    }
  }
  bool accepted = false;
  for (const NftKernelRule& rule : present) {
    const int bit = AcceptedBit(rule);
    if (bit >= 0 && (bit != wanted.mark_bit || accepted)) {
      batch.DeleteRule(wanted.table, kCniForward, rule.handle);
    }
    accepted = accepted || bit == wanted.mark_bit;
  }
  if (!accepted) {
    batch.AppendRule(wanted.table, kCniForward, AcceptMark(wanted.mark_bit));
    mended("the accept of our mark in CNI-FORWARD");
  }
  return phrases;
}

}  // namespace

bool HasStaticRules(NftSocket& socket, const Policy& policy) {
  const std::vector<Wanted> wanted = PerFamily({policy});
  return std::all_of(wanted.begin(), wanted.end(), [&](const Wanted& family) {
    const std::vector<NftKernelRule> present = socket.Rules(family.table, kCniForward);
    return Has(present, JumpToAdmin(policy.admin_chain)) &&
           std::any_of(present.begin(), present.end(), [&](const NftKernelRule& rule) {
             return AcceptsMark(rule, policy.accept_mark_bit);
           });
  });
}

std::vector<std::string> DescribeStaticRules(NftSocket& socket,
                                             const std::vector<Policy>& policies,
                                             NftBatch& batch) {
  std::vector<std::string> phrases;
  for (const Wanted& wanted : PerFamily(policies)) {
    const bool made_anew = DescribeChains(socket, wanted, batch);
    const std::vector<std::string> rules = DescribeRules(socket, wanted, batch);
    if (made_anew) {
      phrases.push_back(Cat("the forwarding rules in table ", Text(wanted.table)));
    } else {
      phrases.insert(phrases.end(), rules.begin(), rules.end());
    }
  }
  return phrases;
}

}  // namespace nomad_bridge::firewall
