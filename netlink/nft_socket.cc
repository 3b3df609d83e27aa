#include "netlink/nft_socket.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>

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
#include "netlink/nft_wire.h"

namespace nomad_bridge {
namespace {

// The kernel fills a dump's messages up to the size of the reader's buffer, but not beyond this.
constexpr std::size_t kReceiveBytes = 32768;
// Limits, not memory: a batch of 4,000 elements is sent in one piece, and may be refused 4,000
// times.
constexpr int kSocketBufferBytes = 16 * 1024 * 1024;

using Bytes = nft_wire::Bytes;
using Scratch = nft_wire::Scratch;
using nft_wire::Append;
using nft_wire::Split;
using nft_wire::Start;

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
      answer.error =
          mnl_nlmsg_get_payload_len(message) < sizeof(int) ? 0 : nft_wire::ErrorOf(*message);
      answer.details = answer.error == 0 ? "" : nft_wire::DetailsOf(*message);
    } else {
      Append(answer.data, *message);
    }
  }
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

// What the kernel says about a batch as a whole, under the number of its first message.
bool GenerationPassed(const nlmsghdr& message, const std::string& what) {
  const int error = nft_wire::ErrorOf(message);
  if (error != 0 && error != ERESTART) {
    throw Error(Code::kKernel, Cat("cannot ", what), nft_wire::DetailsOf(message));
  }
  return error == ERESTART;
}

// What it says about one message of the batch that began at `begin`: nothing, if it was content.
void AddRefusal(const nlmsghdr& message, std::uint32_t begin, NftReply& reply) {
  if (const int error = nft_wire::ErrorOf(message); error != 0) {
    reply.refused.push_back({.message = message.nlmsg_seq - begin - 1,
                             .error = error,
                             .details = nft_wire::DetailsOf(message)});
  }
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
  std::array<char, kReceiveBytes> buffer;  // on the stack: mostly a few bytes come
  const ssize_t bytes =
      ready < 0 ? -1 : ::recv(fd_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (bytes < 0 && errno != EINTR && errno != EAGAIN) {
    throw ErrnoError(Code::kKernel, Cat("cannot ", what));
  }
  return {buffer.begin(), buffer.begin() + std::max<ssize_t>(bytes, 0)};
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
    if (const nlattr* const id = nft_wire::FindAttribute(*message, sizeof(nfgenmsg), NFTA_GEN_ID)) {
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
  Send(nft_wire::EncodeBatch(batch, generation, begin), what);
  const Deadline deadline = FromNow(kPatience);
  NftReply reply;
  bool finished = false;
  while (!finished) {
    const Messages received = Receive(deadline, what);
    for (const nlmsghdr* const message : Split(received)) {
      const bool answer = message->nlmsg_type == NLMSG_ERROR;
      if (answer && message->nlmsg_seq == begin) {
        reply.generation_passed = GenerationPassed(*message, what);
      } else if (answer && message->nlmsg_seq > begin && message->nlmsg_seq <= last) {
        AddRefusal(*message, begin, reply);
      }
      finished = finished || reply.generation_passed || (answer && message->nlmsg_seq == last);
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

std::vector<NftTableId> NftSocket::Tables() {
  Scratch scratch{};
  Bytes request;
  Append(request, *Start(scratch, NFT_MSG_GETTABLE, NftFamily::kAny, NLM_F_DUMP, 0));
  const Bytes answer = Ask(std::move(request), "read the tables").value_or(Bytes{});
  std::vector<NftTableId> tables;
  for (const nlmsghdr* const message : Split(answer)) {
    const NftnlTable table(nftnl_table_alloc());
    if (nftnl_table_nlmsg_parse(message, table.get()) == 0) {
      tables.push_back(
          {static_cast<NftFamily>(nftnl_table_get_u32(table.get(), NFTNL_TABLE_FAMILY)),
           nftnl_table_get_str(table.get(), NFTNL_TABLE_NAME)});
    }
  }
  return tables;
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

std::vector<NftSocket::TableChain> NftSocket::Chains() {
  Scratch scratch{};
  Bytes request;
  Append(request, *Start(scratch, NFT_MSG_GETCHAIN, NftFamily::kAny, NLM_F_DUMP, 0));
  const Bytes answer = Ask(std::move(request), "read the chains").value_or(Bytes{});
  std::vector<TableChain> chains;
  for (const nlmsghdr* const message : Split(answer)) {
    const NftnlChain chain(nftnl_chain_alloc());
    if (nftnl_chain_nlmsg_parse(message, chain.get()) == 0) {
      const auto family =
          static_cast<NftFamily>(nftnl_chain_get_u32(chain.get(), NFTNL_CHAIN_FAMILY));
      chains.push_back({.table = {family, nftnl_chain_get_str(chain.get(), NFTNL_CHAIN_TABLE)},
                        .chain = DecodeChain(*chain)});
    }
  }
  return chains;
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
