// Deletes conntrack entries of UDP flows that would bypass a change of the rules.
//
// Why     A UDP flow that was seen before a port was published, while it belonged to another
//         allocation, or while the rules were flushed, has a conntrack entry without, or with the
//         wrong, translation; as long as packets come, it never expires.
// Shapes  Ports in host byte order.
// Match   see UdpFlows. Never the allocation's own port: that would cut connections of others.
// Socket  Best closed last: closing a NETLINK_NETFILTER socket waits until all that was deleted
//         from nf_tables has been freed, some 10 ms.
// Cost    A walk of the whole table (262,144 buckets from 4 GB of memory on): 0.2 ms per UdpFlows
//         where the kernel deletes by filter (6.11). Else, for IPv6 addresses, and for many
//         UdpFlows, one list of all UDP entries per family: 10 to 30 ms, as it locks every bucket.
// Kernel  Without CONFIG_NF_CT_NETLINK nothing is deleted, and that is no error.
// Errors  kKernel, kTryAgain as in request_socket.h. An entry that goes away meanwhile is success,
//         and so is one that a flowtable holds, which cannot be deleted (EBUSY).
// Source  linux/netfilter/nfnetlink_conntrack.h; CTA_FILTER narrows a list since kernel 5.8 and a
//         deletion since 6.11.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "base/ip.h"
#include "netlink/core/netns.h"
#include "netlink/core/request_socket.h"

namespace nomad_bridge::conntrack {

enum class Which {
  kAll,
  kUntranslated,  // no translation
  kUnanswered,    // no translation and no answer: the next packet begins the same flow again
  kRedirected,    // whose destination is translated
};

// Matches the flows with all members that are given: a source; a destination port, with or without
// its address; the address that answers come from, which is where translated packets go.
struct UdpFlows {
  Family family = Family::kIpv4;
  std::optional<Ip> source;
  std::optional<Ip> destination;
  std::optional<std::uint16_t> port;  // of the destination
  std::optional<Ip> answered_by;
  Which which = Which::kAll;

  auto operator<=>(const UdpFlows&) const = default;
};

// One end of connections: the far end of their packets, after translation.
struct Endpoint {
  std::uint8_t protocol = 0;  // IPPROTO_*
  Ip address;
  std::uint16_t port = 0;

  auto operator<=>(const Endpoint&) const = default;
};

// The first port that clients use (net.ipv4.ip_local_port_range). If conntrack has missed the
// beginning of a TCP connection, the ports show which end is the client.
constexpr std::uint16_t kFirstClientPort = 32768;

// A connection: the address that began it, as far as conntrack and the ports show, and the address
// and port that its packets reach, after any translation. The port is 0 for protocols without
// ports.
struct Connection {
  std::uint8_t protocol = 0;  // IPPROTO_*
  Ip from;
  Ip to;
  std::uint16_t port = 0;  // of `to`

  auto operator<=>(const Connection&) const = default;
};

// The first packet of a connection, as it came.
struct Beginning {
  std::uint8_t protocol = 0;  // IPPROTO_TCP or IPPROTO_UDP
  Ip source;
  std::uint16_t source_port = 0;
  Ip destination;
  std::uint16_t destination_port = 0;
};

class Conntrack {
 public:
  [[nodiscard]] static Conntrack In(const netlink::Netns& ns);
  [[nodiscard]] int fd() const { return socket_.fd(); }

  // Returns how many entries that have not ended get their answers from each of `endpoints`, in
  // order. Lists all entries: for commands that people type.
  [[nodiscard]] std::vector<std::size_t> CountAnsweredBy(const std::vector<Endpoint>& endpoints);

  // Gives `mark` to all entries for which `is_cut` returns true, except with kNone. Removes marked
  // entries for which `is_cut` returns false, so that the connection may begin anew. Returns how
  // many were newly marked. Lists all entries.
  enum class More { kNone, kAll };
  std::size_t Cut(std::uint32_t mark,
                  More more,
                  const std::function<bool(const Connection&)>& is_cut);

  // Removes the entry of the connection that began with this packet, outside of any zone.
  void ForgetBegun(const Beginning& beginning);

  // Removes every entry that any of `flows` matches.
  void Forget(const std::vector<UdpFlows>& flows);

  // The same for kernels before 6.11: lists the entries and deletes them one by one. Forget() calls
  // it when needed.
  void ForgetOneByOne(const std::vector<UdpFlows>& flows);

 private:
  explicit Conntrack(netlink::RequestSocket socket) : socket_(std::move(socket)) {}

  netlink::RequestSocket socket_;
};

}  // namespace nomad_bridge::conntrack
