#include "netlink/nft/packet_path.h"

#include <algorithm>

#include "base/text.h"
#include "netlink/nft/rule_run.h"

namespace nomad_bridge::nft {

// One packet on its way through the chains of one base chain.
class PacketWalk {
 public:
  PacketWalk(Ruleset& ruleset,
             const Socket::TableChain& base,
             Packet& packet,
             std::vector<Effect>& effects)
      : ruleset_(ruleset), base_(base), packet_(packet), effects_(effects) {}

  void Run() {
    const Way way = Through(base_.chain.name, true);
    if (way != Way::kEnds && base_.chain.hook->drops) {
      Note(Effect::Kind::kDropped, base_.chain.name, 0, way == Way::kGoesOn);
    }
  }

 private:
  // Whether the packet comes to the end of a chain, or is accepted or dropped before.
  enum class Way : std::uint8_t { kGoesOn, kMayEnd, kEnds };

  // `is_reached`: by every packet of this description. The kernel has seen to it that no chain
  // leads back to itself.
  Way Through(const std::string& chain, bool is_reached) {
    Way way = Way::kGoesOn;
    bool is_whole = true;  // none has left for where it came from
    for (const KernelRule& rule : ruleset_.RulesOf(base_.table, chain)) {
      const RuleResult result =
          Apply(rule, packet_, base_.table.family, [&](const std::string& set) {
            return &ruleset_.SetOf(base_.table, set);
          });
      if (result.match == Match::kNo) {
        continue;
      }
      const bool is_sure = is_reached && result.match == Match::kYes && result.verdicts.size() < 2;
      TakeEffect(result, chain, rule.handle, is_sure);
      for (const Verdict& verdict : result.verdicts) {
        const auto [decided, leaves] = Decide(verdict, chain, rule.handle, is_sure);
        const bool is_all = result.match == Match::kYes && result.verdicts.size() == 1;
        if (is_all && (leaves || decided == Way::kEnds)) {
          const Way end = decided == Way::kEnds ? Way::kEnds : std::max(way, decided);
          return is_whole ? end : std::min(end, Way::kMayEnd);
        }
        is_whole = is_whole && !leaves;
        is_reached = is_reached && !leaves && decided == Way::kGoesOn;
        way = decided == Way::kGoesOn ? way : Way::kMayEnd;
      }
    }
    return way;
  }

  struct Decision {
    Way way;      // of a packet that gets this verdict
    bool leaves;  // this chain, if it goes on
  };

  Decision Decide(const Verdict& verdict,
                  const std::string& chain,
                  std::uint64_t handle,
                  bool is_sure) {
    switch (verdict.code) {
      case Verdict::Code::kDrop:
        Note(Effect::Kind::kDropped, chain, handle, is_sure);
        return {.way = Way::kEnds, .leaves = true};
      case Verdict::Code::kAccept:
        return {.way = Way::kEnds, .leaves = true};
      case Verdict::Code::kJump:
        return {.way = Through(verdict.chain, is_sure), .leaves = false};
      case Verdict::Code::kGoto:
        return {.way = Through(verdict.chain, is_sure), .leaves = true};
      default:
        return {.way = Way::kGoesOn, .leaves = true};
    }
  }

  void TakeEffect(const RuleResult& result,
                  const std::string& chain,
                  std::uint64_t handle,
                  bool is_sure) {
    if (result.effect) {
      Note(*result.effect, chain, handle, is_sure);
    }
    if (result.mark) {
      packet_.mark = is_sure ? *result.mark : KnownBits();
    }
  }

  void Note(Effect::Kind kind, const std::string& chain, std::uint64_t handle, bool is_sure) {
    effects_.push_back({.kind = kind,
                        .table = base_.table,
                        .base = base_.chain,
                        .chain = chain,
                        .handle = handle,
                        .is_certain = is_sure});
  }

  Ruleset& ruleset_;
  const Socket::TableChain& base_;
  Packet& packet_;
  std::vector<Effect>& effects_;
};

std::vector<Effect> Ruleset::Follow(Packet& packet,
                                    Hook::Point point,
                                    const Concerns& concerns,
                                    std::optional<TableFamily> family) {
  const TableFamily own = packet.family == Family::kIpv4 ? TableFamily::kIp : TableFamily::kIp6;
  std::vector<const Socket::TableChain*> bases;
  for (const Socket::TableChain& each : chains_) {
    const bool is_of_family =
        family ? each.table.family == *family
               : each.table.family == own || each.table.family == TableFamily::kInet;
    if (each.chain.hook && each.chain.hook->point == point && is_of_family && concerns(each)) {
      bases.push_back(&each);
    }
  }
  std::ranges::stable_sort(
      bases, {}, [](const Socket::TableChain* each) { return each->chain.hook->priority; });
  std::vector<Effect> effects;
  const auto is_end = [](const Effect& effect) {
    return effect.is_certain && effect.kind == Effect::Kind::kDropped;
  };
  for (const Socket::TableChain* const base : bases) {
    PacketWalk(*this, *base, packet, effects).Run();
    if (std::ranges::any_of(effects, is_end)) {
      break;
    }
  }
  return effects;
}

const std::vector<KernelRule>& Ruleset::RulesOf(const TableId& table, const std::string& chain) {
  const auto [of_table, is_new] = rules_.try_emplace(Text(table));
  if (is_new) {
    for (KernelRule& rule : socket_.Rules(table)) {
      of_table->second[rule.chain].push_back(std::move(rule));
    }
  }
  return of_table->second[chain];
}

const KnownSet& Ruleset::SetOf(const TableId& table, const std::string& name) {
  const auto [known, is_new] = sets_.try_emplace(Cat(Text(table), ' ', name));
  if (is_new) {
    for (Set& set : socket_.Sets(table)) {
      if (set.name == name) {
        known->second = {.description = std::move(set), .elements = socket_.Elements(table, name)};
      }
    }
  }
  return known->second;
}

}  // namespace nomad_bridge::nft
