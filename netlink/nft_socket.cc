#include "netlink/nft_socket.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string_view>

#include <arpa/inet.h>
#include <libmnl/libmnl.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/error.h"
#include "base/text.h"
#include "netlink/handles.h"
#include "netlink/nft_encode.h"

namespace nomad_bridge {
namespace {

// Enough for one message of ours: a rule of nine expressions takes 600 bytes.
constexpr std::size_t kMaxMessageBytes = 16 * 1024;
// The kernel fills a dump's messages up to the size of the reader's buffer, but not beyond this.
constexpr std::size_t kReceiveBytes = 32 * 1024;
// Limits, not memory: a batch of 4,000 elements is sent in one piece, and may be refused 4,000
// times.
constexpr int kSocketBufferBytes = 16 * 1024 * 1024;

using Bytes = std::vector<char>;
using Scratch = std::array<char, kMaxMessageBytes>;
using Action = NftMessage::Action;

void Append(Bytes& bytes, const nlmsghdr& message) {
  const auto* const first = reinterpret_cast<const char*>(&message);
  bytes.insert(bytes.end(), first, first + message.nlmsg_len);
}

// Pointers into `bytes`, which must outlive them: never pass a temporary.
std::vector<const nlmsghdr*> Split(const Bytes& bytes) {
  std::vector<const nlmsghdr*> messages;
  int left = static_cast<int>(bytes.size());
  const auto* message = reinterpret_cast<const nlmsghdr*>(bytes.data());
  for (; mnl_nlmsg_ok(message, left); message = mnl_nlmsg_next(message, &left)) {
    messages.push_back(message);
  }
  return messages;
}

// 0 for an acknowledgement.
int ErrorOf(const nlmsghdr& message) {
  return -*static_cast<const int*>(mnl_nlmsg_get_payload(&message));
}

// The first attribute of `type` behind a header of `header_bytes`; nullptr if there is none.
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

// The kernel's own words, if it sent any, and the errno's.
std::string DetailsOf(const nlmsghdr& message) {
  const std::string text = ErrnoText(ErrorOf(message));
  if ((message.nlmsg_flags & NLM_F_ACK_TLVS) == 0) {
    return text;
  }
  // The request's payload is not echoed (NETLINK_CAP_ACK), so the attributes come at once.
  const nlattr* const words = FindAttribute(message, sizeof(nlmsgerr), NLMSGERR_ATTR_MSG);
  return words == nullptr ? text : Cat(mnl_attr_get_str(words), ": ", text);
}

// The answer to one request, as far as it has come.
struct Answer {
  Bytes data;
  int error = 0;
  std::string details;
  bool interrupted = false;  // the ruleset changed during a dump: it may be half old, half new
  bool finished = false;
};

// Sorts what was received into `answer`. Other sequence numbers are what is left of a batch that
// was refused.
void Take(const Bytes& received, std::uint32_t sequence, Answer& answer) {
  for (const nlmsghdr* const message : Split(received)) {
    if (message->nlmsg_seq != sequence) {
      continue;
    }
    answer.interrupted = answer.interrupted || (message->nlmsg_flags & NLM_F_DUMP_INTR) != 0;
    if (message->nlmsg_type == NLMSG_ERROR || message->nlmsg_type == NLMSG_DONE) {
      // A dump that breaks off says so in its last message, which begins like an error.
      answer.finished = true;
      answer.error = mnl_nlmsg_get_payload_len(message) < sizeof(int) ? 0 : ErrorOf(*message);
      answer.details = answer.error == 0 ? "" : DetailsOf(*message);
    } else {
      Append(answer.data, *message);
    }
  }
}

nlmsghdr* Start(Scratch& scratch, int type, NftFamily family, int flags, std::uint32_t sequence) {
  return nftnl_nlmsg_build_hdr(scratch.data(),
                               static_cast<std::uint16_t>(type),
                               static_cast<std::uint16_t>(family),
                               static_cast<std::uint16_t>(flags),
                               sequence);
}

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

void PutObject(nlmsghdr* out, const NftMessage& message, std::uint32_t id) {
  if (const auto* const set = std::get_if<NftSet>(&message.object)) {
    nftnl_set_nlmsg_build_payload(out, Encode(message.table, *set, id).get());
  } else if (const auto* const chain = std::get_if<NftChain>(&message.object)) {
    nftnl_chain_nlmsg_build_payload(out, Encode(message.table, *chain).get());
  } else if (const auto* const rule = std::get_if<NftRule>(&message.object)) {
    nftnl_rule_nlmsg_build_payload(out, Encode(message.table, message.chain, *rule).get());
  } else if (const auto* const element = std::get_if<NftElement>(&message.object)) {
    nftnl_set_elems_nlmsg_build_payload(out, Encode(message.table, *element).get());
  } else if (message.chain.empty()) {
    nftnl_table_nlmsg_build_payload(out, Encode(message.table).get());
  } else {
    const NftnlRule which = Encode(message.table, message.chain, NftRule());
    if (message.handle != 0) {
      nftnl_rule_set_u64(which.get(), NFTNL_RULE_HANDLE, message.handle);
    }
    nftnl_rule_nlmsg_build_payload(out, which.get());
  }
}

// Begin, the messages numbered from `sequence` + 1, end. Only the last one asks for an
// acknowledgement: refusals come in any case, and 4,000 acknowledgements would only fill the
// socket.
Bytes EncodeBatch(const NftBatch& batch, std::uint32_t generation, std::uint32_t sequence) {
  Scratch scratch{};
  Bytes bytes;
  nlmsghdr* const begin = nftnl_batch_begin(scratch.data(), sequence);
  mnl_attr_put_u32(begin, NFNL_BATCH_GENID, htonl(generation));
  Append(bytes, *begin);
  std::uint32_t left = static_cast<std::uint32_t>(batch.messages().size());
  for (const NftMessage& message : batch.messages()) {
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

std::vector<NftElement> ElementsIn(const Bytes& answer) {
  std::vector<NftElement> elements;
  for (const nlmsghdr* const message : Split(answer)) {
    const NftnlSet set(nftnl_set_alloc());
    if (nftnl_set_elems_nlmsg_parse(message, set.get()) == 0) {
      const std::vector<NftElement> some = DecodeElements(*set);
      elements.insert(elements.end(), some.begin(), some.end());
    }
  }
  return elements;
}

}  // namespace

NftSocket NftSocket::In(const Netns& ns) {
  const std::string what = "open an nf_tables socket";
  UniqueFd fd;
  InNetns(ns,
          [&] { fd = UniqueFd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER)); });
  if (!fd) {
    throw ErrnoError(Code::kKernel, Cat("cannot ", what));
  }
  const int on = 1;
  // Best effort, all of them: without them only the words of an error are fewer, and without
  // CAP_NET_ADMIN, which the last two need, no change of ours would be accepted anyway.
  ::setsockopt(fd.get(), SOL_NETLINK, NETLINK_EXT_ACK, &on, sizeof on);
  ::setsockopt(fd.get(), SOL_NETLINK, NETLINK_CAP_ACK, &on, sizeof on);
  ::setsockopt(
      fd.get(), SOL_SOCKET, SO_SNDBUFFORCE, &kSocketBufferBytes, sizeof kSocketBufferBytes);
  ::setsockopt(
      fd.get(), SOL_SOCKET, SO_RCVBUFFORCE, &kSocketBufferBytes, sizeof kSocketBufferBytes);
  return NftSocket(std::move(fd));
}

void NftSocket::Send(const Messages& messages, const std::string& what) const {
  sockaddr_nl kernel{};
  kernel.nl_family = AF_NETLINK;
  const ssize_t sent = ::sendto(fd_.get(),
                                messages.data(),
                                messages.size(),
                                0,
                                reinterpret_cast<const sockaddr*>(&kernel),
                                sizeof kernel);
  if (sent < 0) {
    throw ErrnoError(Code::kKernel, Cat("cannot ", what));
  }
}

NftSocket::Messages NftSocket::Receive(Deadline deadline, const std::string& what) const {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  pollfd readable{.fd = fd_.get(), .events = POLLIN, .revents = 0};
  const int ready = ::poll(&readable, 1, std::max(0, static_cast<int>(left.count())));
  if (ready == 0) {
    throw Error(Code::kTryAgain, Cat("cannot ", what), "the kernel did not answer in time");
  }
  Messages received(kReceiveBytes);
  const ssize_t bytes =
      ready < 0 ? -1 : ::recv(fd_.get(), received.data(), received.size(), MSG_DONTWAIT);
  if (bytes < 0 && errno != EINTR && errno != EAGAIN) {
    throw ErrnoError(Code::kKernel, Cat("cannot ", what));
  }
  received.resize(static_cast<std::size_t>(std::max<ssize_t>(bytes, 0)));
  return received;
}

std::optional<NftSocket::Messages> NftSocket::Ask(Messages request, const std::string& what) {
  const Deadline deadline = FromNow(kPatience);
  while (true) {
    reinterpret_cast<nlmsghdr*>(request.data())->nlmsg_seq = ++sequence_;
    Send(request, what);
    Answer answer;
    while (!answer.finished) {
      Take(Receive(deadline, what), sequence_, answer);
    }
    if (answer.error == ENOENT) {
      return std::nullopt;
    }
    if (answer.error == 0 && !answer.interrupted) {
      return std::move(answer.data);
    }
    const bool again = answer.interrupted || answer.error == EINTR;
    if (!again || std::chrono::steady_clock::now() > deadline) {
      throw Error(again ? Code::kTryAgain : Code::kKernel, Cat("cannot ", what), answer.details);
    }
  }
}

std::uint32_t NftSocket::Generation() {
  Scratch scratch{};
  Bytes request;
  Append(request, *Start(scratch, NFT_MSG_GETGEN, {}, NLM_F_ACK, 0));
  const Bytes answer =
      Ask(std::move(request), "read the generation of the nf_tables ruleset").value_or(Bytes{});
  for (const nlmsghdr* const message : Split(answer)) {
    if (const nlattr* const id = FindAttribute(*message, sizeof(nfgenmsg), NFTA_GEN_ID)) {
      return ntohl(mnl_attr_get_u32(id));
    }
  }
  throw Error(Code::kKernel, "cannot read the generation of the nf_tables ruleset");
}

NftReply NftSocket::Commit(const NftBatch& batch, std::uint32_t generation) {
  const std::string what = "change the nf_tables ruleset";
  const std::uint32_t begin = ++sequence_;
  const std::uint32_t last = begin + static_cast<std::uint32_t>(batch.messages().size());
  sequence_ = last + 1;
  Send(EncodeBatch(batch, generation, begin), what);
  const Deadline deadline = FromNow(kPatience);
  NftReply reply;
  for (bool finished = false; !finished;) {
    const Messages received = Receive(deadline, what);
    for (const nlmsghdr* const message : Split(received)) {
      const bool ours = message->nlmsg_seq >= begin && message->nlmsg_seq <= last;
      if (!ours || message->nlmsg_type != NLMSG_ERROR) {
        continue;
      }
      const int error = ErrorOf(*message);
      // The kernel speaks about the batch as a whole under its first number.
      if (message->nlmsg_seq == begin && error != 0 && error != ERESTART) {
        throw Error(Code::kKernel, Cat("cannot ", what), DetailsOf(*message));
      }
      reply.generation_passed = reply.generation_passed || error == ERESTART;
      finished = finished || message->nlmsg_seq == last || reply.generation_passed;
      if (error != 0 && error != ERESTART) {
        reply.refused.push_back({.message = message->nlmsg_seq - begin - 1,
                                 .error = error,
                                 .details = DetailsOf(*message)});
      }
    }
  }
  return reply;
}

bool NftSocket::HasTable(const NftTableId& table) {
  Scratch scratch{};
  Bytes request;
  nlmsghdr* const get = Start(scratch, NFT_MSG_GETTABLE, table.family, NLM_F_ACK, 0);
  nftnl_table_nlmsg_build_payload(get, Encode(table).get());
  Append(request, *get);
  return Ask(std::move(request), Cat("read table ", Text(table))).has_value();
}

std::vector<NftSet> NftSocket::Sets(const NftTableId& table) {
  Scratch scratch{};
  Bytes request;
  const NftnlSet which(nftnl_set_alloc());
  nftnl_set_set_str(which.get(), NFTNL_SET_TABLE, table.name.c_str());
  nlmsghdr* const get = Start(scratch, NFT_MSG_GETSET, table.family, NLM_F_DUMP, 0);
  nftnl_set_nlmsg_build_payload(get, which.get());
  Append(request, *get);
  const Bytes answer =
      Ask(std::move(request), Cat("read the sets of table ", Text(table))).value_or(Bytes{});
  std::vector<NftSet> sets;
  for (const nlmsghdr* const message : Split(answer)) {
    const NftnlSet set(nftnl_set_alloc());
    if (nftnl_set_nlmsg_parse(message, set.get()) == 0) {
      sets.push_back(DecodeSet(*set));
    }
  }
  return sets;
}

std::optional<NftChain> NftSocket::FindChain(const NftTableId& table, const std::string& name) {
  Scratch scratch{};
  Bytes request;
  nlmsghdr* const get = Start(scratch, NFT_MSG_GETCHAIN, table.family, NLM_F_ACK, 0);
  nftnl_chain_nlmsg_build_payload(
      get, Encode(table, NftChain{.name = name, .hook = {}, .rules = {}}).get());
  Append(request, *get);
  const Bytes answer = Ask(std::move(request), Cat("read chain ", name, " of table ", Text(table)))
                           .value_or(Bytes{});
  for (const nlmsghdr* const message : Split(answer)) {
    const NftnlChain chain(nftnl_chain_alloc());
    if (nftnl_chain_nlmsg_parse(message, chain.get()) == 0) {
      return DecodeChain(*chain);
    }
  }
  return std::nullopt;
}

std::optional<NftElement> NftSocket::FindElement(const NftTableId& table, const NftElement& like) {
  Scratch scratch{};
  Bytes request;
  const NftElement key{.set = like.set, .key = like.key, .data = {}, .comment = {}};
  nlmsghdr* const get = Start(scratch, NFT_MSG_GETSETELEM, table.family, NLM_F_ACK, 0);
  nftnl_set_elems_nlmsg_build_payload(get, Encode(table, key).get());
  Append(request, *get);
  const Bytes answer =
      Ask(std::move(request), Cat("read an element of set ", like.set, " of table ", Text(table)))
          .value_or(Bytes{});
  const std::vector<NftElement> found = ElementsIn(answer);
  return found.empty() ? std::nullopt : std::optional(found.front());
}

std::vector<NftElement> NftSocket::Elements(const NftTableId& table, const std::string& set) {
  Scratch scratch{};
  Bytes request;
  const NftnlSet which(nftnl_set_alloc());
  nftnl_set_set_str(which.get(), NFTNL_SET_TABLE, table.name.c_str());
  nftnl_set_set_str(which.get(), NFTNL_SET_NAME, set.c_str());
  nlmsghdr* const get = Start(scratch, NFT_MSG_GETSETELEM, table.family, NLM_F_DUMP, 0);
  nftnl_set_elems_nlmsg_build_payload(get, which.get());
  Append(request, *get);
  const Bytes answer =
      Ask(std::move(request), Cat("read the elements of set ", set, " of table ", Text(table)))
          .value_or(Bytes{});
  return ElementsIn(answer);
}

std::vector<NftKernelRule> NftSocket::Rules(const NftTableId& table, const std::string& chain) {
  Scratch scratch{};
  Bytes request;
  nlmsghdr* const get = Start(scratch, NFT_MSG_GETRULE, table.family, NLM_F_DUMP, 0);
  nftnl_rule_nlmsg_build_payload(get, Encode(table, chain, NftRule()).get());
  Append(request, *get);
  const Bytes answer =
      Ask(std::move(request), Cat("read the rules of chain ", chain, " of table ", Text(table)))
          .value_or(Bytes{});
  std::vector<NftKernelRule> rules;
  for (const nlmsghdr* const message : Split(answer)) {
    const NftnlRule rule(nftnl_rule_alloc());
    const bool understood = nftnl_rule_nlmsg_parse(message, rule.get()) == 0;
    rules.push_back(DecodeRule(*rule));
    if (!understood) {
      // A strangers' rule with an expression newer than our libnftnl: all we need to know is that
      // it is none of ours.
      rules.back().expressions.emplace_back("[ unknown ]");
    }
  }
  return rules;
}

}  // namespace nomad_bridge
