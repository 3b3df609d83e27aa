#include "firewall/foreign_drops.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <string_view>

#include <netinet/in.h>

#include "base/list.h"
#include "base/text.h"
#include "firewall/table.h"

namespace nomad_bridge::firewall {
namespace {

using nft::Bytes;
using Code = nft::Verdict::Code;

// Which new connections a rule may accept.
constexpr unsigned kTo = 1;    // some to our bridges
constexpr unsigned kFrom = 2;  // some from our bridges
constexpr unsigned kBoth = kTo | kFrom;
// The rule has a word about us: it names a bridge or a mark, or it is unclear what it tests. Counts
// as kBoth, whatever else the rule tests.
constexpr unsigned kWord = 4;

// Something that a rule may test.
struct Field {
  std::string_view loader;  // part of the expression that loads it
  std::vector<Bytes> ours;  // its values in the first packets of our connections; empty: not known
  unsigned if_ours;         // what a rule for one of these values may accept
  unsigned if_other;        // what a rule for other values may accept
};

Bytes HostOrder(std::uint32_t number) {
  Bytes bytes(sizeof number);
  std::memcpy(bytes.data(), &number, sizeof number);
  return bytes;
}

// Before our chain, no packet has our mark. Connections are TCP: nothing works if that is dropped.
std::vector<Field> FieldsOf(const std::vector<Bytes>& bridges, int mark_bit, bool is_before) {
  const Bytes mark = HostOrder(std::uint32_t{1} << mark_bit);
  return {{"[ meta load iifname ", bridges, kWord, kTo},
          {"[ meta load oifname ", bridges, kWord, kFrom},
          {"[ meta load mark ", {mark}, is_before ? 0 : kWord, kWord},
          {"[ ct load state ", {HostOrder(nft::kCtNew)}, kBoth, 0},
          {"[ meta load nfproto ", {}, kBoth, kBoth},
          {"[ meta load l4proto ", {{IPPROTO_TCP}}, kBoth, 0},
          {"1b @ network header + 9 ", {{IPPROTO_TCP}}, kBoth, 0},  // ip protocol
          {"1b @ network header + 6 ", {{IPPROTO_TCP}}, kBoth, 0},  // ip6 nexthdr
          {"@ transport header ", {}, 0, 0},                        // a port, a type of ICMP
          {"", {}, kWord, kWord}};                                  // anything else
}

// Returns whether `value`, under `mask`, begins with `begin`.
bool BeginsWith(const Bytes& value, const Bytes& mask, const Bytes& begin) {
  for (std::size_t i = 0; i < std::min(value.size(), begin.size()); ++i) {
    if ((value[i] & (i < mask.size() ? mask[i] : 0xff)) != begin[i]) {
      return false;
    }
  }
  return true;
}

// What one rule does with new connections of ours.
struct Outline {
  unsigned accepts = kBoth;  // those that it matches
  bool is_for_all = true;
  std::optional<nft::Verdict> verdict;  // nullopt: they go on to the next rule

  void Restrict(unsigned to, bool for_all) {
    accepts = to == kWord ? accepts | kWord : accepts & (to | kWord);
    is_for_all = is_for_all && for_all;
  }
};

// Takes "objref type 1 name NAME".
bool IsNamedCounter(const std::vector<std::string>& words) {
  return words[0] == "objref" && words.size() > 2 && words[2] == "1";
}

// Takes "lookup reg 1 set NAME dreg 0": the elements have verdicts.
bool IsVerdictMap(const std::vector<std::string>& words) {
  return words[0] == "lookup" && words.size() > 6 && words[6] == "0";
}

// What is in the register that the next expression tests.
struct Loaded {
  const Field* field = nullptr;
  Bytes mask = {};  // empty: all bits
  bool is_tested = true;
};

// Reads a base chain, and the chains that it leads to.
class ChainReader {
 public:
  ChainReader(nft::Socket& socket, const nft::TableId& table, const std::vector<Field>& fields)
      : socket_(socket), table_(table), fields_(fields) {
    for (const nft::KernelRule& rule : socket.Rules(table)) {
      rules_[rule.chain].push_back(rule);
    }
  }

  // Returns whether a rule drops all new connections that come to `chain`. `way` says which ones
  // come there. The recursion ends: the kernel refuses chains that lead back to themselves.
  bool Drops(const std::string& chain, unsigned way = kBoth) {
    for (const nft::KernelRule& rule : rules_[chain]) {
      const Outline outline = Read(rule, way);
      if (!outline.verdict) {
        continue;
      }
      const auto& [code, target] = *outline.verdict;
      const bool leads_on = code == Code::kJump || code == Code::kGoto;
      const bool drops = leads_on ? Drops(target, outline.accepts) : code == Code::kDrop;
      if (outline.is_for_all && (drops || code == Code::kGoto || code == Code::kReturn)) {
        return drops;
      }
      if (!leads_on && !drops) {
        accepted_ |= outline.accepts;
      }
    }
    return false;
  }

  // Returns whether rules that Drops() has read may accept our connections in both directions.
  [[nodiscard]] bool accepts_ours() const {
    return (accepted_ & kWord) != 0 || (accepted_ & kBoth) == kBoth;
  }

 private:
  Outline Read(const nft::KernelRule& rule, unsigned way) {
    // "meta", "ct" and "payload" set something, if they do not load it.
    static constexpr std::array<std::string_view, 7> kUnconditional = {
        "counter", "log", "immediate", "reject", "meta", "ct", "payload"};
    // An extension of iptables, or another program, decides.
    static constexpr std::array<std::string_view, 4> kDeciding = {
        "target", "queue", "synproxy", "unknown"};
    Outline outline = {.accepts = way, .verdict = rule.verdict};
    Loaded loaded = {.field = &fields_.back()};
    for (std::size_t i = 0; i < rule.expressions.size(); ++i) {
      const std::vector<std::string> words = SplitFields(rule.expressions[i], " []");
      if (words.size() > 1 && words[1] == "load") {
        Load(rule.expressions[i], loaded);
      } else if (words[0] == "bitwise") {
        loaded.mask = rule.compared[i];
      } else if (words[0] == "cmp" || words[0] == "lookup") {
        Test(loaded, words, rule.compared[i], outline);
        loaded.is_tested = true;
      } else if (!Contains(kUnconditional, words[0]) && !IsNamedCounter(words)) {
        outline.Restrict(outline.accepts == 0 ? 0 : kWord, false);
        outline.verdict = Contains(kDeciding, words[0]) ? nft::Verdict() : outline.verdict;
      }
    }
    return outline;
  }

  // Two loads without a test between them make a concatenation, which is not clear.
  void Load(const std::string& expression, Loaded& loaded) {
    const auto field = std::ranges::find_if(fields_, [&](const Field& each) {
      return expression.find(each.loader) != std::string::npos;
    });
    loaded = {.field = loaded.is_tested ? &*field : &fields_.back(), .is_tested = false};
  }

  // Takes "cmp eq reg 1 ..." or "lookup reg 1 set NAME", maybe with "dreg 0", or with "0x1" if the
  // test is negated.
  void Test(const Loaded& loaded,
            const std::vector<std::string>& words,
            const Bytes& compared,
            Outline& outline) {
    static constexpr std::array<std::string_view, 3> kClear = {"eq", "neq", "reg"};  // not "lt"
    const Field& field = *loaded.field;
    const bool is_map = IsVerdictMap(words);
    const bool is_negated = words[1] == "neq" || words.back() == "0x1";
    outline.verdict = is_map ? nft::Verdict() : outline.verdict;
    if (field.ours.empty() || (is_map && field.if_other != 0)) {
      return outline.Restrict(is_map || is_negated ? kWord : field.if_ours, false);
    }
    const std::vector<nft::Element> with = words[0] == "lookup"
                                               ? socket_.Elements(table_, words[4])
                                               : std::vector{nft::Element{.key = compared}};
    const bool is_clear =
        Contains(kClear, words[1]) && std::ranges::none_of(with, &nft::Element::ends_interval);
    const auto find = [&](const Bytes& value) {
      return std::ranges::find_if(
          with, [&](const auto& each) { return BeginsWith(value, loaded.mask, each.key); });
    };
    const bool is_ours = std::ranges::any_of(
        field.ours, [&](const Bytes& value) { return (find(value) != with.end()) != is_negated; });
    const unsigned accepts = !is_clear ? kWord : is_ours ? field.if_ours : field.if_other;
    outline.Restrict(accepts, accepts == kBoth);
    if (is_map && is_clear && is_ours) {
      outline.verdict = find(field.ours.front())->verdict;
    }
  }

  nft::Socket& socket_;
  const nft::TableId& table_;
  const std::vector<Field>& fields_;
  std::map<std::string, std::vector<nft::KernelRule>> rules_;
  unsigned accepted_ = 0;
};

// Returns whether the kernel calls the chain at the forward hook. Leaves out FORWARD of iptables,
// which has the static rules, and the chains of firewalld, which has zones.
bool IsForeign(nft::Socket& socket, const nft::TableId& table, const nft::Chain& chain) {
  const bool is_ip =
      table.family == nft::TableFamily::kIp || table.family == nft::TableFamily::kIp6;
  const bool is_inet = table.family == nft::TableFamily::kInet;
  const bool is_iptables = is_ip && table.name == "filter" && chain.name == "FORWARD";
  const bool is_firewalld = is_inet && table.name == "firewalld";
  const bool is_foreign = chain.hook && chain.hook->type == "filter" &&
                          chain.hook->point == nft::Hook::Point::kForward && (is_ip || is_inet) &&
                          table != TableId() && !is_iptables && !is_firewalld;
  const auto in_kernel = is_foreign ? socket.FindTable(table) : std::nullopt;
  return in_kernel && !in_kernel->is_dormant;
}

// Returns the command for a chain before ours, where packets have no mark yet.
std::string AcceptBridgesCommand(const std::string& insert, std::vector<Bytes> bridges) {
  if (bridges.empty()) {
    bridges.push_back(NameKey("BRIDGE"));
  }
  return Joined(bridges, " && ", [&](const Bytes& bridge) {
    const std::string name = ShellWord(std::string(bridge.begin(), std::ranges::find(bridge, 0)));
    return Format("{}iifname {} accept && {}oifname {} accept", insert, name, insert, name);
  });
}

}  // namespace

std::string InsertRule(const nft::TableId& table, const std::string& chain) {
  return Format("nft insert rule {} {} {} ",
                nft::Text(table.family),
                ShellWord(table.name),
                ShellWord(chain));
}

std::string AcceptMarkCommand(const nft::TableId& table,
                              const std::string& chain,
                              int accept_mark_bit) {
  const std::string mark = Cat("0x", Hex(std::uint64_t{1} << accept_mark_bit, 4));
  return Format("{}meta mark and {} == {} accept", InsertRule(table, chain), mark, mark);
}

FindingList FindForeignDrops(nft::Socket& socket, int accept_mark_bit) {
  std::vector<Bytes> bridges;
  for (const nft::Element& element : socket.Elements(TableId(), kBridges)) {
    bridges.push_back(element.key);
  }
  FindingList found;
  for (const auto& [table, chain, handle, use] : socket.Chains()) {
    if (!IsForeign(socket, table, chain)) {
      continue;
    }
    const bool is_before = chain.hook->priority < kForwardPriority;
    const std::vector<Field> fields = FieldsOf(bridges, accept_mark_bit, is_before);
    ChainReader reader(socket, table, fields);
    const bool is_rule = reader.Drops(chain.name);
    if ((!is_rule && !chain.hook->drops) || reader.accepts_ours()) {
      continue;
    }
    found.push_back({.text = Format("chain {} of table {} ({}) comes {} ours and drops",
                                    chain.name,
                                    nft::Text(table),
                                    is_rule ? "a rule for all packets" : "policy drop",
                                    is_before ? "before" : "after"),
                     .fix = is_before ? AcceptBridgesCommand(InsertRule(table, chain.name), bridges)
                                      : AcceptMarkCommand(table, chain.name, accept_mark_bit)});
  }
  return found;
}

}  // namespace nomad_bridge::firewall
