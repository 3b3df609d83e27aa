// Lists conntrack's entries. Deletes the entries of UDP flows that would bypass a change of the
// rules.
//
// Why     The conntrack entry of a UDP flow has no translation, or a wrong one, if the flow began
//         before its port was published, while the port belonged to another allocation, or while
//         the rules were flushed. The entry does not expire as long as packets come.
// Shapes  Ports in host byte order.
// Match   See UdpFlows. Match published ports of the node, never the container's own port:
//         connections of others use the same number.
// Socket  Close it last: closing a NETLINK_NETFILTER socket waits until the kernel has freed
//         everything that was deleted from nf_tables, some 10 ms.
// Cost    If the kernel deletes by filter (6.11): a walk of the whole table per UdpFlows, 0.2 ms
//         (262,144 buckets from 4 GB of memory on). On older kernels, for IPv6 addresses and for
//         many UdpFlows: one list of all UDP entries per family, 10 to 30 ms, because it locks
//         every bucket.
// Kernel  Without CONFIG_NF_CT_NETLINK nothing is deleted, and that is no error.
// Errors  kKernel, kTryAgain as in request_socket.h. It is no error if an entry is already gone, or
//         cannot be deleted because a flowtable holds it (EBUSY).
// Source  linux/netfilter/nfnetlink_conntrack.h; CTA_FILTER narrows a list since kernel 5.8 and a
//         deletion since 6.11.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
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
  kRedirected,    // the destination is translated
};

// Matches the UDP flows that have all members that are set. Callers set one of these: the source;
// the port of the destination, with or without its address; source, destination and port; or
// `answered_by`, the address that answers come from and that packets reach after translation.
struct UdpFlows {
  Family family = Family::kIpv4;
  std::optional<Ip> source;
  std::optional<Ip> destination;
  std::optional<std::uint16_t> port;  // of the destination
  std::optional<Ip> answered_by;
  Which which = Which::kAll;

  auto operator<=>(const UdpFlows&) const = default;
};

// The end of a connection that its packets reach after translation.
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

// The first packet of a connection, before any translation.
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

  // Returns, for each of `endpoints` in order, how many entries it answers, without connections
  // that have ended. Lists all entries, so it is for commands that people type.
  [[nodiscard]] std::vector<std::size_t> CountAnsweredBy(const std::vector<Endpoint>& endpoints);

  // Returns all entries.
  struct Entry {
    std::vector<std::uint8_t> id;  // as `ct id` of nf_tables shows it
    Connection connection;
  };
  [[nodiscard]] std::vector<Entry> All();

  // Returns the id of the entry, in the default zone, to which this packet would belong, in either
  // direction; nullopt if there is none.
  [[nodiscard]] std::optional<std::uint32_t> FindId(const Beginning& packet);
  // Removes that entry if it has this id: after the entry ended, a connection of others may have
  // begun with the same packet.
  void Forget(const Beginning& packet, std::uint32_t id);

  // Removes every entry that any of `flows` matches.
  void Forget(const std::vector<UdpFlows>& flows);

  // Like Forget(), but works on kernels before 6.11: lists the entries and deletes them one by one.
  // Forget() calls it when needed.
  void ForgetOneByOne(const std::vector<UdpFlows>& flows);

 private:
  explicit Conntrack(netlink::RequestSocket socket) : socket_(std::move(socket)) {}

  netlink::RequestSocket socket_;
};

}  // namespace nomad_bridge::conntrack
