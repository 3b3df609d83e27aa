#include "netlink/nft/rule_run.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>

#include <arpa/inet.h>  // before the kernel's own in.h, which gives way to it
#include <linux/if.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>

#include "base/list.h"
#include "netlink/nft/codec.h"

namespace nomad_bridge::nft {
namespace {

constexpr std::uint32_t kAllBits = 0xffffffff;

// The content of some registers, in words of 4 bytes.
using Words = std::vector<KnownBits>;
using WordsView = std::span<const KnownBits>;

// The bits after the last byte, in the last word, are unknown.
Words WordsOf(std::span<const std::uint8_t> bytes) {
  Words words;
  for (std::size_t size = 0; !bytes.empty(); bytes = bytes.subspan(size)) {
    KnownBits& word = words.emplace_back();
    size = std::min(bytes.size(), sizeof word.value);
    std::memcpy(&word.value, bytes.data(), size);
    std::memcpy(&word.known, &kAllBits, size);
  }
  return words;
}

Words WordsOfByte(std::uint8_t byte) {
  return WordsOf(Bytes{byte, 0, 0, 0});
}

// Returns no words if `name` is empty, which means unknown.
Words WordsOfName(const std::string& name) {
  Bytes bytes(name.begin(), name.end());
  bytes.resize(name.empty() ? 0 : IFNAMSIZ);
  return WordsOf(bytes);
}

// Returns whether `field` begins with `bytes`.
Match Compare(WordsView field, std::span<const std::uint8_t> bytes) {
  const Words words = WordsOf(bytes);
  Match match = Match::kYes;
  for (std::size_t i = 0; i < std::min(field.size(), words.size()); ++i) {
    if (((field[i].value ^ words[i].value) & field[i].known & words[i].known) != 0) {
      return Match::kNo;
    }
    match = (words[i].known & ~field[i].known) == 0 ? match : Match::kMaybe;
  }
  return match;
}

Match Not(Match match) {
  return match == Match::kYes ? Match::kNo : match == Match::kNo ? Match::kYes : match;
}

Match Highest(const std::vector<Match>& matches) {
  return matches.empty() ? Match::kNo : std::ranges::max(matches);
}

// Returns the first element of the interval that contains `field`; nullptr if no interval does. All
// bits of `field` must be known.
const Element* FindInterval(WordsView field, const std::vector<Element>& elements) {
  Bytes key(field.size() * sizeof kAllBits);
  for (std::size_t i = 0; i < field.size(); ++i) {
    std::memcpy(&key[i * sizeof kAllBits], &field[i].value, sizeof kAllBits);
  }
  const Element* nearest = nullptr;
  for (const Element& element : elements) {
    const bool is_nearer = nearest == nullptr || element.key > nearest->key ||
                           (element.key == nearest->key && nearest->ends_interval);
    nearest = element.key <= key && is_nearer ? &element : nearest;
  }
  return nearest == nullptr || nearest->ends_interval ? nullptr : nearest;
}

Match MatchInterval(WordsView field, const KnownSet& set, const Element& element) {
  const auto is_known = [](const KnownBits& word) { return word.known == kAllBits; };
  if (set.description.key.size() > 1 || !std::ranges::all_of(field, is_known)) {
    return Match::kMaybe;
  }
  return FindInterval(field, set.elements) == &element ? Match::kYes : Match::kNo;
}

// Returns, for each element of `set`, whether `field` matches it.
std::vector<Match> MatchElements(WordsView field, const KnownSet& set) {
  const bool has_intervals = (set.description.flags & kInterval) != 0;
  std::vector<Match> matches;
  for (const Element& element : set.elements) {
    // The element without a key (nft's "*"), which the kernel lists last, matches if no other
    // element does.
    matches.push_back(element.key.empty() ? Not(Highest(matches))
                      : has_intervals     ? MatchInterval(field, set, element)
                                          : Compare(field, element.key));
  }
  return matches;
}

std::uint32_t NumberOf(const nftnl_expr& step, std::uint16_t attribute) {
  return nftnl_expr_get_u32(&step, attribute);
}

std::string TextOf(const nftnl_expr& step, std::uint16_t attribute) {
  const char* const text = nftnl_expr_get_str(&step, attribute);
  return text == nullptr ? "" : text;
}

// Runs the expressions of one rule, from left to right.
class RuleRun {
 public:
  RuleRun(Packet& packet, bool is_reached, const FindSet& find_set)
      : packet_(packet), is_reached_(is_reached), find_set_(find_set) {}

  RuleResult Run(const KernelRule& rule) {
    if (rule.parsed == nullptr) {
      DoAnything();
    } else {
      for (const nftnl_expr* const step : ExpressionsOf(*rule.parsed)) {
        Take(*step);
        if (result_.match == Match::kNo) {
          break;
        }
      }
    }
    return std::move(result_);
  }

 private:
  void Take(const nftnl_expr& step) {
    struct Kind {
      std::string_view name;
      void (RuleRun::*take)(const nftnl_expr&);
    };
    static constexpr std::array kKinds = {Kind{"meta", &RuleRun::TakeMeta},
                                          Kind{"ct", &RuleRun::TakeConntrack},
                                          Kind{"payload", &RuleRun::TakePayload},
                                          Kind{"cmp", &RuleRun::TakeCompare},
                                          Kind{"bitwise", &RuleRun::TakeBitwise},
                                          Kind{"lookup", &RuleRun::TakeLookup},
                                          Kind{"immediate", &RuleRun::TakeImmediate},
                                          Kind{"reject", &RuleRun::TakeReject},
                                          Kind{"queue", &RuleRun::TakeProgram},
                                          Kind{"target", &RuleRun::TakeProgram}};
    const std::string name = TextOf(step, NFTNL_EXPR_NAME);
    const auto* const kind = std::ranges::find(kKinds, std::string_view(name), &Kind::name);
    if (kind != kKinds.end()) {
      (this->*kind->take)(step);
    } else if (name != "counter" && name != "log") {
      Load(NFT_REG_1, {});  // it may have loaded something
      Narrow(Match::kMaybe);
    }
  }

  void Narrow(Match match) { result_.match = std::min(result_.match, match); }

  // NFT_REG_1 and following are registers of 16 bytes. They share their bytes with NFT_REG32_00 and
  // following, which have 4 bytes each.
  [[nodiscard]] static std::size_t IndexOf(std::uint32_t number) {
    constexpr std::size_t kWide = 4;
    return number >= NFT_REG32_00 ? number - NFT_REG32_00
                                  : (number - std::uint32_t{NFT_REG_1}) * kWide;
  }
  [[nodiscard]] WordsView Field(std::uint32_t number, std::size_t bytes) const {
    const std::size_t words = (bytes + sizeof kAllBits - 1) / sizeof kAllBits;
    const std::size_t at = std::min(IndexOf(number), registers_.size());
    return WordsView(registers_).subspan(at, std::min(words, registers_.size() - at));
  }
  // Makes the registers after the last word unknown.
  void Load(std::uint32_t number, const Words& words) {
    std::size_t i = 0;
    for (std::size_t at = IndexOf(number); at < registers_.size(); ++at, ++i) {
      registers_.at(at) = i < words.size() ? words[i] : KnownBits();
    }
  }

  [[nodiscard]] Words Meta(std::uint32_t key) const {
    switch (key) {
      case NFT_META_NFPROTO:
        return WordsOfByte(packet_.family == Family::kIpv4 ? NFPROTO_IPV4 : NFPROTO_IPV6);
      case NFT_META_L4PROTO:
        return WordsOfByte(packet_.protocol);
      case NFT_META_MARK:
        return {packet_.mark};
      case NFT_META_IIFNAME:
        return WordsOfName(packet_.iifname);
      case NFT_META_OIFNAME:
        return WordsOfName(packet_.oifname);
      default:
        return {};
    }
  }

  void TakeMeta(const nftnl_expr& step) {
    const std::uint32_t key = NumberOf(step, NFTNL_EXPR_META_KEY);
    if (nftnl_expr_is_set(&step, NFTNL_EXPR_META_DREG)) {
      Load(NumberOf(step, NFTNL_EXPR_META_DREG), Meta(key));
    } else if (key == NFT_META_MARK) {
      SetMark(Field(NumberOf(step, NFTNL_EXPR_META_SREG), sizeof kAllBits).front());
    }
  }

  void SetMark(KnownBits mark) {
    if (!is_reached_ || result_.match != Match::kYes) {
      mark.known &= packet_.mark.known & ~(mark.value ^ packet_.mark.value);
      mark.value &= mark.known;
    }
    packet_.mark = mark;
  }

  void TakeConntrack(const nftnl_expr& step) {
    if (nftnl_expr_is_set(&step, NFTNL_EXPR_CT_DREG)) {
      const bool is_state = NumberOf(step, NFTNL_EXPR_CT_KEY) == NFT_CT_STATE;
      Load(NumberOf(step, NFTNL_EXPR_CT_DREG),
           is_state ? Words{{.value = packet_.ct_state, .known = kAllBits}} : Words());
    }
  }

  // The only header field that we know is the protocol in the IP header.
  void TakePayload(const nftnl_expr& step) {
    if (nftnl_expr_is_set(&step, NFTNL_EXPR_PAYLOAD_DREG)) {
      const std::uint32_t protocol_at = packet_.family == Family::kIpv4 ? 9 : 6;
      const bool is_protocol =
          NumberOf(step, NFTNL_EXPR_PAYLOAD_BASE) == NFT_PAYLOAD_NETWORK_HEADER &&
          NumberOf(step, NFTNL_EXPR_PAYLOAD_OFFSET) == protocol_at &&
          NumberOf(step, NFTNL_EXPR_PAYLOAD_LEN) == 1;
      Load(NumberOf(step, NFTNL_EXPR_PAYLOAD_DREG),
           is_protocol ? WordsOfByte(packet_.protocol) : Words());
    }
  }

  void TakeCompare(const nftnl_expr& step) {
    const auto bytes = BytesOf<nftnl_expr_get>(step, NFTNL_EXPR_CMP_DATA);
    const std::uint32_t op = NumberOf(step, NFTNL_EXPR_CMP_OP);
    const Match match = Compare(Field(NumberOf(step, NFTNL_EXPR_CMP_SREG), bytes.size()), bytes);
    Narrow(op == NFT_CMP_EQ ? match : op == NFT_CMP_NEQ ? Not(match) : Match::kMaybe);
  }

  // A shift has no mask. Its result is unknown.
  void TakeBitwise(const nftnl_expr& step) {
    const auto bytes = BytesOf<nftnl_expr_get>(step, NFTNL_EXPR_BITWISE_MASK);
    const Words mask = WordsOf(bytes);
    const Words flip = WordsOf(BytesOf<nftnl_expr_get>(step, NFTNL_EXPR_BITWISE_XOR));
    const WordsView field = Field(NumberOf(step, NFTNL_EXPR_BITWISE_SREG), bytes.size());
    Words changed;
    for (std::size_t i = 0; i < std::min(field.size(), flip.size()); ++i) {
      const std::uint32_t known = field[i].known | ~mask[i].value;
      changed.push_back(
          {.value = ((field[i].value & mask[i].value) ^ flip[i].value) & known, .known = known});
    }
    Load(NumberOf(step, NFTNL_EXPR_BITWISE_DREG), changed);
  }

  void TakeLookup(const nftnl_expr& step) {
    const KnownSet& set = *find_set_(TextOf(step, NFTNL_EXPR_LOOKUP_SET));
    const std::size_t key_bytes = set.elements.empty() ? 0 : set.elements.front().key.size();
    const std::vector<Match> matches =
        MatchElements(Field(NumberOf(step, NFTNL_EXPR_LOOKUP_SREG), key_bytes), set);
    const Match match = Highest(matches);
    const bool is_inverted = (NumberOf(step, NFTNL_EXPR_LOOKUP_FLAGS) & NFT_LOOKUP_F_INV) != 0;
    Narrow(is_inverted ? Not(match) : match);
    if (!nftnl_expr_is_set(&step, NFTNL_EXPR_LOOKUP_DREG)) {
      return;  // looks up a set, not a map
    }
    const std::uint32_t into = NumberOf(step, NFTNL_EXPR_LOOKUP_DREG);
    if (into != NFT_REG_VERDICT) {
      return Load(into, {});
    }
    for (std::size_t i = 0; i < matches.size(); ++i) {
      const std::optional<Verdict>& verdict = set.elements[i].verdict;
      if (matches[i] == match && verdict && !Contains(result_.verdicts, *verdict)) {
        result_.verdicts.push_back(*verdict);
      }
    }
  }

  void TakeImmediate(const nftnl_expr& step) {
    if (nftnl_expr_is_set(&step, NFTNL_EXPR_IMM_VERDICT)) {
      const auto code = static_cast<std::int32_t>(NumberOf(step, NFTNL_EXPR_IMM_VERDICT));
      result_.verdicts = {
          {.code = static_cast<Verdict::Code>(code), .chain = TextOf(step, NFTNL_EXPR_IMM_CHAIN)}};
    } else {
      Load(NumberOf(step, NFTNL_EXPR_IMM_DREG),
           WordsOf(BytesOf<nftnl_expr_get>(step, NFTNL_EXPR_IMM_DATA)));
    }
  }

  void TakeReject(const nftnl_expr& /*step*/) {
    result_.verdicts = {{.code = Verdict::Code::kDrop, .chain = {}}};
  }

  // The program that reads the queue decides, or the extension (target) of iptables.
  void TakeProgram(const nftnl_expr& /*step*/) { DoAnything(); }
  // The rule may accept or drop the packet, or let it go on, and may set the mark.
  void DoAnything() {
    SetMark({});
    Narrow(Match::kMaybe);
    result_.verdicts = {{.code = Verdict::Code::kAccept, .chain = {}}};
  }

  Packet& packet_;
  bool is_reached_;
  const FindSet& find_set_;
  RuleResult result_;
  std::array<KnownBits, 16> registers_{};
};

}  // namespace

RuleResult Apply(const KernelRule& rule, Packet& packet, bool is_reached, const FindSet& find_set) {
  return RuleRun(packet, is_reached, find_set).Run(rule);
}

}  // namespace nomad_bridge::nft
