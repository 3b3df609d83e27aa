#include "netlink/nft/encode.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <span>
#include <string_view>

#include <arpa/inet.h>  // before the kernel's own in.h, which gives way to it
#include <libmnl/libmnl.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>

#include "base/text.h"

namespace nomad_bridge::nft {
namespace {

constexpr std::uint32_t kMaxUserDataBytes = 256;  // NFT_USERDATA_MAXLEN
constexpr std::uint32_t kTypeBits = 6;            // nft packs the types of a concatenation so

std::uint32_t TypeNumber(const std::vector<Type>& fields) {
  std::uint32_t number = 0;
  for (const Type field : fields) {
    number = number << kTypeBits | static_cast<std::uint32_t>(field);
  }
  return number;
}

std::vector<Type> Fields(std::uint32_t number) {
  std::vector<Type> fields;
  for (; number != 0; number >>= kTypeBits) {
    fields.push_back(static_cast<Type>(number & ((1U << kTypeBits) - 1)));
  }
  std::reverse(fields.begin(), fields.end());
  return fields;
}

std::uint32_t KeyBytes(const std::vector<Type>& fields) {
  // A single field is as long as it is; only in a concatenation each is padded. None of ours is
  // both single and odd.
  std::size_t bytes = 0;
  for (const Type field : fields) {
    bytes += PaddedBytes(field);
  }
  return static_cast<std::uint32_t>(bytes);
}

// nft's enum byteorder: what it needs to know to print a set again. Concatenations have none.
std::uint32_t ByteOrder(const std::vector<Type>& fields) {
  constexpr std::uint32_t kNone = 0;
  constexpr std::uint32_t kHost = 1;
  constexpr std::uint32_t kBig = 2;
  if (fields.size() != 1) {
    return kNone;
  }
  return fields[0] == Type::kIfname ? kHost : kBig;
}

netlink::NftnlUserData CommentData(std::uint8_t type, const std::string& comment) {
  netlink::NftnlUserData data(nftnl_udata_buf_alloc(kMaxUserDataBytes));
  nftnl_udata_put_strz(data.get(), type, CutUtf8(comment, kMaxCommentBytes).c_str());
  return data;
}

// The comment in a user data area of `bytes`; rules and elements both use type 0 for it.
std::string CommentOf(const void* data, std::uint32_t bytes) {
  std::string_view rest(static_cast<const char*>(data), bytes);
  constexpr std::size_t kHeaderBytes = 2;
  while (rest.size() > kHeaderBytes) {
    const auto type = static_cast<std::uint8_t>(rest[0]);
    const auto length = static_cast<std::uint8_t>(rest[1]);
    const std::string_view value = rest.substr(kHeaderBytes, length);
    if (type == NFTNL_UDATA_SET_ELEM_COMMENT) {
      return std::string(value.substr(0, value.find('\0')));
    }
    rest.remove_prefix(std::min(rest.size(), kHeaderBytes + length));
  }
  return {};
}

void SetAttribute(nftnl_expr& expression, std::uint16_t attribute, const Value& value) {
  if (const auto* const number = std::get_if<std::uint32_t>(&value)) {
    nftnl_expr_set_u32(&expression, attribute, *number);
  } else if (const auto* const text = std::get_if<std::string>(&value)) {
    nftnl_expr_set_str(&expression, attribute, text->c_str());
  } else {
    const auto& bytes = std::get<std::vector<std::uint8_t>>(value);
    nftnl_expr_set(&expression, attribute, bytes.data(), static_cast<std::uint32_t>(bytes.size()));
  }
}

// An xt match or target prints only its name; two with different bytes must not look the same.
std::string ExtensionBytes(const nftnl_expr& expression, std::string_view kind) {
  if (kind != "match" && kind != "target") {
    return {};
  }
  std::uint32_t bytes = 0;
  const int attribute = kind == "match" ? int{NFTNL_EXPR_MT_INFO} : int{NFTNL_EXPR_TG_INFO};
  const auto* const info = static_cast<const std::uint8_t*>(
      nftnl_expr_get(&expression, static_cast<std::uint16_t>(attribute), &bytes));
  std::string text = "info ";
  for (const std::uint8_t byte : std::span(info, info == nullptr ? 0 : bytes)) {
    text += Hex(byte, 2);
  }
  return text;
}

std::string TextOf(const nftnl_expr& expression) {
  std::array<char, 1024> buffer{};
  nftnl_expr_snprintf(buffer.data(), buffer.size(), &expression, NFTNL_OUTPUT_DEFAULT, 0);
  const std::string kind = nftnl_expr_get_str(&expression, NFTNL_EXPR_NAME);
  std::string text = Cat("[ ", kind, ' ', buffer.data(), ExtensionBytes(expression, kind));
  text.erase(text.find_last_not_of(' ') + 1);
  return text + " ]";
}

bool IsKind(const nftnl_expr& expression, std::string_view kind) {
  return nftnl_expr_get_str(&expression, NFTNL_EXPR_NAME) == kind;
}

void NoteTarget(const nftnl_expr& expression, KernelRule& rule) {
  if (IsKind(expression, "immediate") && nftnl_expr_is_set(&expression, NFTNL_EXPR_IMM_CHAIN)) {
    rule.target = nftnl_expr_get_str(&expression, NFTNL_EXPR_IMM_CHAIN);
  }
}

// struct xt_comment_info: a text of 256 bytes at most.
void NoteXtComment(const nftnl_expr& expression, KernelRule& rule) {
  if (!IsKind(expression, "match") ||
      nftnl_expr_get_str(&expression, NFTNL_EXPR_MT_NAME) != std::string_view("comment")) {
    return;
  }
  std::uint32_t bytes = 0;
  const auto* const info =
      static_cast<const char*>(nftnl_expr_get(&expression, NFTNL_EXPR_MT_INFO, &bytes));
  const std::string_view text(info, info == nullptr ? 0 : bytes);
  rule.comment = text.substr(0, text.find('\0'));
}

}  // namespace

netlink::NftnlTable Encode(const TableId& table) {
  netlink::NftnlTable encoded(nftnl_table_alloc());
  nftnl_table_set_u32(encoded.get(), NFTNL_TABLE_FAMILY, static_cast<std::uint32_t>(table.family));
  nftnl_table_set_str(encoded.get(), NFTNL_TABLE_NAME, table.name.c_str());
  return encoded;
}

netlink::NftnlSet Encode(const TableId& table, const Set& set, std::uint32_t id) {
  netlink::NftnlSet encoded(nftnl_set_alloc());
  nftnl_set* const raw = encoded.get();
  netlink::NftnlUserData data(nftnl_udata_buf_alloc(kMaxUserDataBytes));
  nftnl_set_set_u32(raw, NFTNL_SET_FAMILY, static_cast<std::uint32_t>(table.family));
  nftnl_set_set_str(raw, NFTNL_SET_TABLE, table.name.c_str());
  nftnl_set_set_str(raw, NFTNL_SET_NAME, set.name.c_str());
  nftnl_set_set_u32(raw, NFTNL_SET_ID, id);
  nftnl_set_set_u32(raw, NFTNL_SET_KEY_TYPE, TypeNumber(set.key));
  nftnl_set_set_u32(raw, NFTNL_SET_KEY_LEN, KeyBytes(set.key));
  nftnl_set_set_u32(
      raw, NFTNL_SET_FLAGS, set.flags | (set.data.empty() ? 0U : std::uint32_t{NFT_SET_MAP}));
  nftnl_udata_put_u32(data.get(), NFTNL_UDATA_SET_KEYBYTEORDER, ByteOrder(set.key));
  if (!set.data.empty()) {
    nftnl_set_set_u32(raw, NFTNL_SET_DATA_TYPE, TypeNumber(set.data));
    nftnl_set_set_u32(raw, NFTNL_SET_DATA_LEN, KeyBytes(set.data));
    nftnl_udata_put_u32(data.get(), NFTNL_UDATA_SET_DATABYTEORDER, ByteOrder(set.data));
  }
  nftnl_set_set_data(
      raw, NFTNL_SET_USERDATA, nftnl_udata_buf_data(data.get()), nftnl_udata_buf_len(data.get()));
  return encoded;
}

netlink::NftnlChain Encode(const TableId& table, const Chain& chain) {
  netlink::NftnlChain encoded(nftnl_chain_alloc());
  nftnl_chain* const raw = encoded.get();
  nftnl_chain_set_u32(raw, NFTNL_CHAIN_FAMILY, static_cast<std::uint32_t>(table.family));
  nftnl_chain_set_str(raw, NFTNL_CHAIN_TABLE, table.name.c_str());
  nftnl_chain_set_str(raw, NFTNL_CHAIN_NAME, chain.name.c_str());
  if (chain.hook) {
    nftnl_chain_set_str(raw, NFTNL_CHAIN_TYPE, chain.hook->type.c_str());
    nftnl_chain_set_u32(raw, NFTNL_CHAIN_HOOKNUM, static_cast<std::uint32_t>(chain.hook->point));
    nftnl_chain_set_s32(raw, NFTNL_CHAIN_PRIO, chain.hook->priority);
    nftnl_chain_set_u32(raw, NFTNL_CHAIN_POLICY, chain.hook->drops ? NF_DROP : NF_ACCEPT);
  }
  return encoded;
}

netlink::NftnlRule Encode(const TableId& table, const std::string& chain, const Rule& rule) {
  netlink::NftnlRule encoded(nftnl_rule_alloc());
  nftnl_rule* const raw = encoded.get();
  nftnl_rule_set_u32(raw, NFTNL_RULE_FAMILY, static_cast<std::uint32_t>(table.family));
  nftnl_rule_set_str(raw, NFTNL_RULE_TABLE, table.name.c_str());
  nftnl_rule_set_str(raw, NFTNL_RULE_CHAIN, chain.c_str());
  for (const Expression& expression : rule.expressions()) {
    netlink::NftnlExpression added(nftnl_expr_alloc(expression.kind.c_str()));
    for (const auto& [attribute, value] : expression.attributes) {
      SetAttribute(*added, attribute, value);
    }
    nftnl_rule_add_expr(raw, added.release());  // the rule owns it now
  }
  if (!rule.comment().empty()) {
    const netlink::NftnlUserData data = CommentData(NFTNL_UDATA_RULE_COMMENT, rule.comment());
    nftnl_rule_set_data(raw,
                        NFTNL_RULE_USERDATA,
                        nftnl_udata_buf_data(data.get()),
                        nftnl_udata_buf_len(data.get()));
  }
  return encoded;
}

netlink::NftnlSet Encode(const TableId& table, const Element& element) {
  netlink::NftnlSet encoded(nftnl_set_alloc());
  nftnl_set_set_u32(encoded.get(), NFTNL_SET_FAMILY, static_cast<std::uint32_t>(table.family));
  nftnl_set_set_str(encoded.get(), NFTNL_SET_TABLE, table.name.c_str());
  nftnl_set_set_str(encoded.get(), NFTNL_SET_NAME, element.set.c_str());
  netlink::NftnlElement only(nftnl_set_elem_alloc());
  const auto put = [&](std::uint16_t attribute, const std::vector<std::uint8_t>& bytes) {
    nftnl_set_elem_set(
        only.get(), attribute, bytes.data(), static_cast<std::uint32_t>(bytes.size()));
  };
  put(NFTNL_SET_ELEM_KEY, element.key);
  if (!element.data.empty()) {
    put(NFTNL_SET_ELEM_DATA, element.data);
  }
  if (!element.comment.empty()) {
    const netlink::NftnlUserData data = CommentData(NFTNL_UDATA_SET_ELEM_COMMENT, element.comment);
    nftnl_set_elem_set(only.get(),
                       NFTNL_SET_ELEM_USERDATA,
                       nftnl_udata_buf_data(data.get()),
                       nftnl_udata_buf_len(data.get()));
  }
  nftnl_set_elem_add(encoded.get(), only.release());  // the set owns it now
  return encoded;
}

Set DecodeSet(const nftnl_set& set) {
  const std::uint32_t flags = nftnl_set_get_u32(&set, NFTNL_SET_FLAGS);
  Set decoded{.name = nftnl_set_get_str(&set, NFTNL_SET_NAME),
              .key = Fields(nftnl_set_get_u32(&set, NFTNL_SET_KEY_TYPE)),
              .data = {},
              .flags = flags & ~std::uint32_t{NFT_SET_MAP}};
  if ((flags & NFT_SET_MAP) != 0) {
    decoded.data = Fields(nftnl_set_get_u32(&set, NFTNL_SET_DATA_TYPE));
  }
  return decoded;
}

Chain DecodeChain(const nftnl_chain& chain) {
  Chain decoded{.name = nftnl_chain_get_str(&chain, NFTNL_CHAIN_NAME), .hook = {}, .rules = {}};
  if (nftnl_chain_is_set(&chain, NFTNL_CHAIN_HOOKNUM)) {
    decoded.hook =
        Hook{.type = nftnl_chain_get_str(&chain, NFTNL_CHAIN_TYPE),
             .point = static_cast<Hook::Point>(nftnl_chain_get_u32(&chain, NFTNL_CHAIN_HOOKNUM)),
             .priority = nftnl_chain_get_s32(&chain, NFTNL_CHAIN_PRIO),
             .drops = nftnl_chain_get_u32(&chain, NFTNL_CHAIN_POLICY) == NF_DROP};
  }
  return decoded;
}

std::vector<Element> DecodeElements(const nftnl_set& set) {
  std::vector<Element> elements;
  const netlink::NftnlElements all(nftnl_set_elems_iter_create(&set));
  for (nftnl_set_elem* element = nftnl_set_elems_iter_next(all.get()); element != nullptr;
       element = nftnl_set_elems_iter_next(all.get())) {
    const auto bytes = [&](std::uint16_t attribute) -> std::span<const std::uint8_t> {
      std::uint32_t size = 0;
      const void* const data = nftnl_set_elem_is_set(element, attribute)
                                   ? nftnl_set_elem_get(element, attribute, &size)
                                   : nullptr;
      return {static_cast<const std::uint8_t*>(data), size};
    };
    const auto key = bytes(NFTNL_SET_ELEM_KEY);
    const auto data = bytes(NFTNL_SET_ELEM_DATA);
    const auto comment = bytes(NFTNL_SET_ELEM_USERDATA);
    elements.push_back(
        {.set = nftnl_set_get_str(&set, NFTNL_SET_NAME),
         .key = {key.begin(), key.end()},
         .data = {data.begin(), data.end()},
         .comment = CommentOf(comment.data(), static_cast<std::uint32_t>(comment.size()))});
  }
  return elements;
}

KernelRule DecodeRule(const nftnl_rule& rule) {
  KernelRule decoded{
      .handle = nftnl_rule_get_u64(&rule, NFTNL_RULE_HANDLE), .expressions = {}, .comment = {}};
  const netlink::NftnlExpressions all(nftnl_expr_iter_create(&rule));
  for (const nftnl_expr* expression = nftnl_expr_iter_next(all.get()); expression != nullptr;
       expression = nftnl_expr_iter_next(all.get())) {
    decoded.expressions.push_back(TextOf(*expression));
    NoteTarget(*expression, decoded);
    NoteXtComment(*expression, decoded);
  }
  if (nftnl_rule_is_set(&rule, NFTNL_RULE_USERDATA)) {
    std::uint32_t bytes = 0;
    const void* const data = nftnl_rule_get_data(&rule, NFTNL_RULE_USERDATA, &bytes);
    decoded.comment = CommentOf(data, bytes);
  }
  return decoded;
}

std::vector<std::string> Meaning(std::vector<std::string> expressions) {
  std::erase_if(expressions, [](const std::string& text) {
    return text.starts_with("[ counter ") || text.starts_with("[ match name comment ");
  });
  return expressions;
}

std::vector<std::string> ExpressionTexts(const Rule& rule) {
  return DecodeRule(*Encode({}, {}, rule)).expressions;
}

}  // namespace nomad_bridge::nft
