#include "netlink/nft/rule_run.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/xt_NFQUEUE.h>
#include <netinet/in.h>

#include "base/list.h"
#include "netlink/core/handles.h"
#include "netlink/nft/packet_fields.h"
#include "netlink/nft/registers.h"
#include "netlink/nft/rewrites.h"

namespace nomad_bridge::nft {
namespace {

bool IsOneOf(std::string_view name, const auto&... names) {
  return ((name == names) || ...);
}

// The expressions of one rule, from left to right.
class RuleRun {
 public:
  RuleRun(const Packet& packet, TableFamily family, const FindSet& find_set)
      : packet_(packet), family_(family), find_set_(find_set) {}

  RuleResult Run(const KernelRule& rule) {
    for (const Expression& step : rule.steps) {
      Take(step);
      if (result_.match == Match::kNo) {
        break;
      }
    }
    return std::move(result_);
  }

 private:
  void Take(const Expression& step) {
    struct Kind {
      std::string_view name;
      void (RuleRun::*take)(const Expression&);
    };
    static constexpr std::array kKinds = {Kind{"meta", &RuleRun::TakeMeta},
                                          Kind{"payload", &RuleRun::TakePayload},
                                          Kind{"ct", &RuleRun::TakeConntrack},
                                          Kind{"fib", &RuleRun::TakeFib},
                                          Kind{"cmp", &RuleRun::TakeCompare},
                                          Kind{"range", &RuleRun::TakeRange},
                                          Kind{"bitwise", &RuleRun::TakeBitwise},
                                          Kind{"byteorder", &RuleRun::TakeByteorder},
                                          Kind{"lookup", &RuleRun::TakeLookup},
                                          Kind{"immediate", &RuleRun::TakeImmediate},
                                          Kind{"nat", &RuleRun::TakeNat},
                                          Kind{"redir", &RuleRun::TakeRedir},
                                          Kind{"tproxy", &RuleRun::TakeRedirect},
                                          Kind{"fwd", &RuleRun::TakeRedirect},
                                          Kind{"masq", &RuleRun::TakeMasquerade},
                                          Kind{"reject", &RuleRun::TakeReject},
                                          Kind{"notrack", &RuleRun::TakeNotrack},
                                          Kind{"queue", &RuleRun::TakeQueue},
                                          Kind{"match", &RuleRun::TakeMatch},
                                          Kind{"target", &RuleRun::TakeTarget},
                                          Kind{"counter", nullptr},
                                          Kind{"log", nullptr},
                                          Kind{"dup", nullptr},
                                          Kind{"flow_offload", nullptr}};
    const auto* const kind = std::ranges::find(kKinds, step.kind, &Kind::name);
    if (kind == kKinds.end()) {
      Narrow(Match::kMaybe);
    } else if (kind->take != nullptr) {
      (this->*kind->take)(step);
    }
  }

  void Narrow(Match match) { result_.match = std::min(result_.match, match); }

  void Load(const Expression& step, std::uint16_t into) {
    if (!HasField(packet_, step)) {
      return Narrow(Match::kNo);
    }
    registers_.Store(NumberOf(step, into), FieldOf(packet_, family_, step));
  }

  [[nodiscard]] KnownBits BitsOf(std::uint32_t source) const {
    return BitsIn(registers_.At(source, sizeof KnownBits::value));
  }

  void TakeMeta(const Expression& step) {
    if (Has(step, NFTNL_EXPR_META_DREG)) {
      return Load(step, NFTNL_EXPR_META_DREG);
    }
    if (NumberOf(step, NFTNL_EXPR_META_KEY) == NFT_META_MARK) {
      result_.marks.packet = BitsOf(NumberOf(step, NFTNL_EXPR_META_SREG));
    }
  }

  void TakePayload(const Expression& step) {
    if (Has(step, NFTNL_EXPR_PAYLOAD_DREG)) {
      return Load(step, NFTNL_EXPR_PAYLOAD_DREG);
    }
    const std::size_t size = NumberOf(step, NFTNL_EXPR_PAYLOAD_LEN);
    const auto written = registers_.At(NumberOf(step, NFTNL_EXPR_PAYLOAD_SREG), size);
    if (const auto at = FindHops(packet_, step)) {
      const PartialByte& hops = written[*at];
      SetHops(hops.known == 0xff ? std::optional(hops.value) : std::nullopt);
    }
  }
  void SetHops(std::optional<std::uint8_t> hops) {
    result_.effect = Effect::Kind::kHops;
    result_.hops = hops;
  }

  void TakeConntrack(const Expression& step) {
    if (Has(step, NFTNL_EXPR_CT_DREG)) {
      Load(step, NFTNL_EXPR_CT_DREG);
    } else if (NumberOf(step, NFTNL_EXPR_CT_KEY) == NFT_CT_MARK) {
      result_.marks.connection = BitsOf(NumberOf(step, NFTNL_EXPR_CT_SREG));
    } else if (NumberOf(step, NFTNL_EXPR_CT_KEY) == NFT_CT_ZONE) {
      SetZone(AnswersZone(step, registers_.At(NumberOf(step, NFTNL_EXPR_CT_SREG), 2)));
    }
  }
  void SetZone(std::optional<std::uint16_t> zone) {
    result_.effect = Effect::Kind::kZoned;
    result_.zone = zone;
  }

  void TakeFib(const Expression& step) { Load(step, NFTNL_EXPR_FIB_DREG); }

  void TakeCompare(const Expression& step) {
    const Bytes bytes = BytesOf(step, NFTNL_EXPR_CMP_DATA);
    const auto field = registers_.At(NumberOf(step, NFTNL_EXPR_CMP_SREG), bytes.size());
    const std::uint32_t op = NumberOf(step, NFTNL_EXPR_CMP_OP);
    if (op == NFT_CMP_EQ || op == NFT_CMP_NEQ) {
      const Match match = Compare(field, bytes);
      return Narrow(op == NFT_CMP_EQ ? match : Not(match));
    }
    if (!IsKnown(field)) {
      return Narrow(Match::kMaybe);
    }
    const int order = Order(field, bytes);
    const bool is_met = op == NFT_CMP_LT    ? order < 0
                        : op == NFT_CMP_LTE ? order <= 0
                        : op == NFT_CMP_GT  ? order > 0
                                            : order >= 0;
    Narrow(is_met ? Match::kYes : Match::kNo);
  }

  void TakeRange(const Expression& step) {
    const Bytes from = BytesOf(step, NFTNL_EXPR_RANGE_FROM_DATA);
    const auto field = registers_.At(NumberOf(step, NFTNL_EXPR_RANGE_SREG), from.size());
    if (!IsKnown(field)) {
      return Narrow(Match::kMaybe);
    }
    const bool is_within =
        Order(field, from) >= 0 && Order(field, BytesOf(step, NFTNL_EXPR_RANGE_TO_DATA)) <= 0;
    const bool is_wanted = NumberOf(step, NFTNL_EXPR_RANGE_OP) == NFT_RANGE_EQ;
    Narrow(is_within == is_wanted ? Match::kYes : Match::kNo);
  }

  void TakeBitwise(const Expression& step) {
    const Bytes mask = BytesOf(step, NFTNL_EXPR_BITWISE_MASK);
    const Bytes flip = BytesOf(step, NFTNL_EXPR_BITWISE_XOR);
    const std::size_t size = NumberOf(step, NFTNL_EXPR_BITWISE_LEN);
    const auto field = registers_.At(NumberOf(step, NFTNL_EXPR_BITWISE_SREG), size);
    PartialBytes changed = Unknown(size);
    if (mask.size() == size && flip.size() == size && field.size() == size) {  // else it is a shift
      for (std::size_t i = 0; i < size; ++i) {
        const int known = field[i].known | ~mask[i];
        const int value = ((field[i].value & mask[i]) ^ flip[i]) & known;
        changed[i] = {.value = static_cast<std::uint8_t>(value & 0xff),
                      .known = static_cast<std::uint8_t>(known & 0xff)};
      }
    }
    registers_.Store(NumberOf(step, NFTNL_EXPR_BITWISE_DREG), changed);
  }

  void TakeByteorder(const Expression& step) {
    constexpr std::size_t kWidest = 16;
    registers_.Store(NumberOf(step, NFTNL_EXPR_BYTEORDER_DREG), Unknown(kWidest));
  }

  // The element that `field` is in, and whether; nullptr if that is not known, or in none.
  struct Found {
    Match match;
    const Element* element = nullptr;
  };

  [[nodiscard]] static Found FindInterval(std::span<const PartialByte> field,
                                          const std::vector<Element>& elements) {
    if (!IsKnown(field)) {
      return {.match = elements.empty() ? Match::kNo : Match::kMaybe};
    }
    const Element* nearest = nullptr;
    for (const Element& element : elements) {
      const bool is_nearer = nearest == nullptr || element.key > nearest->key ||
                             (element.key == nearest->key && nearest->ends_interval);
      if (Order(field, element.key) >= 0 && is_nearer) {
        nearest = &element;
      }
    }
    const bool is_in = nearest != nullptr && !nearest->ends_interval;
    return {.match = is_in ? Match::kYes : Match::kNo, .element = is_in ? nearest : nullptr};
  }

  [[nodiscard]] Found FindIn(std::uint32_t source, const KnownSet& set) const {
    const auto& [description, elements] = set;
    if (elements.empty()) {
      return {.match = Match::kNo};
    }
    const auto field = registers_.At(source, elements.front().key.size());
    if ((description.flags & kInterval) != 0) {
      return description.key.size() > 1 ? Found{.match = Match::kMaybe}
                                        : FindInterval(field, elements);
    }
    Found found = {.match = Match::kNo};
    for (const Element& element : elements) {
      const Match match = Compare(field, element.key);
      if (match == Match::kYes) {
        return {.match = match, .element = &element};
      }
      found.match = std::max(found.match, match);
    }
    return found;
  }

  void TakeLookup(const Expression& step) {
    const KnownSet& set = *find_set_(TextOf(step, NFTNL_EXPR_LOOKUP_SET));
    const Found found = FindIn(NumberOf(step, NFTNL_EXPR_LOOKUP_SREG), set);
    const bool is_inverted = (NumberOf(step, NFTNL_EXPR_LOOKUP_FLAGS) & NFT_LOOKUP_F_INV) != 0;
    Narrow(is_inverted ? Not(found.match) : found.match);
    if (result_.match == Match::kNo || !Has(step, NFTNL_EXPR_LOOKUP_DREG)) {
      return;
    }
    const std::uint32_t into = NumberOf(step, NFTNL_EXPR_LOOKUP_DREG);
    if (into != NFT_REG_VERDICT) {
      constexpr std::size_t kWidest = 16;
      return registers_.Store(
          into, found.element == nullptr ? Unknown(kWidest) : Known(found.element->data));
    }
    for (const Element& element : set.elements) {
      const bool may_be = found.element == nullptr || found.element == &element;
      if (may_be && element.verdict && !Contains(result_.verdicts, *element.verdict)) {
        result_.verdicts.push_back(*element.verdict);
      }
    }
  }

  void TakeImmediate(const Expression& step) {
    if (!Has(step, NFTNL_EXPR_IMM_VERDICT)) {
      return registers_.Store(NumberOf(step, NFTNL_EXPR_IMM_DREG),
                              Known(BytesOf(step, NFTNL_EXPR_IMM_DATA)));
    }
    const auto code = static_cast<Verdict::Code>(
        static_cast<std::int32_t>(NumberOf(step, NFTNL_EXPR_IMM_VERDICT)));
    result_.verdicts = {{.code = code, .chain = TextOf(step, NFTNL_EXPR_IMM_CHAIN)}};
  }

  void End(Verdict::Code code, std::optional<Effect::Kind> effect = std::nullopt) {
    result_.verdicts = {{.code = code, .chain = {}}};
    result_.effect = effect;
  }
  void TakeRedirect(const Expression& /*step*/) {
    End(Verdict::Code::kAccept, Effect::Kind::kTranslated);
  }
  // To the port that it came for, unless another one is named.
  void TakeRedir(const Expression& step) {
    TakeRedirect(step);
    result_.port = packet_.destination_port;
    if (Has(step, NFTNL_EXPR_REDIR_REG_PROTO_MIN)) {
      const auto port = registers_.At(NumberOf(step, NFTNL_EXPR_REDIR_REG_PROTO_MIN), 2);
      result_.port =
          IsKnown(port) ? std::optional(PortIn(port[0].value, port[1].value)) : std::nullopt;
    }
  }
  void TakeMasquerade(const Expression& /*step*/) { End(Verdict::Code::kAccept); }
  void TakeReject(const Expression& /*step*/) { End(Verdict::Code::kDrop); }
  void TakeNotrack(const Expression& /*step*/) { result_.effect = Effect::Kind::kUntracked; }
  void TakeNat(const Expression& step) {
    if (NumberOf(step, NFTNL_EXPR_NAT_TYPE) == NFT_NAT_DNAT) {
      TakeRedirect(step);
    } else {
      TakeSource(step);
    }
  }
  // To one address: of several the kernel chooses one that is not known.
  void TakeSource(const Expression& step) {
    TakeMasquerade(step);
    const std::size_t size = packet_.family == Family::kIpv4 ? 4 : 16;
    const bool has_one =
        Has(step, NFTNL_EXPR_NAT_REG_ADDR_MIN) && (!Has(step, NFTNL_EXPR_NAT_REG_ADDR_MAX) ||
                                                   NumberOf(step, NFTNL_EXPR_NAT_REG_ADDR_MAX) ==
                                                       NumberOf(step, NFTNL_EXPR_NAT_REG_ADDR_MIN));
    const auto address =
        registers_.At(has_one ? NumberOf(step, NFTNL_EXPR_NAT_REG_ADDR_MIN) : 0U, size);
    if (has_one && IsKnown(address)) {
      Bytes bytes;
      for (const PartialByte& byte : address) {
        bytes.push_back(byte.value);
      }
      SetSource(Ip(bytes));
    }
  }
  void SetSource(const std::optional<Ip>& address) {
    if (address) {
      result_.effect = Effect::Kind::kSourced;
      result_.source = address;
    }
  }
  // A program accepts or drops it, which ends the chain; without one the kernel does.
  void EndInQueue(std::uint32_t first, std::uint32_t count, bool is_bypassed) {
    const bool may_be_read =
        !packet_.read_queues || std::ranges::any_of(*packet_.read_queues, [&](std::uint16_t each) {
          return each >= first && each < first + count;
        });
    End(!may_be_read && is_bypassed ? Verdict::Code::kAccept : Verdict::Code::kDrop);
    if (may_be_read) {
      result_.verdicts.push_back({.code = Verdict::Code::kAccept, .chain = {}});
    }
  }
  void TakeQueue(const Expression& step) {
    const bool is_any = Has(step, NFTNL_EXPR_QUEUE_SREG_QNUM);  // by its register
    constexpr std::uint32_t kAll = 1U << 16U;
    EndInQueue(is_any ? 0 : NumberOf(step, NFTNL_EXPR_QUEUE_NUM),
               is_any ? kAll : std::max(NumberOf(step, NFTNL_EXPR_QUEUE_TOTAL), 1U),
               (NumberOf(step, NFTNL_EXPR_QUEUE_FLAGS) & NFT_QUEUE_FLAG_BYPASS) != 0);
  }
  // Of each revision's struct the beginning of the third one's.
  void TakeQueueOfTarget(const Expression& step) {
    const auto info = InfoOf<xt_NFQ_info_v3>(step, NFTNL_EXPR_TG_INFO);
    const std::uint32_t revision = NumberOf(step, NFTNL_EXPR_TG_REV);
    EndInQueue(info.queuenum,
               revision == 0 ? 1U : info.queues_total,
               revision >= 2 && (info.flags & NFQ_FLAG_BYPASS) != 0);
  }
  void TakeMatch(const Expression& step) {
    const std::optional<Match> by_mark = MatchMark(packet_, step);
    Narrow(by_mark ? *by_mark : MatchExtension(packet_, step));
  }

  void TakeTarget(const Expression& step) {
    const std::string name = TextOf(step, NFTNL_EXPR_TG_NAME);
    if (name == "REJECT") {
      TakeReject(step);
    } else if (IsOneOf(name, "DNAT", "REDIRECT", "NETMAP", "TPROXY")) {
      TakeRedirect(step);
      result_.port = name == "REDIRECT" ? PortOfRedirect(packet_, step) : std::nullopt;
    } else if (IsOneOf(name, "SNAT", "MASQUERADE")) {
      TakeMasquerade(step);
      SetSource(name == "SNAT" ? SourceOfSnat(packet_, step) : std::nullopt);
    } else if (name == "NFQUEUE") {
      TakeQueueOfTarget(step);
    } else if (IsOneOf(name, "MARK", "CONNMARK")) {
      result_.marks = MarksOfTarget(packet_, name, step);
    } else if (IsNotrack(step)) {
      TakeNotrack(step);
    } else if (IsOneOf(name, "TTL", "HL")) {
      SetHops(HopsOfTarget(step));
    } else if (name == "CT") {
      SetZone(AnswersZoneOfTarget(step));
    }
  }

  const Packet& packet_;
  TableFamily family_;
  const FindSet& find_set_;
  RuleResult result_;
  Registers registers_;
};

}  // namespace

RuleResult Apply(const KernelRule& rule,
                 const Packet& packet,
                 TableFamily family,
                 const FindSet& find_set) {
  return RuleRun(packet, family, find_set).Run(rule);
}

}  // namespace nomad_bridge::nft
