#include "netlink/nft/packet_path.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "netlink/nft/rule_run.h"

namespace nomad_bridge::nft {

// Follows one packet through a base chain and the chains that it leads to.
class PacketWalk {
 public:
  PacketWalk(Ruleset& ruleset, const Socket::TableChain& base, Packet& packet)
      : ruleset_(ruleset), base_(base), packet_(packet) {}

  std::optional<Drop> FindDrop() {
    const Fates fates = Through(base_.chain.name, true);
    if (fates.accepted || (fates.goes_on && !base_.chain.hook->drops)) {
      return std::nullopt;
    }
    return Drop{.table = base_.table, .base = base_.chain, .is_policy = fates.goes_on};
  }

 private:
  // What may happen to packets of this description. Packets to which none of these happens are
  // dropped.
  struct Fates {
    bool accepted = false;
    bool returned = false;  // to the chain that jumped here
    bool goes_on = false;   // to the next rule, or past the end of the chain

    void Add(const Fates& more) {
      accepted |= more.accepted;
      returned |= more.returned;
      goes_on |= more.goes_on;
    }
  };

  // `is_reached` is true if every packet that no rule has dropped reaches the chain. The recursion
  // ends: the kernel refuses chains that lead back to themselves.
  Fates Through(const std::string& chain, bool is_reached) {
    Fates all = {.goes_on = true};
    for (const KernelRule& rule : ruleset_.RulesOf(base_.table, chain)) {
      is_reached = is_reached && !all.accepted && !all.returned;
      const RuleResult result = Apply(rule, packet_, is_reached, [&](const std::string& set) {
        return &ruleset_.SetOf(base_.table, set);
      });
      if (result.match == Match::kNo) {
        continue;
      }
      const bool is_for_all = result.match == Match::kYes;
      all.goes_on = !is_for_all || result.verdicts.empty();
      for (const Verdict& verdict : result.verdicts) {
        all.Add(FatesOf(verdict, is_reached && is_for_all));
      }
      if (!all.goes_on) {
        break;
      }
    }
    return {.accepted = all.accepted, .goes_on = all.goes_on || all.returned};
  }

  Fates FatesOf(const Verdict& verdict, bool is_reached) {
    switch (verdict.code) {
      case Verdict::Code::kDrop:
        return {};
      case Verdict::Code::kAccept:
        return {.accepted = true};
      case Verdict::Code::kReturn:
        return {.returned = true};
      case Verdict::Code::kJump:
        return Through(verdict.chain, is_reached);
      case Verdict::Code::kGoto: {
        const Fates fates = Through(verdict.chain, is_reached);
        return {.accepted = fates.accepted, .returned = fates.goes_on};
      }
      default:
        break;
    }
    return {.goes_on = true};  // NFT_CONTINUE, of a map
  }

  Ruleset& ruleset_;
  const Socket::TableChain& base_;
  Packet& packet_;
};

Ruleset::Ruleset(Socket& socket) : socket_(socket), chains_(socket.Chains()) {
  for (const KernelTable& table : socket.Tables()) {
    if (table.is_dormant) {
      std::erase_if(chains_, [&](const auto& each) { return each.table == table.id; });
    }
  }
}

std::optional<Drop> Ruleset::FindDrop(Packet packet, const Concerns& concerns) {
  const TableFamily own = packet.family == Family::kIpv4 ? TableFamily::kIp : TableFamily::kIp6;
  std::vector<const Socket::TableChain*> bases;
  for (const Socket::TableChain& each : chains_) {
    const bool is_of_family = each.table.family == own || each.table.family == TableFamily::kInet;
    if (each.chain.hook && is_of_family && concerns(each)) {
      bases.push_back(&each);
    }
  }
  // Of two chains with the same priority, the kernel calls the younger chain first, but lists the
  // older chain first.
  std::ranges::reverse(bases);
  std::ranges::stable_sort(
      bases, {}, [](const Socket::TableChain* each) { return each->chain.hook->priority; });
  for (const Socket::TableChain* const base : bases) {
    if (std::optional<Drop> drop = PacketWalk(*this, *base, packet).FindDrop()) {
      return drop;
    }
  }
  return std::nullopt;
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
