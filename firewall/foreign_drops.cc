#include "firewall/foreign_drops.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include <netinet/in.h>

#include "base/list.h"
#include "base/text.h"
#include "firewall/static_rules.h"
#include "firewall/table.h"

namespace nomad_bridge::firewall {
namespace {

using nft::Bytes;
using Code = nft::Verdict::Code;

// Which new connections a rule may accept.
constexpr unsigned kTo = 1;    // some to our bridges
constexpr unsigned kFrom = 2;  // some from our bridges
constexpr unsigned kBoth = kTo | kFrom;

constexpr std::uint32_t kCtDnat = 1U << 5;  // IPS_DST_NAT

// Something that a rule may test.
struct Field {
  std::string_view loader;  // part of the expression that loads it
  std::vector<Bytes> ours;  // its values in the first packets of our connections; empty: not known
  unsigned if_ours;         // what a rule for one of these values may accept
  unsigned if_other;        // what a rule for other values may accept
  bool names_us = false;    // a rule for one of these values is about us
};

Bytes HostOrder(std::uint32_t number) {
  Bytes bytes(sizeof number);
  std::memcpy(bytes.data(), &number, sizeof number);
  return bytes;
}

std::vector<Bytes> KeysOf(nft::Socket& socket, const std::string& set) {
  std::vector<Bytes> keys;
  for (const nft::Element& element : socket.Elements(TableId(), set)) {
    keys.push_back(element.key);
  }
  return keys;
}

// Before our chain, no packet has our mark. Connections are TCP: nothing works if that is dropped.
std::vector<Field> FieldsOf(nft::Socket& socket, int mark_bit, bool is_before) {
  const std::vector<Bytes> bridges = KeysOf(socket, kBridges);
  const std::vector<Bytes> ip4 = KeysOf(socket, SetName(kAlloc, Family::kIpv4));
  const std::vector<Bytes> ip6 = KeysOf(socket, SetName(kAlloc, Family::kIpv6));
  // Without any allocation, no address tells whether a rule is for future ones.
  const unsigned if_none = ip4.empty() && ip6.empty() ? kBoth : 0;
  const auto address = [&](const char* loader, const auto& ours, unsigned way) {
    return ours.empty() ? Field{loader, {}, if_none, if_none}
                        : Field{loader, ours, way, kBoth & ~way, true};
  };
  const Bytes mark = HostOrder(std::uint32_t{1} << mark_bit);
  return {{"[ meta load iifname ", bridges, kFrom, kTo, true},
          {"[ meta load oifname ", bridges, kTo, kFrom, true},
          {"[ meta load mark ", {mark}, is_before ? 0 : kBoth, kBoth, !is_before},
          {"[ ct load state ", {HostOrder(nft::kCtNew)}, kBoth, 0},
          {"[ ct load status ", {HostOrder(kCtDnat)}, kTo, 0},
          {"[ meta load nfproto ", {}, kBoth, kBoth},
          {"[ meta load l4proto ", {{IPPROTO_TCP}}, kBoth, 0},
          {"1b @ network header + 9 ", {{IPPROTO_TCP}}, kBoth, 0},  // ip protocol
          {"1b @ network header + 6 ", {{IPPROTO_TCP}}, kBoth, 0},  // ip6 nexthdr
          address("@ network header + 12 ", ip4, kFrom),            // ip saddr
          address("@ network header + 16 ", ip4, kTo),              // ip daddr
          address("@ network header + 8 ", ip6, kFrom),             // ip6 saddr
          address("@ network header + 24 ", ip6, kTo),              // ip6 daddr
          {"@ transport header ", {}, 0, 0},                        // a port, a type of ICMP
          {"", {}, kBoth, kBoth}};                                  // anything else
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

// Returns the element that `value`, under `mask`, is in; nullptr if it is in none.
const nft::Element* Find(const std::vector<nft::Element>& elements,
                         const Bytes& value,
                         const Bytes& mask) {
  const nft::Element* found = nullptr;
  if (std::ranges::none_of(elements, &nft::Element::ends_interval)) {
    const auto same = std::ranges::find_if(
        elements, [&](const auto& each) { return BeginsWith(value, mask, each.key); });
    return same == elements.end() ? nullptr : &*same;
  }
  for (const nft::Element& each : elements) {
    if (each.key <= value && (found == nullptr || found->key < each.key ||
                              (found->key == each.key && !each.ends_interval))) {
      found = &each;
    }
  }
  return found != nullptr && !found->ends_interval ? found : nullptr;
}

// What one rule does with new connections of ours.
struct Outline {
  unsigned accepts = kBoth;  // those that it matches
  bool is_for_all = true;
  bool names_us = false;
  std::optional<nft::Verdict> verdict;  // nullopt: they go on to the next rule
};

// Takes "objref type 1 name NAME".
bool IsNamedCounter(const std::vector<std::string>& words) {
  return words[0] == "objref" && words.size() > 2 && words[2] == "1";
}

// Takes "lookup reg 1 set NAME dreg 0": the elements have verdicts.
bool IsVerdictMap(const std::vector<std::string>& words) {
  return words[0] == "lookup" && words.size() > 6 && words[6] == "0";
}

// Takes "target name REJECT rev 0", as iptables writes it.
bool IsReject(const std::vector<std::string>& words) {
  return words[0] == "target" && words.size() > 2 && words[2] == "REJECT";
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
      : socket_(socket), table_(table), fields_(fields) {}

  // Returns whether a rule drops all new connections that come to `chain`. `way` says which ones
  // come there. The recursion ends: the kernel refuses chains that lead back to themselves.
  bool Drops(const std::string& chain, unsigned way = kBoth) {
    for (const nft::KernelRule& rule : RulesOf(chain)) {
      const Outline outline = Read(rule, way);
      if (!outline.verdict) {
        continue;
      }
      const bool drops = DropsBy(*outline.verdict, outline.accepts);
      if (drops ? outline.is_for_all : EndsAll(outline)) {
        NoteEnd(chain, rule, drops && !LeadsOn(*outline.verdict));
        return drops;
      }
      if (!LeadsOn(*outline.verdict) && !drops) {
        accepted_ |= outline.accepts;
        names_us_ = names_us_ || (outline.names_us && outline.accepts != 0);
      }
    }
    end_ = {chain};
    return false;
  }

  // What Drops() has found out.
  [[nodiscard]] unsigned accepted() const { return accepted_; }  // by rules before the drop
  // Returns whether one of these rules names us, and none accepts the other direction.
  [[nodiscard]] bool IsOneDirectionMeant() const { return names_us_ && accepted_ != kBoth; }
  [[nodiscard]] const RulePlace& drop() const { return drop_; }  // the rule that drops
  // Where a rule has to be added so that all rules before the drop stay in force, and only this
  // base chain has it.
  [[nodiscard]] const RulePlace& end() const { return end_; }

  // Returns the handle of the rule in `chain` that jumps to `target`; 0 if there is none.
  [[nodiscard]] std::uint64_t FindJump(const std::string& chain, const std::string& target) {
    const std::vector<nft::KernelRule>& rules = RulesOf(chain);
    const auto jump = std::ranges::find(rules, target, &nft::KernelRule::target);
    return jump == rules.end() ? 0 : jump->handle;
  }

  // Returns which of its chain's rules it is, from 1; 0 for the chain's end.
  [[nodiscard]] std::size_t NumberOf(const RulePlace& place) {
    return NumberOfRule(RulesOf(place.chain), place.handle);
  }

 private:
  const std::vector<nft::KernelRule>& RulesOf(const std::string& chain) {
    const auto [known, is_new] = rules_.try_emplace(chain);
    if (is_new) {
      known->second = socket_.Rules(table_, chain);
    }
    return known->second;
  }

  [[nodiscard]] static bool LeadsOn(const nft::Verdict& verdict) {
    return verdict.code == Code::kJump || verdict.code == Code::kGoto;
  }

  bool DropsBy(const nft::Verdict& verdict, unsigned way) {
    return LeadsOn(verdict)
               ? Drops(verdict.chain, way) && !Contains(kOperatorsChains, verdict.chain)
               : verdict.code == Code::kDrop;
  }

  // Returns whether no connection comes to the next rule, although none is dropped.
  [[nodiscard]] static bool EndsAll(const Outline& outline) {
    return outline.is_for_all &&
           (outline.verdict->code == Code::kGoto || outline.verdict->code == Code::kReturn);
  }

  // Returns what a "lookup" looks the value up in, or what a "cmp" compares it with.
  std::vector<nft::Element> ElementsOf(const std::vector<std::string>& words,
                                       const Bytes& compared) {
    return words[0] == "lookup" ? socket_.Elements(table_, words[4])
                                : std::vector{nft::Element{.key = compared}};
  }

  // `rule` of `chain` ends the way of all connections, there or in the chain that it leads to.
  void NoteEnd(const std::string& chain, const nft::KernelRule& rule, bool is_drop) {
    if (is_drop) {
      drop_ = {chain, rule.handle};
    }
    if (rule.target.empty() || IsShared(rule.target)) {
      end_ = {chain, rule.handle};
    }
  }

  // Returns whether not only one rule leads to `chain`.
  bool IsShared(const std::string& chain) {
    const auto found = socket_.FindChain(table_, chain);
    return !found || found->use > RulesOf(chain).size() + 1;
  }

  Outline Read(const nft::KernelRule& rule, unsigned way) {
    // "meta", "ct" and "payload" set something, if they do not load it.
    static constexpr std::array<std::string_view, 7> kUnconditional = {
        "counter", "log", "immediate", "reject", "meta", "ct", "payload"};
    // An extension of iptables, or another program, decides.
    static constexpr std::array<std::string_view, 4> kDeciding = {
        "target", "queue", "synproxy", "unknown"};
    Outline outline = {.accepts = way, .verdict = rule.verdict};
    if (rule.target == kCniForward) {
      outline.verdict = nft::Verdict();  // the static rules there accept what is ours
    }
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
      } else if (IsReject(words)) {
        outline.verdict = nft::Verdict{.code = Code::kDrop, .chain = {}};
      } else if (!Contains(kUnconditional, words[0]) && !IsNamedCounter(words)) {
        outline.is_for_all = false;
        loaded.field = &fields_.back();
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
    const bool was_for_all = std::exchange(outline.is_for_all, false);
    if (field.ours.empty() || (is_map && field.if_other != 0)) {
      outline.accepts &= is_map || is_negated ? kBoth : field.if_ours;
      return;
    }
    if (!Contains(kClear, words[1])) {
      return;
    }
    const std::vector<nft::Element> with = ElementsOf(words, compared);
    const auto ours = std::ranges::find_if(field.ours, [&](const Bytes& value) {
      return (Find(with, value, loaded.mask) != nullptr) != is_negated;
    });
    const bool is_ours = ours != field.ours.end();
    outline.accepts &= is_ours ? field.if_ours : field.if_other;
    outline.names_us = outline.names_us || (field.names_us && is_ours && !is_negated);
    outline.is_for_all = was_for_all && is_ours && field.if_ours == kBoth;
    if (is_map && is_ours) {
      outline.verdict = Find(with, field.ours.front(), loaded.mask)->verdict;
    }
  }

  nft::Socket& socket_;
  const nft::TableId& table_;
  const std::vector<Field>& fields_;
  std::map<std::string, std::vector<nft::KernelRule>> rules_;  // by chain
  unsigned accepted_ = 0;
  bool names_us_ = false;
  RulePlace drop_;
  RulePlace end_;
};

// Returns whether the kernel calls the chain at the forward hook. Leaves out the chains of
// firewalld, which has zones.
bool IsForeign(nft::Socket& socket, const nft::TableId& table, const nft::Chain& chain) {
  const bool is_ip =
      table.family == nft::TableFamily::kIp || table.family == nft::TableFamily::kIp6;
  const bool is_inet = table.family == nft::TableFamily::kInet;
  const bool is_foreign = chain.hook && chain.hook->type == "filter" &&
                          chain.hook->point == nft::Hook::Point::kForward && (is_ip || is_inet) &&
                          table != TableId() && !(is_inet && table.name == "firewalld");
  const auto in_kernel = is_foreign ? socket.FindTable(table) : std::nullopt;
  return in_kernel && !in_kernel->is_dormant;
}

// Returns the command for a chain before ours, where packets have no mark yet.
std::string AcceptBridgesCommand(const std::string& add, std::vector<Bytes> bridges) {
  if (bridges.empty()) {
    bridges.push_back(NameKey("BRIDGE"));
  }
  return Joined(bridges, " && ", [&](const Bytes& bridge) {
    const std::string name = ShellWord(std::string(bridge.begin(), std::ranges::find(bridge, 0)));
    return Format("{}iifname {} accept && {}oifname {} accept", add, name, add, name);
  });
}

// Returns the command that brings our jump from FORWARD of iptables directly before `end`. If `end`
// is in another chain, that chain gets a jump of its own.
std::string JumpCommand(ChainReader& reader, const nft::TableId& table, std::uint64_t jump) {
  const RulePlace& end = reader.end();
  const std::string remove = Format(" && nft delete rule {} {} {} handle {}",
                                    nft::Text(table.family),
                                    table.name,
                                    kForward,
                                    jump);
  return Format("{}-m comment --comment {} -j {}{}",
                AddIptablesRule(table, end.chain, reader.NumberOf(end)),
                ShellWord(kJumpComment),
                kCniForward,
                end.chain == kForward ? remove : std::string());
}

// Says which of our connections a chain drops that has accepted some.
std::string_view TextOfDropped(unsigned accepted) {
  return accepted == kTo     ? "drops what allocations send"
         : accepted == kFrom ? "drops what is sent to allocations"
                             : "drops";
}

struct ForeignDrop {
  nft::TableId table;
  RulePlace drop;
  Finding finding;
};

// Where a chain is called. It decides how the chain can accept what is ours.
enum class Position { kBefore, kJump, kAfter };

Position PositionOf(const nft::TableId& table, const nft::Chain& chain) {
  const bool is_iptables =
      table.family != nft::TableFamily::kInet && table.name == "filter" && chain.name == kForward;
  return is_iptables                               ? Position::kJump
         : chain.hook->priority < kForwardPriority ? Position::kBefore
                                                   : Position::kAfter;
}

constexpr Names<Position, 3> kPositionNames = {{{Position::kBefore, "before ours"},
                                                {Position::kJump, "before our jump"},
                                                {Position::kAfter, "after ours"}}};

std::optional<ForeignDrop> FindDropOf(nft::Socket& socket,
                                      int accept_mark_bit,
                                      const nft::TableId& table,
                                      const nft::Chain& chain) {
  const Position position = PositionOf(table, chain);
  const std::vector<Field> fields =
      FieldsOf(socket, accept_mark_bit, position == Position::kBefore);
  ChainReader reader(socket, table, fields);
  const std::uint64_t jump = reader.FindJump(kForward, kCniForward);
  if (position == Position::kJump && jump == 0) {
    return std::nullopt;  // nobody needs the jump, or it is missing (static_rules.h)
  }
  const bool is_rule = reader.Drops(chain.name);
  if ((!is_rule && !chain.hook->drops) || reader.accepted() == kBoth) {
    return std::nullopt;
  }
  const std::string add = AddRuleBefore(table, reader.end());
  Finding finding = {.text = Format("chain {} of table {} ({}) comes {} and {}",
                                    chain.name,
                                    nft::Text(table),
                                    is_rule ? "a rule for all packets" : "policy drop",
                                    NameOf(kPositionNames, position),
                                    TextOfDropped(reader.accepted())),
                     .severity = reader.IsOneDirectionMeant() ? Finding::Severity::kWarning
                                                              : Finding::Severity::kFault};
  switch (position) {
    case Position::kBefore:
      finding.fix = AcceptBridgesCommand(add, KeysOf(socket, kBridges));
      break;
    case Position::kJump:
      finding.fix = JumpCommand(reader, table, jump);
      break;
    case Position::kAfter:
      finding.fix = Cat(add, NftMatchOfMark(accept_mark_bit), "accept");
      break;
  }
  return ForeignDrop{.table = table,
                     .drop = is_rule ? reader.drop() : RulePlace{chain.name},
                     .finding = std::move(finding)};
}

std::vector<ForeignDrop> FindAll(nft::Socket& socket, int accept_mark_bit) {
  std::vector<ForeignDrop> found;
  for (const auto& [table, chain, handle, use] : socket.Chains()) {
    if (IsForeign(socket, table, chain)) {
      if (auto drop = FindDropOf(socket, accept_mark_bit, table, chain)) {
        found.push_back(*std::move(drop));
      }
    }
  }
  return found;
}

}  // namespace

std::string AddRuleBefore(const nft::TableId& table, const RulePlace& place) {
  return Format("nft {} rule {} {} {} {}",
                place.handle == 0 ? "add" : "insert",
                nft::Text(table.family),
                ShellWord(table.name),
                ShellWord(place.chain),
                place.handle == 0 ? std::string() : Format("handle {} ", place.handle));
}

std::size_t NumberOfRule(const std::vector<nft::KernelRule>& rules, std::uint64_t handle) {
  const auto rule = std::ranges::find(rules, handle, &nft::KernelRule::handle);
  return rule == rules.end() ? 0 : static_cast<std::size_t>(rule - rules.begin()) + 1;
}

std::string AddIptablesRule(const nft::TableId& table,
                            const std::string& chain,
                            std::size_t number) {
  return Format("{} -t {} {} {} {}",
                table.family == nft::TableFamily::kIp ? "iptables" : "ip6tables",
                table.name,
                number == 0 ? "-A" : "-I",
                ShellWord(chain),
                number == 0 ? std::string() : Cat(number, ' '));
}

std::string NftMatchOfMark(int accept_mark_bit) {
  const std::string mark = Cat("0x", Hex(std::uint64_t{1} << accept_mark_bit, 4));
  return Format("meta mark and {} == {} ", mark, mark);
}

FindingList FindForeignDrops(nft::Socket& socket, int accept_mark_bit) {
  FindingList found;
  for (ForeignDrop& each : FindAll(socket, accept_mark_bit)) {
    found.push_back(std::move(each.finding));
  }
  return found;
}

std::optional<Fix> FindFixOfDrop(nft::Socket& socket,
                                 int accept_mark_bit,
                                 const nft::TableId& table,
                                 const RulePlace& drop) {
  for (const ForeignDrop& each : FindAll(socket, accept_mark_bit)) {
    if (each.table == table && each.drop == drop) {
      return each.finding.fix;
    }
  }
  return std::nullopt;
}

}  // namespace nomad_bridge::firewall
