#include "netlink/nft/socket.h"

#include <algorithm>
#include <cerrno>
#include <string_view>

#include <arpa/inet.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <sys/socket.h>

#include "base/file_lock.h"
#include "base/list.h"
#include "base/text.h"
#include "netlink/core/message.h"
#include "netlink/nft/codec.h"

namespace nomad_bridge::nft {
namespace {

// These are limits, and take no memory by themselves. A batch of 4,000 elements is sent in one
// piece, and the kernel may reply with 4,000 refusals.
constexpr int kSocketBufferBytes = 16 * 1024 * 1024;

// `type` is NFT_MSG_GET...; without NLM_F_DUMP the answer is one message.
netlink::Message GetRequest(int type, TableFamily family, int flags = 0) {
  return netlink::NetfilterMessage(
      NFNL_SUBSYS_NFTABLES, type, flags, static_cast<std::uint8_t>(family));
}

// Requests the rules of `chain`, or of every chain if `chain` is empty.
netlink::Message RulesRequest(const TableId& table, const std::string& chain = {}) {
  netlink::Message request = GetRequest(NFT_MSG_GETRULE, table.family, NLM_F_DUMP);
  nftnl_rule_nlmsg_build_payload(request.header(), Encode(table, chain, Rule()).get());
  return request;
}

std::string_view BytesOf(const nlmsghdr& message) {
  return {static_cast<const char*>(static_cast<const void*>(&message)), message.nlmsg_len};
}

bool ContainsAny(const nlmsghdr& message, const std::vector<std::string>& texts) {
  const std::string_view bytes = BytesOf(message);
  return std::ranges::any_of(
      texts, [&](const std::string& text) { return bytes.find(text) != std::string_view::npos; });
}

// Returns what `read` finds in the messages of the answer. If there are `texts`, reads only
// messages that contain one of them. Returns nothing if the requested object is absent.
template <typename T>
std::vector<T> List(netlink::RequestSocket& socket,
                    const netlink::Message& request,
                    const std::string& what,
                    std::vector<T> (*read)(const nlmsghdr&),
                    const std::vector<std::string>& texts = {}) {
  std::vector<T> found;
  const netlink::Reply reply = socket.TransactOrThrow(request, what, {ENOENT});
  for (const netlink::NlMessage& message : reply.messages) {
    const nlmsghdr& header = *nlmsg_hdr(message.get());
    if (texts.empty() || ContainsAny(header, texts)) {
      Append(found, read(header));
    }
  }
  return found;
}

template <typename T>
std::vector<T> ListElements(netlink::RequestSocket& socket,
                            const TableId& table,
                            const std::string& set,
                            std::vector<T> (*read)(const nlmsghdr&)) {
  const netlink::Message request = GetRequest(NFT_MSG_GETSETELEM, table.family, NLM_F_DUMP);
  nftnl_set_elems_nlmsg_build_payload(request.header(), Encode(table, set).get());
  const std::string what =
      Format("cannot read the elements of set {} of table {}", set, Text(table));
  return List(socket, request, what, read);
}

template <typename T>
std::optional<T> First(std::vector<T> found) {
  return found.empty() ? std::nullopt : std::optional(std::move(found.front()));
}

}  // namespace

Socket Socket::In(const netlink::Netns& ns) {
  netlink::RequestSocket socket = netlink::RequestSocket::In(ns, NETLINK_NETFILTER);
  // Failures are ignored: these options need CAP_NET_ADMIN, and without it the kernel refuses all
  // our changes anyway.
  for (const int option : {SO_SNDBUFFORCE, SO_RCVBUFFORCE}) {
    static_cast<void>(::setsockopt(
        socket.fd(), SOL_SOCKET, option, &kSocketBufferBytes, sizeof kSocketBufferBytes));
  }
  return Socket(std::move(socket));
}

Socket Socket::TryIn(const netlink::Netns& ns) {
  try {
    Socket socket = In(ns);
    static_cast<void>(socket.Generation());
    return socket;
  } catch (const Error& error) {
    return Socket(netlink::RequestSocket(error));
  }
}

std::uint32_t Socket::Generation() {
  const std::string what = "cannot read the generation of the nf_tables ruleset";
  const netlink::Reply reply =
      socket_.TransactOrThrow(GetRequest(NFT_MSG_GETGEN, TableFamily::kAny), what);
  for (const netlink::NlMessage& message : reply.messages) {
    const netlink::Attributes attributes(nlmsg_hdr(message.get()), sizeof(nfgenmsg));
    if (const std::optional<std::uint32_t> generation = attributes.U32(NFTA_GEN_ID)) {
      return ntohl(*generation);
    }
  }
  throw Error(Code::kKernel, what);
}

CommitReply Socket::Commit(const Batch& batch, std::optional<std::uint32_t> generation) {
  const std::string what = "cannot change the nf_tables ruleset";
  const auto count = static_cast<std::uint32_t>(batch.messages().size());
  const std::uint32_t begin = socket_.ReserveSequence(count + 2);
  CommitReply commit;
  netlink::Reply whole;
  const auto is_last = [&](nlmsghdr& message) {
    if (message.nlmsg_type != NLMSG_ERROR) {
      return false;
    }
    netlink::Reply reply;
    reply.ReadOutcome(message);
    const std::uint32_t place = message.nlmsg_seq - begin;  // 0: the reply is about the whole batch
    // If somebody changes the ruleset while the kernel loads a module for a message, the kernel
    // reports the stale generation for that message.
    if (place == 0 || (place <= count && reply.error == ERESTART)) {
      whole = std::move(reply);
      return whole.error != 0;
    }
    if (place <= count && reply.error != 0) {
      commit.refused.push_back(
          {.message = place - 1, .error = reply.error, .details = reply.Details()});
    }
    return place == count;
  };
  socket_.Exchange(EncodeBatch(batch, generation, begin), what, is_last);
  if (whole.error != 0 && whole.error != ERESTART) {
    throw netlink::NetlinkError(what, whole);
  }
  commit.generation_passed = whole.error == ERESTART;
  return commit;
}

std::optional<KernelTable> Socket::FindTable(const TableId& table) {
  const netlink::Message request = GetRequest(NFT_MSG_GETTABLE, table.family);
  nftnl_table_nlmsg_build_payload(request.header(), Encode(table).get());
  return First(List(socket_, request, Cat("cannot read table ", Text(table)), &ReadTable));
}

std::vector<KernelTable> Socket::Tables() {
  const netlink::Message request = GetRequest(NFT_MSG_GETTABLE, TableFamily::kAny, NLM_F_DUMP);
  return List(socket_, request, "cannot read the tables", &ReadTable);
}

std::vector<Set> Socket::Sets(const TableId& table) {
  const netlink::Message request = GetRequest(NFT_MSG_GETSET, table.family, NLM_F_DUMP);
  nftnl_set_nlmsg_build_payload(request.header(), Encode(table, std::string()).get());
  return List(socket_, request, Cat("cannot read the sets of table ", Text(table)), &ReadSet);
}

std::optional<Socket::TableChain> Socket::FindChain(const TableId& table, const std::string& name) {
  const netlink::Message request = GetRequest(NFT_MSG_GETCHAIN, table.family);
  nftnl_chain_nlmsg_build_payload(request.header(), Encode(table, Chain{.name = name}).get());
  const std::string what = Format("cannot read chain {} of table {}", name, Text(table));
  return First(List(socket_, request, what, &ReadChain));
}

std::vector<Socket::TableChain> Socket::Chains(TableFamily family) {
  const netlink::Message request = GetRequest(NFT_MSG_GETCHAIN, family, NLM_F_DUMP);
  return List(socket_, request, "cannot read the chains", &ReadChain);
}

std::optional<Element> Socket::FindElement(const TableId& table, const Element& like) {
  return FindElements({{table, like}}).front();
}

std::vector<std::optional<Element>> Socket::FindElements(
    const std::vector<std::pair<TableId, Element>>& likes) {
  const auto request = [&](std::size_t i) {
    const auto& [table, like] = likes[i];
    netlink::Message message = GetRequest(NFT_MSG_GETSETELEM, table.family);
    const Element key{.set = like.set, .key = like.key};
    nftnl_set_elems_nlmsg_build_payload(message.header(), Encode(table, key).get());
    return message;
  };
  const auto what = [&](std::size_t i) {
    const auto& [table, like] = likes[i];
    return Format("cannot read an element of set {} of table {}", like.set, Text(table));
  };
  std::vector<std::optional<Element>> found;
  for (const netlink::Reply& reply :
       socket_.TransactEach(likes.size(), request, likes.empty() ? "" : what(0))) {
    if (reply.error != 0 && reply.error != ENOENT) {
      throw netlink::NetlinkError(what(found.size()), reply);
    }
    found.push_back(reply.messages.empty()
                        ? std::nullopt
                        : First(ReadElements(*nlmsg_hdr(reply.messages.front().get()))));
  }
  return found;
}

std::vector<Element> Socket::Elements(const TableId& table, const std::string& set) {
  return ListElements(socket_, table, set, &ReadElements);
}

std::vector<Socket::Noted> Socket::NotedIn(const TableId& table, const std::string& set) {
  return ListElements(socket_, table, set, &ReadNoted);
}

std::vector<Counter> Socket::Counters(const TableId& table) {
  const netlink::Message request = GetRequest(NFT_MSG_GETOBJ, table.family, NLM_F_DUMP);
  nftnl_obj_nlmsg_build_payload(request.header(), Encode(table, Counter()).get());
  return List(
      socket_, request, Cat("cannot read the counters of table ", Text(table)), &ReadCounter);
}

std::vector<KernelRule> Socket::Rules(const TableId& table,
                                      const std::string& chain,
                                      const std::vector<std::string>& texts) {
  const netlink::Message request = RulesRequest(table, chain);
  const std::string of_chain = chain.empty() ? "" : Format("chain {} of ", chain);
  const std::string what = Format("cannot read the rules of {}table {}", of_chain, Text(table));
  return List(socket_, request, what, &ReadRule, texts);
}

std::uint64_t Socket::HashOfRules(const TableId& table) {
  const netlink::Reply reply = socket_.TransactOrThrow(
      RulesRequest(table), Cat("cannot read the rules of table ", Text(table)), {ENOENT});
  const std::optional<KernelTable> in_kernel = FindTable(table);
  std::string hashed = in_kernel && in_kernel->is_dormant ? "dormant\n" : "";
  for (const netlink::NlMessage& message : reply.messages) {
    const netlink::Attributes rule(nlmsg_hdr(message.get()), sizeof(nfgenmsg));
    // Not its handle, which is another one if the same rule is loaded again.
    for (const int attribute : {NFTA_RULE_CHAIN, NFTA_RULE_EXPRESSIONS, NFTA_RULE_USERDATA}) {
      const std::span<const std::uint8_t> bytes = rule.Bytes(attribute);
      hashed.append(bytes.begin(), bytes.end());
    }
  }
  // Do not hash the bytes of the chains: they contain how many elements lead to each chain, and
  // this number changes with every attachment.
  for (const TableChain& found : Chains(table.family)) {
    if (found.table == table && found.chain.hook) {
      const Hook& hook = *found.chain.hook;
      hashed += Format("{} {} {} {} {}\n",
                       found.chain.name,
                       hook.type,
                       static_cast<int>(hook.point),
                       hook.priority,
                       hook.drops ? "drop" : "accept");
    }
  }
  return StableHash(hashed);
}

void RetryOnGenerations(Socket& socket,
                        const std::string& what,
                        std::optional<std::uint32_t> first,
                        const std::function<bool(std::uint32_t)>& attempt) {
  const Deadline deadline = FromNow(kTimeout);
  while (!attempt(first ? *first : socket.Generation())) {
    first.reset();
    if (std::chrono::steady_clock::now() > deadline) {
      throw Error(Code::kTryAgain,
                  Cat("cannot ", what),
                  "other programs keep changing the nf_tables ruleset");
    }
  }
}

Error ErrorOf(const Batch& batch, const CommitReply& reply) {
  const Refusal& first = reply.refused.front();
  return {Code::kKernel, Cat("cannot ", Text(batch.messages()[first.message])), first.details};
}

bool TryCommit(Socket& socket, const Batch& batch, std::uint32_t generation) {
  if (batch.empty()) {
    return true;
  }
  const CommitReply reply = socket.Commit(batch, generation);
  if (!reply.refused.empty()) {
    throw ErrorOf(batch, reply);
  }
  return reply.done();
}

}  // namespace nomad_bridge::nft
