#include <array>
#include <string_view>

#include <arpa/inet.h>  // before the kernel's own in.h, which gives way to it
#include <libmnl/libmnl.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>

#include "base/text.h"
#include "netlink/nft/batch.h"
#include "netlink/nft/codec.h"

namespace nomad_bridge::nft {
namespace {

constexpr std::uint32_t kMaxUserDataBytes = 256;  // NFT_USERDATA_MAXLEN
// Enough for one message of ours: a rule of nine expressions takes 600 bytes.
constexpr std::size_t kMaxMessageBytes = 16384;

std::uint32_t TypeNumber(const std::vector<Type>& fields) {
  if (fields == std::vector{Type::kVerdict}) {
    return NFT_DATA_VERDICT;
  }
  std::uint32_t number = 0;
  for (const Type field : fields) {
    number = number << kTypeBits | static_cast<std::uint32_t>(field);
  }
  return number;
}

std::uint32_t KeyBytes(const std::vector<Type>& fields) {
  // The kernel pads fields only in a concatenation. Padding a single field does no harm: no set of
  // ours has a single field whose length is not a multiple of 4.
  std::size_t bytes = 0;
  for (const Type field : fields) {
    bytes += PaddedBytes(field);
  }
  return static_cast<std::uint32_t>(bytes);
}

// Returns nft's byte order (enum byteorder), which nft needs to print the set. Concatenations and
// verdicts have none.
std::uint32_t ByteOrder(const std::vector<Type>& fields) {
  constexpr std::uint32_t kNone = 0;
  constexpr std::uint32_t kHost = 1;
  constexpr std::uint32_t kBig = 2;
  if (fields.size() != 1 || fields[0] == Type::kVerdict) {
    return kNone;
  }
  return fields[0] == Type::kIfname || fields[0] == Type::kMark ? kHost : kBig;
}

// nft prints a set of conntrack ids, which are plain integers, only if it finds here which
// expression they come from: "typeof ct id".
void PutTypeOfCtId(nftnl_udata_buf& data) {
  constexpr std::uint32_t kExprCt = 12;  // nft's enum expr_types
  enum : std::uint8_t { kKey, kDirection };
  constexpr std::uint32_t kNoDirection = 0xffffffff;
  nftnl_udata* const type = nftnl_udata_nest_start(&data, NFTNL_UDATA_SET_KEY_TYPEOF);
  nftnl_udata_put_u32(&data, NFTNL_UDATA_SET_TYPEOF_EXPR, kExprCt);
  nftnl_udata* const expression = nftnl_udata_nest_start(&data, NFTNL_UDATA_SET_TYPEOF_DATA);
  nftnl_udata_put_u32(&data, kKey, NFT_CT_ID);
  nftnl_udata_put_u32(&data, kDirection, kNoDirection);
  nftnl_udata_nest_end(&data, expression);
  nftnl_udata_nest_end(&data, type);
}

Bytes CommentData(std::uint8_t type, const std::string& comment) {
  const std::string text = CutUtf8(comment, kMaxCommentBytes) + '\0';
  const std::string data = Cat(static_cast<char>(type), static_cast<char>(text.size()), text);
  return {data.begin(), data.end()};
}

bool IsDynset(const nftnl_expr& expression) {
  return std::string_view(nftnl_expr_get_str(&expression, NFTNL_EXPR_NAME)) == "dynset";
}

void SetAttribute(nftnl_expr& expression, std::uint16_t attribute, const Value& value) {
  if (const auto* const number = std::get_if<std::uint32_t>(&value)) {
    nftnl_expr_set_u32(&expression, attribute, *number);
  } else if (attribute == NFTNL_EXPR_DYNSET_EXPR && IsDynset(expression)) {
    // The dynset owns it now.
    nftnl_expr_set(
        &expression, attribute, nftnl_expr_alloc(std::get<std::string>(value).c_str()), 0);
  } else if (const auto* const text = std::get_if<std::string>(&value)) {
    nftnl_expr_set_str(&expression, attribute, text->c_str());
  } else {
    const auto& bytes = std::get<std::vector<std::uint8_t>>(value);
    nftnl_expr_set(&expression, attribute, bytes.data(), static_cast<std::uint32_t>(bytes.size()));
  }
}

void PutObject(nlmsghdr* out, const BatchMessage& message, std::uint32_t id) {
  if (const auto* const set = std::get_if<Set>(&message.object)) {
    nftnl_set_nlmsg_build_payload(out, Encode(message.table, *set, id).get());
  } else if (const auto* const chain = std::get_if<Chain>(&message.object)) {
    nftnl_chain_nlmsg_build_payload(out, Encode(message.table, *chain).get());
  } else if (const auto* const rule = std::get_if<Rule>(&message.object)) {
    nftnl_rule_nlmsg_build_payload(out, Encode(message.table, message.chain, *rule).get());
  } else if (const auto* const element = std::get_if<Element>(&message.object)) {
    nftnl_set_elems_nlmsg_build_payload(out, Encode(message.table, *element).get());
  } else if (const auto* const counter = std::get_if<Counter>(&message.object)) {
    nftnl_obj_nlmsg_build_payload(out, Encode(message.table, *counter).get());
  } else if (message.chain.empty()) {
    const netlink::NftnlTable table = Encode(message.table);
    nftnl_table_set_u32(table.get(), NFTNL_TABLE_FLAGS, message.table_flags);
    nftnl_table_nlmsg_build_payload(out, table.get());
  } else {
    const netlink::NftnlRule which = Encode(message.table, message.chain, Rule());
    if (message.handle) {
      nftnl_rule_set_u64(which.get(), NFTNL_RULE_HANDLE, *message.handle);
    }
    nftnl_rule_nlmsg_build_payload(out, which.get());
  }
}

}  // namespace

netlink::NftnlTable Encode(const TableId& table) {
  netlink::NftnlTable encoded(nftnl_table_alloc());
  nftnl_table_set_u32(encoded.get(), NFTNL_TABLE_FAMILY, static_cast<std::uint32_t>(table.family));
  nftnl_table_set_str(encoded.get(), NFTNL_TABLE_NAME, table.name.c_str());
  return encoded;
}

netlink::NftnlSet Encode(const TableId& table, const std::string& set) {
  netlink::NftnlSet encoded(nftnl_set_alloc());
  nftnl_set_set_u32(encoded.get(), NFTNL_SET_FAMILY, static_cast<std::uint32_t>(table.family));
  nftnl_set_set_str(encoded.get(), NFTNL_SET_TABLE, table.name.c_str());
  if (!set.empty()) {
    nftnl_set_set_str(encoded.get(), NFTNL_SET_NAME, set.c_str());
  }
  return encoded;
}

netlink::NftnlSet Encode(const TableId& table, const Set& set, std::uint32_t id) {
  netlink::NftnlSet encoded = Encode(table, set.name);
  nftnl_set* const raw = encoded.get();
  netlink::NftnlUserData data(nftnl_udata_buf_alloc(kMaxUserDataBytes));
  nftnl_set_set_u32(raw, NFTNL_SET_ID, id);
  nftnl_set_set_u32(raw, NFTNL_SET_KEY_TYPE, TypeNumber(set.key));
  nftnl_set_set_u32(raw, NFTNL_SET_KEY_LEN, KeyBytes(set.key));
  std::uint32_t flags = set.flags | (set.data.empty() ? 0U : std::uint32_t{NFT_SET_MAP});
  if ((set.flags & kInterval) != 0 && set.key.size() > 1) {
    flags |= std::uint32_t{NFT_SET_CONCAT};
    Bytes sizes;
    for (const Type field : set.key) {
      sizes.push_back(static_cast<std::uint8_t>(PaddedBytes(field)));
    }
    nftnl_set_set_data(
        raw, NFTNL_SET_DESC_CONCAT, sizes.data(), static_cast<std::uint32_t>(sizes.size()));
  }
  nftnl_set_set_u32(raw, NFTNL_SET_FLAGS, flags);
  if (set.is_dynamic()) {
    nftnl_set_set_u32(raw, NFTNL_SET_DESC_SIZE, set.size);
    nftnl_set_set_u64(raw, NFTNL_SET_TIMEOUT, set.timeout_ms);
  }
  nftnl_udata_put_u32(data.get(), NFTNL_UDATA_SET_KEYBYTEORDER, ByteOrder(set.key));
  if (!set.data.empty()) {
    nftnl_set_set_u32(raw, NFTNL_SET_DATA_TYPE, TypeNumber(set.data));
    nftnl_set_set_u32(raw, NFTNL_SET_DATA_LEN, KeyBytes(set.data));
    nftnl_udata_put_u32(data.get(), NFTNL_UDATA_SET_DATABYTEORDER, ByteOrder(set.data));
  }
  if (set.key == std::vector{Type::kCtId}) {
    PutTypeOfCtId(*data);
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
    if (!chain.hook->devices.empty()) {
      nftnl_chain_set_str(raw, NFTNL_CHAIN_DEV, chain.hook->devices.front().c_str());
    }
  }
  return encoded;
}

netlink::NftnlRule Encode(const TableId& table, const std::string& chain, const Rule& rule) {
  netlink::NftnlRule encoded(nftnl_rule_alloc());
  nftnl_rule* const raw = encoded.get();
  nftnl_rule_set_u32(raw, NFTNL_RULE_FAMILY, static_cast<std::uint32_t>(table.family));
  nftnl_rule_set_str(raw, NFTNL_RULE_TABLE, table.name.c_str());
  if (!chain.empty()) {
    nftnl_rule_set_str(raw, NFTNL_RULE_CHAIN, chain.c_str());
  }
  for (const Expression& expression : rule.expressions()) {
    netlink::NftnlExpression added(nftnl_expr_alloc(expression.kind.c_str()));
    for (const auto& [attribute, value] : expression.attributes) {
      SetAttribute(*added, attribute, value);
    }
    nftnl_rule_add_expr(raw, added.release());  // the rule owns it now
  }
  if (!rule.comment().empty()) {
    const Bytes data = CommentData(NFTNL_UDATA_RULE_COMMENT, rule.comment());
    const auto bytes = static_cast<std::uint32_t>(data.size());
    nftnl_rule_set_data(raw, NFTNL_RULE_USERDATA, data.data(), bytes);
  }
  return encoded;
}

netlink::NftnlSet Encode(const TableId& table, const Element& element) {
  netlink::NftnlSet encoded = Encode(table, element.set);
  netlink::NftnlElement only(nftnl_set_elem_alloc());
  const auto put = [&](std::uint16_t attribute, const Bytes& bytes) {
    nftnl_set_elem_set(
        only.get(), attribute, bytes.data(), static_cast<std::uint32_t>(bytes.size()));
  };
  put(NFTNL_SET_ELEM_KEY, element.key);
  if (!element.data.empty()) {
    put(NFTNL_SET_ELEM_DATA, element.data);
  }
  if (element.verdict) {
    nftnl_set_elem_set_u32(
        only.get(), NFTNL_SET_ELEM_VERDICT, static_cast<std::uint32_t>(element.verdict->code));
    if (!element.verdict->chain.empty()) {
      nftnl_set_elem_set_str(only.get(), NFTNL_SET_ELEM_CHAIN, element.verdict->chain.c_str());
    }
  }
  if (!element.last_key.empty()) {
    put(NFTNL_SET_ELEM_KEY_END, element.last_key);
  }
  if (element.ends_interval) {
    nftnl_set_elem_set_u32(only.get(), NFTNL_SET_ELEM_FLAGS, NFT_SET_ELEM_INTERVAL_END);
  }
  if (!element.comment.empty()) {
    put(NFTNL_SET_ELEM_USERDATA, CommentData(NFTNL_UDATA_SET_ELEM_COMMENT, element.comment));
  }
  nftnl_set_elem_add(encoded.get(), only.release());  // the set owns it now
  return encoded;
}

netlink::NftnlObject Encode(const TableId& table, const Counter& counter) {
  netlink::NftnlObject encoded(nftnl_obj_alloc());
  nftnl_obj* const raw = encoded.get();
  nftnl_obj_set_u32(raw, NFTNL_OBJ_FAMILY, static_cast<std::uint32_t>(table.family));
  nftnl_obj_set_u32(raw, NFTNL_OBJ_TYPE, NFT_OBJECT_COUNTER);
  nftnl_obj_set_str(raw, NFTNL_OBJ_TABLE, table.name.c_str());
  if (!counter.name.empty()) {
    nftnl_obj_set_str(raw, NFTNL_OBJ_NAME, counter.name.c_str());
  }
  if (!counter.comment.empty()) {
    const Bytes data = CommentData(NFTNL_UDATA_OBJ_COMMENT, counter.comment);
    const auto bytes = static_cast<std::uint32_t>(data.size());
    nftnl_obj_set_data(raw, NFTNL_OBJ_USERDATA, data.data(), bytes);
  }
  return encoded;
}

// Only the last message asks for an acknowledgement: the kernel reports refusals anyway, and 4,000
// acknowledgements would only fill the socket.
std::vector<char> EncodeBatch(const Batch& batch,
                              std::optional<std::uint32_t> generation,
                              std::uint32_t sequence) {
  std::array<char, kMaxMessageBytes> scratch{};
  std::vector<char> bytes;
  const auto append = [&](const nlmsghdr& message) {
    bytes.insert(bytes.end(), scratch.begin(), scratch.begin() + message.nlmsg_len);
  };
  nlmsghdr* const begin = nftnl_batch_begin(scratch.data(), sequence);
  if (generation) {
    mnl_attr_put_u32(begin, NFNL_BATCH_GENID, htonl(*generation));
  }
  append(*begin);
  std::size_t left = batch.messages().size();
  for (const BatchMessage& message : batch.messages()) {
    const int acknowledge = --left == 0 ? NLM_F_ACK : 0;
    nlmsghdr* const out =
        nftnl_nlmsg_build_hdr(scratch.data(),
                              static_cast<std::uint16_t>(message.type),
                              static_cast<std::uint16_t>(message.table.family),
                              static_cast<std::uint16_t>(message.flags | acknowledge),
                              ++sequence);
    PutObject(out, message, sequence);
    append(*out);
  }
  append(*nftnl_batch_end(scratch.data(), ++sequence));
  return bytes;
}

}  // namespace nomad_bridge::nft
