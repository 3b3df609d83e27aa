#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string_view>

#include <arpa/inet.h>  // before the kernel's own in.h, which gives way to it
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>

#include "base/text.h"
#include "netlink/core/handles.h"
#include "netlink/nft/codec.h"

namespace nomad_bridge::nft {
namespace {

// `text` is libnftnl's answer: nullptr for an absent attribute.
std::string TextOf(const char* text) {
  return text == nullptr ? "" : text;
}

std::string UpToZero(std::span<const std::uint8_t> bytes) {
  const std::string_view text(static_cast<const char*>(static_cast<const void*>(bytes.data())),
                              bytes.size());
  return std::string(text.substr(0, text.find('\0')));
}

std::vector<Type> Fields(std::uint32_t number) {
  if (number == NFT_DATA_VERDICT) {
    return {Type::kVerdict};
  }
  std::vector<Type> fields;
  for (; number != 0; number >>= kTypeBits) {
    fields.push_back(static_cast<Type>(number & ((1U << kTypeBits) - 1)));
  }
  std::reverse(fields.begin(), fields.end());
  return fields;
}

// Returns the comment in a user data area; rules, elements and counters all use type 0 for it. We
// do not use nftnl_udata_parse(): it trusts the lengths in the area, but other programs' rules may
// contain any bytes.
std::string CommentOf(std::span<const std::uint8_t> data) {
  constexpr std::size_t kHeaderBytes = 2;
  while (data.size() > kHeaderBytes) {
    const std::size_t length = std::min<std::size_t>(data[1], data.size() - kHeaderBytes);
    if (data[0] == NFTNL_UDATA_SET_ELEM_COMMENT) {
      return UpToZero(data.subspan(kHeaderBytes, length));
    }
    data = data.subspan(kHeaderBytes + length);
  }
  return {};
}

// Returns the bytes of an xt match or target as text. libnftnl prints only its name, but the texts
// of two matches with different bytes must differ.
std::string ExtensionBytes(const nftnl_expr& expression, std::string_view kind) {
  if (kind != "match" && kind != "target") {
    return {};
  }
  const int attribute = kind == "match" ? int{NFTNL_EXPR_MT_INFO} : int{NFTNL_EXPR_TG_INFO};
  std::string text = "info ";
  for (const std::uint8_t byte : BytesOf<nftnl_expr_get>(expression, attribute)) {
    text += Hex(byte, 2);
  }
  return text;
}

std::string_view NameOf(const nftnl_expr& expression) {
  const char* const kind = nftnl_expr_get_str(&expression, NFTNL_EXPR_NAME);
  return kind == nullptr ? std::string_view() : kind;
}

std::string TextOf(const nftnl_expr& expression) {
  std::array<char, 1024> buffer{};
  nftnl_expr_snprintf(buffer.data(), buffer.size(), &expression, NFTNL_OUTPUT_DEFAULT, 0);
  const std::string_view kind = NameOf(expression);
  std::string text = Cat("[ ", kind, ' ', buffer.data(), ExtensionBytes(expression, kind));
  text.erase(text.find_last_not_of(' ') + 1);
  text += " ]";
  return text;
}

// Returns the bytes that an expression compares with, or its mask; none for other kinds. Its text
// shows them padded to words of 4 bytes.
Bytes ComparedBytes(const nftnl_expr& expression) {
  const std::string_view kind = NameOf(expression);
  if (kind != "cmp" && kind != "bitwise") {
    return {};
  }
  const int attribute = kind == "cmp" ? int{NFTNL_EXPR_CMP_DATA} : int{NFTNL_EXPR_BITWISE_MASK};
  const auto bytes = BytesOf<nftnl_expr_get>(expression, attribute);
  return {bytes.begin(), bytes.end()};
}

void NoteVerdict(const nftnl_expr& expression, KernelRule& rule) {
  const std::string_view kind = NameOf(expression);
  if (kind == "reject") {
    rule.verdict = {.code = Verdict::Code::kDrop, .chain = {}};
  } else if (kind == "immediate" && nftnl_expr_is_set(&expression, NFTNL_EXPR_IMM_VERDICT)) {
    const auto code = static_cast<int>(nftnl_expr_get_u32(&expression, NFTNL_EXPR_IMM_VERDICT));
    rule.target = TextOf(nftnl_expr_get_str(&expression, NFTNL_EXPR_IMM_CHAIN));
    rule.verdict = {.code = static_cast<Verdict::Code>(code), .chain = rule.target};
  }
}

// struct xt_comment_info: a text of 256 bytes at most.
void NoteXtComment(const nftnl_expr& expression, KernelRule& rule) {
  if (NameOf(expression) == "match" &&
      TextOf(nftnl_expr_get_str(&expression, NFTNL_EXPR_MT_NAME)) == "comment") {
    rule.comment = UpToZero(BytesOf<nftnl_expr_get>(expression, NFTNL_EXPR_MT_INFO));
  }
}

std::uint32_t NumberOf(const nftnl_expr& expression, int attribute) {
  return nftnl_expr_get_u32(&expression, static_cast<std::uint16_t>(attribute));
}

// Returns whether the expression loads the source address of an IPv4 or IPv6 header.
bool LoadsSource(const nftnl_expr& expression) {
  // The TTL of IPv4, of one byte, is where IPv6 has the source.
  return NameOf(expression) == "payload" &&
         NumberOf(expression, NFTNL_EXPR_PAYLOAD_BASE) == NFT_PAYLOAD_NETWORK_HEADER &&
         (NumberOf(expression, NFTNL_EXPR_PAYLOAD_OFFSET) == offsetof(iphdr, saddr) ||
          (NumberOf(expression, NFTNL_EXPR_PAYLOAD_OFFSET) == offsetof(ip6_hdr, ip6_src) &&
           NumberOf(expression, NFTNL_EXPR_PAYLOAD_LEN) > 1));
}

void NoteMeaning(const nftnl_expr& expression, KernelRule& rule) {
  const std::string_view kind = NameOf(expression);
  const auto is_extension = [&](std::string_view of, int attribute, std::string_view name) {
    return kind == of &&
           TextOf(nftnl_expr_get_str(&expression, static_cast<std::uint16_t>(attribute))) == name;
  };
  const bool is_by_fib =
      kind == "fib" && (NumberOf(expression, NFTNL_EXPR_FIB_FLAGS) & NFTA_FIB_F_SADDR) != 0;
  rule.tests_source = rule.tests_source || LoadsSource(expression) || is_by_fib ||
                      is_extension("match", NFTNL_EXPR_MT_NAME, "set");
  rule.changes_tracking = rule.changes_tracking || kind == "notrack" ||
                          is_extension("target", NFTNL_EXPR_TG_NAME, "CT") ||
                          (kind == "ct" && nftnl_expr_is_set(&expression, NFTNL_EXPR_CT_SREG) &&
                           NumberOf(expression, NFTNL_EXPR_CT_KEY) == NFT_CT_ZONE);
}

std::vector<std::string> DevicesOf(const nftnl_chain& chain) {
  std::vector<std::string> devices;
  if (const char* const one = nftnl_chain_get_str(&chain, NFTNL_CHAIN_DEV)) {
    devices.emplace_back(one);
  }
  const char* const* next = nftnl_chain_get_array(&chain, NFTNL_CHAIN_DEVICES);
  for (; next != nullptr && *next != nullptr; ++next) {
    devices.emplace_back(*next);
  }
  return devices;
}

Chain DecodeChain(const nftnl_chain& chain) {
  Chain decoded{.name = TextOf(nftnl_chain_get_str(&chain, NFTNL_CHAIN_NAME))};
  if (nftnl_chain_is_set(&chain, NFTNL_CHAIN_HOOKNUM)) {
    decoded.hook =
        Hook{.type = TextOf(nftnl_chain_get_str(&chain, NFTNL_CHAIN_TYPE)),
             .point = static_cast<Hook::Point>(nftnl_chain_get_u32(&chain, NFTNL_CHAIN_HOOKNUM)),
             .priority = nftnl_chain_get_s32(&chain, NFTNL_CHAIN_PRIO),
             .drops = nftnl_chain_get_u32(&chain, NFTNL_CHAIN_POLICY) == NF_DROP,
             .devices = DevicesOf(chain)};
  }
  return decoded;
}

std::optional<Verdict> DecodeVerdict(nftnl_set_elem& element) {
  if (!nftnl_set_elem_is_set(&element, NFTNL_SET_ELEM_VERDICT)) {
    return std::nullopt;
  }
  Verdict verdict{
      .code = static_cast<Verdict::Code>(nftnl_set_elem_get_u32(&element, NFTNL_SET_ELEM_VERDICT))};
  if (nftnl_set_elem_is_set(&element, NFTNL_SET_ELEM_CHAIN)) {
    verdict.chain = TextOf(nftnl_set_elem_get_str(&element, NFTNL_SET_ELEM_CHAIN));
  }
  return verdict;
}

Element DecodeElement(const nftnl_set& set, nftnl_set_elem& element) {
  const auto key = BytesOf<nftnl_set_elem_get>(element, NFTNL_SET_ELEM_KEY);
  const auto last_key = BytesOf<nftnl_set_elem_get>(element, NFTNL_SET_ELEM_KEY_END);
  const auto data = BytesOf<nftnl_set_elem_get>(element, NFTNL_SET_ELEM_DATA);
  const std::uint32_t flags = nftnl_set_elem_is_set(&element, NFTNL_SET_ELEM_FLAGS)
                                  ? nftnl_set_elem_get_u32(&element, NFTNL_SET_ELEM_FLAGS)
                                  : 0;
  return {.set = TextOf(nftnl_set_get_str(&set, NFTNL_SET_NAME)),
          .key = {key.begin(), key.end()},
          .data = {data.begin(), data.end()},
          .verdict = DecodeVerdict(element),
          .comment = CommentOf(BytesOf<nftnl_set_elem_get>(element, NFTNL_SET_ELEM_USERDATA)),
          .family = static_cast<TableFamily>(nftnl_set_get_u32(&set, NFTNL_SET_FAMILY)),
          .ends_interval = (flags & NFT_SET_ELEM_INTERVAL_END) != 0,
          .last_key = {last_key.begin(), last_key.end()}};
}

Socket::Noted DecodeNoted(const nftnl_set& /*set*/, nftnl_set_elem& element) {
  const auto key = BytesOf<nftnl_set_elem_get>(element, NFTNL_SET_ELEM_KEY);
  Socket::Noted noted{.key = {key.begin(), key.end()}};
  if (nftnl_set_elem_is_set(&element, NFTNL_SET_ELEM_EXPIRATION)) {
    noted.expires_ms = nftnl_set_elem_get_u64(&element, NFTNL_SET_ELEM_EXPIRATION);
  }
  std::uint32_t size = 0;
  const void* const counter = nftnl_set_elem_get(&element, NFTNL_SET_ELEM_EXPR, &size);
  if (counter != nullptr) {
    noted.packets =
        nftnl_expr_get_u64(static_cast<const nftnl_expr*>(counter), NFTNL_EXPR_CTR_PACKETS);
  }
  return noted;
}

template <typename Decoded>
std::vector<Decoded> ReadEachElement(const nlmsghdr& message,
                                     Decoded (*decode)(const nftnl_set&, nftnl_set_elem&)) {
  std::vector<Decoded> read;
  const netlink::NftnlSet set(nftnl_set_alloc());
  if (nftnl_set_elems_nlmsg_parse(&message, set.get()) != 0) {
    return read;
  }
  const netlink::NftnlElements all(nftnl_set_elems_iter_create(set.get()));
  for (nftnl_set_elem* element = nftnl_set_elems_iter_next(all.get()); element != nullptr;
       element = nftnl_set_elems_iter_next(all.get())) {
    read.push_back(decode(*set, *element));
  }
  return read;
}

// `rule` owns the expressions.
std::vector<const nftnl_expr*> ExpressionsOf(const nftnl_rule& rule) {
  std::vector<const nftnl_expr*> expressions;
  const netlink::NftnlExpressions all(nftnl_expr_iter_create(&rule));
  while (const nftnl_expr* const expression = nftnl_expr_iter_next(all.get())) {
    expressions.push_back(expression);
  }
  return expressions;
}

KernelRule DecodeRule(const nftnl_rule& rule) {
  KernelRule decoded{.handle = nftnl_rule_get_u64(&rule, NFTNL_RULE_HANDLE),
                     .chain = TextOf(nftnl_rule_get_str(&rule, NFTNL_RULE_CHAIN))};
  for (const nftnl_expr* const expression : ExpressionsOf(rule)) {
    decoded.expressions.push_back(TextOf(*expression));
    decoded.compared.push_back(ComparedBytes(*expression));
    NoteVerdict(*expression, decoded);
    NoteXtComment(*expression, decoded);
    NoteMeaning(*expression, decoded);
  }
  if (nftnl_rule_is_set(&rule, NFTNL_RULE_USERDATA)) {
    decoded.comment = CommentOf(BytesOf<nftnl_rule_get_data>(rule, NFTNL_RULE_USERDATA));
  }
  return decoded;
}

}  // namespace

std::vector<KernelTable> ReadTable(const nlmsghdr& message) {
  const netlink::NftnlTable table(nftnl_table_alloc());
  if (nftnl_table_nlmsg_parse(&message, table.get()) != 0) {
    return {};
  }
  const auto family =
      static_cast<TableFamily>(nftnl_table_get_u32(table.get(), NFTNL_TABLE_FAMILY));
  return {
      {.id = {.family = family, .name = TextOf(nftnl_table_get_str(table.get(), NFTNL_TABLE_NAME))},
       .handle = nftnl_table_get_u64(table.get(), NFTNL_TABLE_HANDLE),
       .is_dormant =
           (nftnl_table_get_u32(table.get(), NFTNL_TABLE_FLAGS) & NFT_TABLE_F_DORMANT) != 0}};
}

std::vector<Set> ReadSet(const nlmsghdr& message) {
  const netlink::NftnlSet set(nftnl_set_alloc());
  if (nftnl_set_nlmsg_parse(&message, set.get()) != 0) {
    return {};
  }
  const std::uint32_t flags = nftnl_set_get_u32(set.get(), NFTNL_SET_FLAGS);
  Set decoded{.name = TextOf(nftnl_set_get_str(set.get(), NFTNL_SET_NAME)),
              .key = Fields(nftnl_set_get_u32(set.get(), NFTNL_SET_KEY_TYPE)),
              .flags = flags & ~std::uint32_t{NFT_SET_MAP | NFT_SET_CONCAT}};
  if ((flags & NFT_SET_MAP) != 0) {
    decoded.data = Fields(nftnl_set_get_u32(set.get(), NFTNL_SET_DATA_TYPE));
  }
  if (decoded.is_dynamic()) {
    decoded.size = nftnl_set_get_u32(set.get(), NFTNL_SET_DESC_SIZE);
    decoded.timeout_ms = nftnl_set_get_u64(set.get(), NFTNL_SET_TIMEOUT);
  }
  return {std::move(decoded)};
}

std::vector<Socket::TableChain> ReadChain(const nlmsghdr& message) {
  const netlink::NftnlChain chain(nftnl_chain_alloc());
  if (nftnl_chain_nlmsg_parse(&message, chain.get()) != 0) {
    return {};
  }
  const auto family =
      static_cast<TableFamily>(nftnl_chain_get_u32(chain.get(), NFTNL_CHAIN_FAMILY));
  return {{.table = {.family = family,
                     .name = TextOf(nftnl_chain_get_str(chain.get(), NFTNL_CHAIN_TABLE))},
           .chain = DecodeChain(*chain),
           .handle = nftnl_chain_get_u64(chain.get(), NFTNL_CHAIN_HANDLE),
           .use = nftnl_chain_get_u32(chain.get(), NFTNL_CHAIN_USE)}};
}

std::vector<Element> ReadElements(const nlmsghdr& message) {
  return ReadEachElement(message, &DecodeElement);
}

std::vector<Socket::Noted> ReadNoted(const nlmsghdr& message) {
  return ReadEachElement(message, &DecodeNoted);
}

std::vector<KernelRule> ReadRule(const nlmsghdr& message) {
  const netlink::NftnlRule rule(nftnl_rule_alloc());
  const bool understood = nftnl_rule_nlmsg_parse(&message, rule.get()) == 0;
  KernelRule decoded = DecodeRule(*rule);
  if (!understood) {
    // Another program's rule has an expression that is newer than our libnftnl. We need to know
    // only that the rule is not ours.
    decoded.expressions.emplace_back("[ unknown ]");
    decoded.compared.emplace_back();
  }
  return {std::move(decoded)};
}

std::vector<Counter> ReadCounter(const nlmsghdr& message) {
  const netlink::NftnlObject object(nftnl_obj_alloc());
  if (nftnl_obj_nlmsg_parse(&message, object.get()) != 0 ||
      nftnl_obj_get_u32(object.get(), NFTNL_OBJ_TYPE) != NFT_OBJECT_COUNTER) {
    return {};
  }
  return {{.name = TextOf(nftnl_obj_get_str(object.get(), NFTNL_OBJ_NAME)),
           .comment = CommentOf(BytesOf<nftnl_obj_get_data>(*object, NFTNL_OBJ_USERDATA)),
           .packets = nftnl_obj_get_u64(object.get(), NFTNL_OBJ_CTR_PKTS)}};
}

std::vector<std::string> ExpressionTexts(const Rule& rule) {
  const netlink::NftnlRule encoded = Encode({}, {}, rule);
  std::vector<std::string> texts;
  for (const nftnl_expr* const expression : ExpressionsOf(*encoded)) {
    texts.push_back(TextOf(*expression));
  }
  return texts;
}

std::vector<std::string> Meaning(std::vector<std::string> expressions) {
  std::erase_if(expressions, [](const std::string& text) {
    return text.starts_with("[ counter ") || text.starts_with("[ match name comment ");
  });
  return expressions;
}

}  // namespace nomad_bridge::nft
