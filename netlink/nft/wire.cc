#include "netlink/nft/wire.h"

#include <arpa/inet.h>
#include <libmnl/libmnl.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>

#include "base/error.h"
#include "base/text.h"
#include "netlink/core/handles.h"
#include "netlink/nft/encode.h"

namespace nomad_bridge::nft::wire {
namespace {

using Action = BatchMessage::Action;

struct Kind {
  int type = 0;
  int flags = 0;
};

Kind KindOf(Action action) {
  switch (action) {
    case Action::kAddTable:
      return {NFT_MSG_NEWTABLE, NLM_F_CREATE};
    case Action::kDeleteTable:
      return {NFT_MSG_DELTABLE, 0};
    case Action::kAddSet:
      return {NFT_MSG_NEWSET, NLM_F_CREATE};
    case Action::kAddChain:
      return {NFT_MSG_NEWCHAIN, NLM_F_CREATE};
    case Action::kDeleteChain:
      return {NFT_MSG_DELCHAIN, 0};
    case Action::kFlushChain:
    case Action::kDeleteRule:
      return {NFT_MSG_DELRULE, 0};
    case Action::kAppendRule:
      return {NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND};
    case Action::kInsertRule:
      return {NFT_MSG_NEWRULE, NLM_F_CREATE};
    case Action::kAddElement:
      return {NFT_MSG_NEWSETELEM, NLM_F_CREATE | NLM_F_EXCL};
    case Action::kDeleteElement:
      return {NFT_MSG_DELSETELEM, 0};
  }
  return {};
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
  } else if (message.chain.empty()) {
    nftnl_table_nlmsg_build_payload(out, Encode(message.table).get());
  } else {
    const netlink::NftnlRule which = Encode(message.table, message.chain, Rule());
    // Without a handle it would mean every rule of the chain.
    if (message.action == Action::kDeleteRule) {
      nftnl_rule_set_u64(which.get(), NFTNL_RULE_HANDLE, message.handle);
    }
    nftnl_rule_nlmsg_build_payload(out, which.get());
  }
}

}  // namespace

void Append(Bytes& bytes, const nlmsghdr& message) {
  const auto* const first = reinterpret_cast<const char*>(&message);
  bytes.insert(bytes.end(), first, first + message.nlmsg_len);
}

std::vector<const nlmsghdr*> Split(const Bytes& bytes) {
  std::vector<const nlmsghdr*> messages;
  int left = static_cast<int>(bytes.size());
  const auto* message = reinterpret_cast<const nlmsghdr*>(bytes.data());
  for (; mnl_nlmsg_ok(message, left); message = mnl_nlmsg_next(message, &left)) {
    messages.push_back(message);
  }
  return messages;
}

int ErrorOf(const nlmsghdr& message) {
  return -*static_cast<const int*>(mnl_nlmsg_get_payload(&message));
}

const nlattr* FindAttribute(const nlmsghdr& message, std::size_t header_bytes, std::uint16_t type) {
  const auto* const end = static_cast<const char*>(mnl_nlmsg_get_payload_tail(&message));
  const auto* attribute =
      static_cast<const nlattr*>(mnl_nlmsg_get_payload_offset(&message, header_bytes));
  const auto left = [&] {
    return static_cast<int>(end - reinterpret_cast<const char*>(attribute));
  };
  for (; mnl_attr_ok(attribute, left()); attribute = mnl_attr_next(attribute)) {
    if (mnl_attr_get_type(attribute) == type) {
      return attribute;
    }
  }
  return nullptr;
}

std::string DetailsOf(const nlmsghdr& message) {
  std::string text = ErrnoText(ErrorOf(message));
  if ((message.nlmsg_flags & NLM_F_ACK_TLVS) == 0) {
    return text;
  }
  // The request's payload is not echoed (NETLINK_CAP_ACK), so the attributes come at once.
  const nlattr* const words = FindAttribute(message, sizeof(nlmsgerr), NLMSGERR_ATTR_MSG);
  return words == nullptr ? text : Cat(mnl_attr_get_str(words), ": ", text);
}

nlmsghdr* Start(Scratch& scratch, int type, TableFamily family, int flags, std::uint32_t sequence) {
  return nftnl_nlmsg_build_hdr(scratch.data(),
                               static_cast<std::uint16_t>(type),
                               static_cast<std::uint16_t>(family),
                               static_cast<std::uint16_t>(flags),
                               sequence);
}

// Only the last message asks for an acknowledgement: refusals come in any case, and 4,000
// acknowledgements would only fill the socket.
Bytes EncodeBatch(const Batch& batch, std::uint32_t generation, std::uint32_t sequence) {
  Scratch scratch{};
  Bytes bytes;
  nlmsghdr* const begin = nftnl_batch_begin(scratch.data(), sequence);
  mnl_attr_put_u32(begin, NFNL_BATCH_GENID, htonl(generation));
  Append(bytes, *begin);
  std::uint32_t left = static_cast<std::uint32_t>(batch.messages().size());
  for (const BatchMessage& message : batch.messages()) {
    const Kind kind = KindOf(message.action);
    const int acknowledge = --left == 0 ? NLM_F_ACK : 0;
    nlmsghdr* const out =
        Start(scratch, kind.type, message.table.family, kind.flags | acknowledge, ++sequence);
    PutObject(out, message, sequence);
    Append(bytes, *out);
  }
  Append(bytes, *nftnl_batch_end(scratch.data(), ++sequence));
  return bytes;
}

}  // namespace nomad_bridge::nft::wire
