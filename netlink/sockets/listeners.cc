#include "netlink/sockets/listeners.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <initializer_list>

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/sock_diag.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "netlink/core/message.h"

namespace nomad_bridge::sockets {
namespace {

// The kernel's numbers of TCP states. The kernel uses them for UDP, too: an unconnected socket has
// the state "close".
constexpr int kTcpClose = 7;
constexpr int kTcpListen = 10;

netlink::Message ListRequest(unsigned char family, Protocol protocol) {
  return {
      SOCK_DIAG_BY_FAMILY,
      NLM_F_DUMP,
      inet_diag_req_v2{.sdiag_family = family,
                       .sdiag_protocol = static_cast<std::uint8_t>(protocol),
                       .idiag_states = 1U << (protocol == Protocol::kTcp ? kTcpListen : kTcpClose),
                       .id = {.idiag_cookie = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE}}}};
}

Listener ReadListener(const inet_diag_msg& head,
                      const netlink::Attributes& attributes,
                      Protocol protocol) {
  const std::span<const std::uint8_t> source(
      static_cast<const std::uint8_t*>(static_cast<const void*>(head.id.idiag_src)),
      head.idiag_family == AF_INET ? 4 : 16);
  const Ip address(source);
  return {.protocol = protocol,
          .address = address,
          .both_families = head.idiag_family == AF_INET6 && address.IsUnspecified() &&
                           attributes.U8(INET_DIAG_SKV6ONLY) == 0,
          .port = ntohs(head.id.idiag_sport),
          .link = static_cast<int>(head.id.idiag_if),
          .inode = head.idiag_inode,
          .waiting = head.idiag_rqueue,
          .backlog = head.idiag_wqueue};
}

bool HasOpen(const std::string& pid, const std::string& target) {
  const std::string directory = Cat("/proc/", pid, "/fd");
  const std::vector<std::string> descriptors = Entries(directory);
  return std::ranges::any_of(descriptors, [&](const std::string& descriptor) {
    std::array<char, 64> link{};
    const ssize_t size =
        ::readlink(Cat(directory, '/', descriptor).c_str(), link.data(), link.size());
    return size > 0 && std::string_view(link.data(), static_cast<std::size_t>(size)) == target;
  });
}

Process ReadProcess(const std::string& pid) {
  std::string name = FindFile(Cat("/proc/", pid, "/comm")).value_or("");
  name.erase(name.find_last_not_of('\n') + 1);
  // "1234 (nginx) S ...": a name may hold anything, also a parenthesis.
  const std::string stat = FindFile(Cat("/proc/", pid, "/stat")).value_or("");
  const std::size_t state = stat.rfind(')');
  const bool is_stopped =
      state + 2 < stat.size() && std::string_view("Tt").find(stat[state + 2]) != stat.npos;
  return {.id = pid, .name = std::move(name), .stopped = is_stopped};
}

}  // namespace

bool Listener::Accepts(const Ip& destination) const {
  return address == destination ||
         (address.IsUnspecified() && (both_families || address.family() == destination.family()));
}

ListenerLists ListenerLists::In(const netlink::Netns& ns) {
  return ListenerLists(netlink::RequestSocket::In(ns, NETLINK_SOCK_DIAG));
}

const std::vector<Listener>& ListenerLists::Of(Protocol protocol) {
  const auto [known, is_new] = lists_.try_emplace(protocol);
  std::vector<Listener>& listeners = known->second;
  if (!is_new) {
    return listeners;
  }
  for (const auto family : std::initializer_list<unsigned char>{AF_INET, AF_INET6}) {
    const netlink::Reply reply = socket_.TransactOrThrow(
        ListRequest(family, protocol), "cannot list the node's sockets", {ENOENT, EINVAL});
    netlink::ForEachMessage<inet_diag_msg>(
        reply, [&](const inet_diag_msg& head, const netlink::Attributes& attributes) {
          listeners.push_back(ReadListener(head, attributes, protocol));
        });
  }
  return listeners;
}

std::optional<Process> FindHolder(std::uint32_t inode) {
  const std::string target = Format("socket:[{}]", inode);
  for (const std::string& pid : Entries("/proc")) {
    try {
      if (pid.find_first_not_of("0123456789") == pid.npos && HasOpen(pid, target)) {
        return ReadProcess(pid);
      }
    } catch (const Error&) {
      continue;  // the process has ended, or we may not look at its descriptors
    }
  }
  return std::nullopt;
}

std::string HolderOf(std::uint32_t inode) {
  const std::optional<Process> holder = FindHolder(inode);
  return holder ? Format("process {} '{}'", holder->id, Printable(holder->name))
                : "a process that cannot be seen from here";
}

}  // namespace nomad_bridge::sockets
