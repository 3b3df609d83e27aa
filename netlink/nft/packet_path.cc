#include "netlink/nft/packet_path.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/file.h"
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
    if (way <= Way::kMayEnd && base_.chain.hook->drops) {
      Note(Effect::Kind::kDropped, base_.chain.name, 0, way == Way::kGoesOn);
    }
  }

 private:
  // Whether the packet comes to the end of a chain, or is accepted or dropped before. Some that are
  // dropped change nothing for the rest: if that is dropped, too, all are.
  enum class Way : std::uint8_t { kGoesOn, kMayEnd, kEnds, kDropped };

  struct Decision {
    Way way;      // of a packet that gets this verdict
    bool leaves;  // this chain, if it goes on
  };

  // How far packets of this description have come in one chain.
  struct Progress {
    bool is_reached;         // the rule that is next: by all of them that have not been dropped
    Way way = Way::kGoesOn;  // of those that have left it
    bool is_whole = true;    // none has left it for where it came from
  };

  // `is_reached`: by every packet of this description. The kernel has seen to it that no chain
  // leads back to itself.
  Way Through(const std::string& chain, bool is_reached) {
    path_.push_back(chain);
    const Way way = Along(chain, is_reached);
    path_.pop_back();
    return way;
  }

  Way Along(const std::string& chain, bool is_reached) {
    Progress progress{.is_reached = is_reached};
    for (const KernelRule& rule : ruleset_.RulesOf(base_.table, chain)) {
      const RuleResult result =
          Apply(rule, packet_, base_.table.family, [&](const std::string& set) {
            return &ruleset_.SetOf(base_.table, set);
          });
      if (result.match == Match::kNo) {
        continue;
      }
      if (const std::optional<Way> end = Advance(progress, result, chain, rule.handle)) {
        return *end;
      }
    }
    return progress.way;
  }

  // By one rule; how the chain ends, if that decides it.
  std::optional<Way> Advance(Progress& progress,
                             const RuleResult& result,
                             const std::string& chain,
                             std::uint64_t handle) {
    const bool is_for_all = result.match == Match::kYes && result.verdicts.size() < 2;
    const bool is_sure = progress.is_reached && is_for_all;
    TakeEffect(result, chain, handle, is_sure);
    for (const Verdict& verdict : result.verdicts) {
      const Decision decision = Decide(verdict, chain, handle, is_sure);
      if (is_for_all && (decision.leaves || decision.way >= Way::kEnds)) {
        return EndOf(progress, decision.way);
      }
      if (decision.way == Way::kDropped) {
        continue;
      }
      progress.is_whole = progress.is_whole && !decision.leaves;
      progress.is_reached = progress.is_reached && !decision.leaves && decision.way == Way::kGoesOn;
      progress.way = decision.way == Way::kGoesOn ? progress.way : Way::kMayEnd;
    }
    return std::nullopt;
  }

  // Of a chain in which the rest of the packets get to a rule that decides so for all of them.
  [[nodiscard]] static Way EndOf(const Progress& progress, Way decided) {
    if (decided == Way::kDropped && (progress.way == Way::kGoesOn || !progress.is_whole)) {
      return progress.is_whole ? Way::kDropped : progress.way;
    }
    const Way end = decided >= Way::kEnds ? Way::kEnds : std::max(progress.way, decided);
    return progress.is_whole ? end : std::min(end, Way::kMayEnd);
  }

  Decision Decide(const Verdict& verdict,
                  const std::string& chain,
                  std::uint64_t handle,
                  bool is_sure) {
    switch (verdict.code) {
      case Verdict::Code::kDrop:
        Note(Effect::Kind::kDropped, chain, handle, is_sure);
        return {.way = Way::kDropped, .leaves = true};
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
      effects_.back().port = result.port;
      effects_.back().source = result.source;
      effects_.back().zone = result.zone;
      effects_.back().hops = result.hops;
    }
    const auto set = [&](KnownBits& mark, const std::optional<KnownBits>& to) {
      mark = !to ? mark : is_sure ? *to : Shared(mark, *to);
    };
    set(packet_.mark, result.marks.packet);
    set(packet_.ct_mark, result.marks.connection);
  }

  void Note(Effect::Kind kind, const std::string& chain, std::uint64_t handle, bool is_sure) {
    effects_.push_back({.kind = kind,
                        .table = base_.table,
                        .base = base_.chain,
                        .chain = chain,
                        .path = path_,
                        .handle = handle,
                        .is_certain = is_sure});
  }

  Ruleset& ruleset_;
  const Socket::TableChain& base_;
  Packet& packet_;
  std::vector<Effect>& effects_;
  std::vector<std::string> path_;
};

// A line for each: its number, and whose it is. proc_pid_net(5)
std::vector<std::uint16_t> ReadQueues() {
  std::vector<std::uint16_t> queues;
  const std::string all = FindFile("/proc/self/net/netfilter/nfnetlink_queue").value_or("");
  for (const std::string& line : SplitFields(all, "\n")) {
    queues.push_back(static_cast<std::uint16_t>(std::strtoul(line.c_str(), nullptr, 10)));
  }
  return queues;
}

Ruleset::Ruleset(Socket& socket, std::vector<std::uint16_t> read_queues)
    : socket_(socket),
      read_queues_(std::move(read_queues)),
      tables_(socket.Tables()),
      chains_(socket.Chains()) {
  for (const KernelTable& table : tables_) {
    if (table.is_dormant) {
      std::erase_if(chains_, [&](const auto& each) { return each.table == table.id; });
    }
  }
}

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
  // Of one priority the kernel asks the younger first. It lists the older first.
  std::ranges::reverse(bases);
  std::ranges::stable_sort(
      bases, {}, [](const Socket::TableChain* each) { return each->chain.hook->priority; });
  packet.read_queues = read_queues_;
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

const KernelTable* Ruleset::Find(const TableId& table) const {
  const auto found = std::ranges::find(tables_, table, &KernelTable::id);
  return found == tables_.end() ? nullptr : &*found;
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
