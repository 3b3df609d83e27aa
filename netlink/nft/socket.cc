#include "netlink/nft/socket.h"

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
#include "netlink/core/handles.h"
#include "netlink/nft/encode.h"
#include "netlink/nft/wire.h"

namespace nomad_bridge::nft {
namespace {

// The kernel fills a dump's messages up to the size of the reader's buffer, but not beyond this.
constexpr std::size_t kReceiveBytes = 32768;
// Limits, not memory: a batch of 4,000 elements is sent in one piece, and may be refused 4,000
// times.
constexpr int kSocketBufferBytes = 16 * 1024 * 1024;

using Bytes = wire::Bytes;
using Scratch = wire::Scratch;
using wire::Append;
using wire::Split;
using wire::Start;

// The answer to one request, as far as it has come.
struct Reply {
  Bytes data;
  int error = 0;
  std::string details;
  bool interrupted = false;  // the ruleset changed during a dump: it may be half old, half new
  bool finished = false;
};

// Sorts what was received into `answer`. Other sequence numbers are what is left of a batch that
// was refused.
void Take(const Bytes& received, std::uint32_t sequence, Reply& answer) {
  for (const nlmsghdr* const message : Split(received)) {
    if (message->nlmsg_seq != sequence) {
      continue;
    }
    answer.interrupted = answer.interrupted || (message->nlmsg_flags & NLM_F_DUMP_INTR) != 0;
    if (message->nlmsg_type == NLMSG_ERROR || message->nlmsg_type == NLMSG_DONE) {
      // A dump that breaks off says so in its last message, which begins like an error.
      answer.finished = true;
      answer.error = mnl_nlmsg_get_payload_len(message) < sizeof(int) ? 0 : wire::ErrorOf(*message);
      answer.details = answer.error == 0 ? "" : wire::DetailsOf(*message);
    } else {
      Append(answer.data, *message);
    }
  }
}

std::vector<Element> ElementsIn(const Bytes& answer) {
  std::vector<Element> elements;
  for (const nlmsghdr* const message : Split(answer)) {
    const netlink::NftnlSet set(nftnl_set_alloc());
    if (nftnl_set_elems_nlmsg_parse(message, set.get()) == 0) {
      const std::vector<Element> some = DecodeElements(*set);
      elements.insert(elements.end(), some.begin(), some.end());
    }
  }
  return elements;
}

// What the kernel says about a batch as a whole, under the number of its first message.
bool GenerationPassed(const nlmsghdr& message, const std::string& what) {
  const int error = wire::ErrorOf(message);
  if (error != 0 && error != ERESTART) {
    throw Error(Code::kKernel, Cat("cannot ", what), wire::DetailsOf(message));
  }
  return error == ERESTART;
}

// What it says about one message of the batch that began at `begin`: nothing, if it was content.
void AddRefusal(const nlmsghdr& message, std::uint32_t begin, CommitReply& reply) {
  if (const int error = wire::ErrorOf(message); error != 0) {
    reply.refused.push_back({.message = message.nlmsg_seq - begin - 1,
                             .error = error,
                             .details = wire::DetailsOf(message)});
  }
}

}  // namespace

Socket Socket::In(const netlink::Netns& ns) {
  const std::string what = "open an nf_tables socket";
  UniqueFd fd;
  netlink::InNetns(
      ns, [&] { fd = UniqueFd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER)); });
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
  return Socket(std::move(fd));
}

void Socket::Send(const Messages& messages, const std::string& what) const {
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

Socket::Messages Socket::Receive(Deadline deadline, const std::string& what) const {
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

std::optional<Socket::Messages> Socket::Transact(Messages request, const std::string& what) {
  const Deadline deadline = FromNow(kTimeout);
  while (true) {
    reinterpret_cast<nlmsghdr*>(request.data())->nlmsg_seq = ++sequence_;
    Send(request, what);
    Reply answer;
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

std::uint32_t Socket::Generation() {
  Scratch scratch{};
  Bytes request;
  Append(request, *Start(scratch, NFT_MSG_GETGEN, {}, NLM_F_ACK, 0));
  const Bytes answer = Transact(std::move(request), "read the generation of the nf_tables ruleset")
                           .value_or(Bytes{});
  for (const nlmsghdr* const message : Split(answer)) {
    if (const nlattr* const id = wire::FindAttribute(*message, sizeof(nfgenmsg), NFTA_GEN_ID)) {
      return ntohl(mnl_attr_get_u32(id));
    }
  }
  throw Error(Code::kKernel, "cannot read the generation of the nf_tables ruleset");
}

CommitReply Socket::Commit(const Batch& batch, std::uint32_t generation) {
  const std::string what = "change the nf_tables ruleset";
  const std::uint32_t begin = ++sequence_;
  const std::uint32_t last = begin + static_cast<std::uint32_t>(batch.messages().size());
  sequence_ = last + 1;
  Send(wire::EncodeBatch(batch, generation, begin), what);
  const Deadline deadline = FromNow(kTimeout);
  CommitReply reply;
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

bool Socket::HasTable(const TableId& table) {
  Scratch scratch{};
  Bytes request;
  nlmsghdr* const get = Start(scratch, NFT_MSG_GETTABLE, table.family, NLM_F_ACK, 0);
  nftnl_table_nlmsg_build_payload(get, Encode(table).get());
  Append(request, *get);
  return Transact(std::move(request), Cat("read table ", Text(table))).has_value();
}

std::vector<TableId> Socket::Tables() {
  Scratch scratch{};
  Bytes request;
  Append(request, *Start(scratch, NFT_MSG_GETTABLE, TableFamily::kAny, NLM_F_DUMP, 0));
  const Bytes answer = Transact(std::move(request), "read the tables").value_or(Bytes{});
  std::vector<TableId> tables;
  for (const nlmsghdr* const message : Split(answer)) {
    const netlink::NftnlTable table(nftnl_table_alloc());
    if (nftnl_table_nlmsg_parse(message, table.get()) == 0) {
      tables.push_back(
          {static_cast<TableFamily>(nftnl_table_get_u32(table.get(), NFTNL_TABLE_FAMILY)),
           nftnl_table_get_str(table.get(), NFTNL_TABLE_NAME)});
    }
  }
  return tables;
}

std::vector<Set> Socket::Sets(const TableId& table) {
  Scratch scratch{};
  Bytes request;
  const netlink::NftnlSet which(nftnl_set_alloc());
  nftnl_set_set_str(which.get(), NFTNL_SET_TABLE, table.name.c_str());
  nlmsghdr* const get = Start(scratch, NFT_MSG_GETSET, table.family, NLM_F_DUMP, 0);
  nftnl_set_nlmsg_build_payload(get, which.get());
  Append(request, *get);
  const Bytes answer =
      Transact(std::move(request), Cat("read the sets of table ", Text(table))).value_or(Bytes{});
  std::vector<Set> sets;
  for (const nlmsghdr* const message : Split(answer)) {
    const netlink::NftnlSet set(nftnl_set_alloc());
    if (nftnl_set_nlmsg_parse(message, set.get()) == 0) {
      sets.push_back(DecodeSet(*set));
    }
  }
  return sets;
}

std::optional<Chain> Socket::FindChain(const TableId& table, const std::string& name) {
  Scratch scratch{};
  Bytes request;
  nlmsghdr* const get = Start(scratch, NFT_MSG_GETCHAIN, table.family, NLM_F_ACK, 0);
  nftnl_chain_nlmsg_build_payload(
      get, Encode(table, Chain{.name = name, .hook = {}, .rules = {}}).get());
  Append(request, *get);
  const Bytes answer =
      Transact(std::move(request), Cat("read chain ", name, " of table ", Text(table)))
          .value_or(Bytes{});
  for (const nlmsghdr* const message : Split(answer)) {
    const netlink::NftnlChain chain(nftnl_chain_alloc());
    if (nftnl_chain_nlmsg_parse(message, chain.get()) == 0) {
      return DecodeChain(*chain);
    }
  }
  return std::nullopt;
}

std::vector<Socket::TableChain> Socket::Chains() {
  Scratch scratch{};
  Bytes request;
  Append(request, *Start(scratch, NFT_MSG_GETCHAIN, TableFamily::kAny, NLM_F_DUMP, 0));
  const Bytes answer = Transact(std::move(request), "read the chains").value_or(Bytes{});
  std::vector<TableChain> chains;
  for (const nlmsghdr* const message : Split(answer)) {
    const netlink::NftnlChain chain(nftnl_chain_alloc());
    if (nftnl_chain_nlmsg_parse(message, chain.get()) == 0) {
      const auto family =
          static_cast<TableFamily>(nftnl_chain_get_u32(chain.get(), NFTNL_CHAIN_FAMILY));
      chains.push_back({.table = {family, nftnl_chain_get_str(chain.get(), NFTNL_CHAIN_TABLE)},
                        .chain = DecodeChain(*chain)});
    }
  }
  return chains;
}

std::optional<Element> Socket::FindElement(const TableId& table, const Element& like) {
  Scratch scratch{};
  Bytes request;
  const Element key{.set = like.set, .key = like.key, .data = {}, .comment = {}};
  nlmsghdr* const get = Start(scratch, NFT_MSG_GETSETELEM, table.family, NLM_F_ACK, 0);
  nftnl_set_elems_nlmsg_build_payload(get, Encode(table, key).get());
  Append(request, *get);
  const Bytes answer = Transact(std::move(request),
                                Cat("read an element of set ", like.set, " of table ", Text(table)))
                           .value_or(Bytes{});
  const std::vector<Element> found = ElementsIn(answer);
  return found.empty() ? std::nullopt : std::optional(found.front());
}

std::vector<Element> Socket::Elements(const TableId& table, const std::string& set) {
  Scratch scratch{};
  Bytes request;
  const netlink::NftnlSet which(nftnl_set_alloc());
  nftnl_set_set_str(which.get(), NFTNL_SET_TABLE, table.name.c_str());
  nftnl_set_set_str(which.get(), NFTNL_SET_NAME, set.c_str());
  nlmsghdr* const get = Start(scratch, NFT_MSG_GETSETELEM, table.family, NLM_F_DUMP, 0);
  nftnl_set_elems_nlmsg_build_payload(get, which.get());
  Append(request, *get);
  const Bytes answer =
      Transact(std::move(request), Cat("read the elements of set ", set, " of table ", Text(table)))
          .value_or(Bytes{});
  return ElementsIn(answer);
}

std::vector<KernelRule> Socket::Rules(const TableId& table, const std::string& chain) {
  Scratch scratch{};
  Bytes request;
  nlmsghdr* const get = Start(scratch, NFT_MSG_GETRULE, table.family, NLM_F_DUMP, 0);
  nftnl_rule_nlmsg_build_payload(get, Encode(table, chain, Rule()).get());
  Append(request, *get);
  const Bytes answer = Transact(std::move(request),
                                Cat("read the rules of chain ", chain, " of table ", Text(table)))
                           .value_or(Bytes{});
  std::vector<KernelRule> rules;
  for (const nlmsghdr* const message : Split(answer)) {
    const netlink::NftnlRule rule(nftnl_rule_alloc());
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

}  // namespace nomad_bridge::nft
