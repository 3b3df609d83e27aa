// Reads and changes links, addresses and routes of one network namespace, through one rtnetlink
// socket.
//
// Library The messages are built with libnl-3's core, not with libnl-route-3. As of 3.7,
//         libnl-route-3 knows neither the isolated nor the locked flag of a bridge port, and it
//         replaces the kernel's errno by its own, fewer codes.
// Shapes  Index 0 means no link. MTUs are in bytes. Addresses are Ip/Cidr/Mac values. Numbers are
//         in host byte order.
// Costs   One kernel round trip per function, unless its comment says otherwise. A link is looked
//         up with a single get, never with a dump.
// Errors  kKernel: msg says what was tried, with names; details have the kernel's message (extended
//         ack, if any) and the errno's name. kTryAgain if the kernel does not answer in time. An
//         absent link is no error for Find...() and Ensure...Gone().
// Verbs   Find returns nullopt if the thing is absent. Create requires that it does not exist.
//         Ensure is idempotent. EnsureGone succeeds if the thing is absent.
// Threads One at a time per socket.
// Source  rtnetlink(7), bridge(8), linux/if_link.h, linux/if_bridge.h, linux/rtnetlink.h, kernel
//         5.10 and later.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/bridge_port.h"
#include "base/file_lock.h"
#include "base/ip.h"
#include "base/route.h"
#include "netlink/core/netns.h"
#include "netlink/core/request_socket.h"

namespace nomad_bridge::rtnl {

// lo has this index in every namespace.
constexpr int kLoopbackIndex = 1;

// A link's counts since it was created.
struct Counters {
  std::uint64_t bytes = 0;
  std::uint64_t packets = 0;
  std::uint64_t dropped = 0;

  bool operator==(const Counters&) const = default;
};

struct LinkCounters {
  Counters received;
  Counters sent;

  bool operator==(const LinkCounters&) const = default;
};

// A bridge's settings nf_call_iptables and nf_call_ip6tables: whether packets between its ports
// pass nf_tables' inet chains even if the node's sysctls are off.
struct NfCall {
  bool ipv4 = false;
  bool ipv6 = false;

  bool operator==(const NfCall&) const = default;
};

// A link's settings under net/ipv4/conf, which come with the link's message.
struct Ipv4Settings {
  bool forwarding = false;
  bool route_localnet = false;
  int arp_ignore = 0;
};

// A link's settings under net/ipv6/conf.
struct Ipv6Settings {
  int accept_ra = 0;  // 2: even if the link forwards
  bool disabled = false;
};

struct Link {
  int index = 0;
  std::string name;
  std::string kind;  // "bridge", "veth", ...; empty for lo and hardware
  std::string alias;
  Mac mac;
  int mtu = 0;
  bool up = false;           // IFF_UP: administratively up
  int operstate = 0;         // IF_OPER_...
  bool operational = false;  // up, has carrier and a queue that sends; operstate up or unknown
  bool promiscuous = false;  // somebody has set IFF_PROMISC
  bool has_xdp = false;      // the driver runs an XDP program on what the link receives
  // The link resolves neighbours and answers their requests: it is no loopback, has no IFF_NOARP,
  // ...
  bool resolves = false;
  std::string queue;            // the root qdisc: "noqueue", "fq_codel", "netem", ...
  int master = 0;               // index of the bridge that the link is a port of
  bool vlan_filtering = false;  // bridge
  int forward_delay = 0;        // bridge with spanning tree: in hundredths of a second; else 0
  NfCall nf_call;               // bridge
  bool has_id = false;          // bridge: its id has a MAC (a port's, or one that was set)
  PortFlags port;               // bridge port
  bool locked = false;          // bridge port: see LockPort()
  bool learns = false;          // bridge port: learns MACs from frames
  std::optional<std::uint8_t> port_state;  // bridge port: BR_STATE_...
  bool forwarding = true;                  // bridge port: spanning tree lets its frames pass
  std::uint16_t vlan = 0;                  // VLAN link: its id
  // veth: index of the other end in the other end's namespace; VLAN link: index of its lower link
  int peer = 0;
  // veth: this namespace's id for the namespace of the other end; nullopt: the other end is here
  std::optional<int> peer_netns;
  std::optional<LinkCounters> counters;
  std::optional<Ipv4Settings> ipv4;  // nullopt: the MTU is too small for IPv4
  std::optional<Ipv6Settings> ipv6;  // nullopt: no IPv6 in the kernel, or too small an MTU

  [[nodiscard]] bool ForwardsIpv4() const { return ipv4 && ipv4->forwarding; }
  [[nodiscard]] bool HasIpv6() const { return ipv6 && !ipv6->disabled; }
};

// Changes to a link; members that are nullopt stay as they are.
struct LinkChange {
  std::optional<bool> up;
  std::optional<bool> promiscuous;
  std::optional<Mac> mac;
  std::optional<int> mtu;
  std::optional<int> master;         // 0 removes the link from its bridge
  std::optional<std::string> alias;  // at most 255 bytes
  std::optional<PortFlags> port;     // the link must be a port already
  std::optional<NfCall> nf_call;     // of a bridge
};

// A port's membership in some VLANs, as the kernel lists it.
struct Vlan {
  VlanRange ids;
  bool pvid = false;      // untagged incoming frames belong to these VLANs
  bool untagged = false;  // frames of these VLANs go out untagged

  bool operator==(const Vlan&) const = default;
};

// A MAC behind a port, as the kernel lists it.
struct FdbEntry {
  int port = 0;  // index of the link
  Mac mac;
  std::uint16_t vlan = 0;  // 0: outside of any VLAN
  enum class Kind : std::uint8_t {
    kOwn,      // the MAC of the port itself, or of the bridge
    kLearned,  // the bridge learned it from a frame
    kStatic,   // somebody added it by a command
  } kind = Kind::kLearned;
};

struct VethSpec {
  std::string host_name;
  Mac host_mac;
  int bridge = 0;  // the host end becomes a port of this link
  std::string container_ifname;
  Mac container_mac;
  int mtu = 0;  // 0 = the kernel's default
};

struct Flow {
  std::uint8_t protocol = 0;  // IPPROTO_*
  std::uint16_t source_port = 0;
  std::uint16_t destination_port = 0;
};

struct RouteQuery {
  Ip destination;
  std::optional<Ip> source = std::nullopt;
  std::optional<Flow> flow = std::nullopt;
  int input_link = 0;  // the link that received the packet; 0: this machine sends it
  std::uint32_t mark = 0;
};

struct RouteAnswer {
  // 0: the packet leaves by `link`. EXDEV: rp_filter drops it (EINVAL since Linux 6.15).
  // ENETUNREACH, EHOSTUNREACH, EACCES, EINVAL: there is no route, or the route drops packets.
  int error = 0;
  int link = 0;
  bool is_local = false;  // the packet ends in this namespace
  std::uint32_t table = 0;
  std::optional<Ip> gateway = std::nullopt;
  std::optional<Ip> source = std::nullopt;  // the source that the kernel would choose
};

// Returns in words why a look-up ended with an error: "there is no route", "a route there is a
// blackhole".
[[nodiscard]] std::string ErrorText(const RouteAnswer& answer);

// A rule of policy routing, as in `ip rule`.
struct RoutingRule {
  std::uint32_t priority = 0;
  std::string text;  // "from 198.51.100.1 lookup 52"
};

struct Neighbour {
  int link = 0;  // index
  Ip address;
  Mac mac;
  bool permanent = false;
};

class Socket {
 public:
  [[nodiscard]] static Socket In(const netlink::Netns& ns);
  // Returns the cookie of the namespace in which the socket was opened.
  [[nodiscard]] std::uint64_t NetnsCookie() const { return netlink::NetnsCookie(socket_.fd()); }

  [[nodiscard]] std::optional<Link> FindLink(const std::string& name);
  [[nodiscard]] std::optional<Link> FindLink(int index);
  // Returns all links of the namespace: one dump, 20 ms with a thousand veths. For rare use.
  [[nodiscard]] std::vector<Link> Links();
  // Like FindLink(), but for a link that existed a moment ago: throws kKernel if it is gone.
  [[nodiscard]] Link RequireLink(const std::string& name);
  // Returns the ports of a bridge, with only these members: index, name, up, master, and the
  // members of bridge ports. Lists the ports of all bridges, in one dump.
  [[nodiscard]] std::vector<Link> Ports(int bridge);

  // Creates a bridge, which is not yet up. Returns false if a link of that name exists already
  // (another process may have been faster). If `mtu` is 0, the kernel chooses the MTU. The MAC is
  // fixed: it does not change with the bridge's ports. Multicast goes to all ports. Throws kKernel
  // if `vlan_filtering` is wanted and the kernel lacks it.
  [[nodiscard]] bool CreateBridge(const std::string& name,
                                  const Mac& mac,
                                  int mtu,
                                  bool vlan_filtering = false);

  // Fixes the bridge's MAC: a bridge created without a MAC takes the MAC of a port whenever its
  // ports change. On Linux 5.10 (but not on 6.1), a bridge that never had a port has no FDB entry
  // for its MAC; this function adds the entry.
  void FixMac(const Link& bridge);

  // Creates a VLAN sub-interface of `bridge`, with the bridge's MAC; it is not yet up. The bridge
  // must be a member of that VLAN. Returns false if a link of that name exists already.
  [[nodiscard]] bool CreateVlanLink(const std::string& name,
                                    const Link& bridge,
                                    std::uint16_t vlan);

  // Creates both ends with one message; they are not yet up. The host end is here and a port of its
  // bridge; the container end is in `container` and has its final name. Throws kConflict if either
  // name is taken; the error has the name. Throws kKernel if the bridge is full (1,023 ports).
  void CreateVeth(const VethSpec& spec, const netlink::Netns& container);

  void Change(const Link& link, const LinkChange& change);

  // Sets the VLANs of a port, also if it has others now. They take effect only on a bridge with
  // Link::vlan_filtering. `port` may be the bridge itself, whose own device is its port towards the
  // node. Throws kKernel on a kernel without VLANs. HasPortVlans() returns whether SetPortVlans()
  // would change nothing.
  void SetPortVlans(const Link& port, const PortVlans& vlans);
  [[nodiscard]] bool HasPortVlans(const Link& port, const PortVlans& vlans);
  // Returns the VLANs in the order of their ids; none on a kernel without VLANs, or if `port` is no
  // port.
  [[nodiscard]] std::vector<Vlan> Vlans(const Link& port);

  // Makes the bridge drop frames from this port with another source MAC, in all VLANs that the port
  // has now. Idempotent. Throws kKernel before Linux 5.18.
  void LockPort(const Link& port, const Mac& mac);
  void UnlockPort(const Link& port);
  [[nodiscard]] bool IsPortLocked(const Link& port, const Mac& mac);
  // Returns the FDB entries of all ports: one dump.
  [[nodiscard]] std::vector<FdbEntry> AllFdbEntries();

  // Removes the MAC from the FDB if the bridge has it behind this port, in all VLANs.
  void EnsureFdbEntryGone(const Link& port, const Mac& mac);

  // Return net/<family>/conf/all/forwarding, and conf/default/forwarding, which later links get;
  // false if this kernel lacks the family.
  [[nodiscard]] bool ForwardsAll(Family family);
  [[nodiscard]] bool ForwardsByDefault(Family family);

  // Drops IPv4 packets from or to 127.0.0.0/8 that come in by `link`, before rules of any kind see
  // them, except packets to 127.0.0.0/8 with the mark `except_mark`. The filter stays until the
  // link is deleted. Takes one more round trip if there is no filter yet. Returns false if this
  // kernel has no tc filters.
  [[nodiscard]] bool EnsureLocalhostFilter(const Link& link, std::uint32_t except_mark);
  void EnsureLocalhostFilterGone(const Link& link);
  // Returns whether the filter is missing although this kernel has tc filters. Takes one round trip
  // if the filter is there.
  [[nodiscard]] bool LacksLocalhostFilter(const Link& link);

  // Returns whether the link drops everything it sends: its queue is "blackhole", or "netem" with a
  // loss of 100 percent.
  [[nodiscard]] bool Discards(const Link& link);
  // Returns the directions in which the link has tc filters of others: "ingress", "egress".
  [[nodiscard]] std::vector<std::string> FilteredDirections(const Link& link);

  void EnsureLinkGone(const std::string& name);
  // Like EnsureLinkGone(name), but returns as soon as the link and the other end of a veth are gone
  // for everybody, and the name is free. The kernel then waits for an RCU grace period, some 15 ms.
  // A child process waits for that, and keeps `kept` open until then (see background_request.h).
  // Returns its pid, or nullopt if it has ended. If no child can be created, this function waits
  // itself.
  [[nodiscard]] std::optional<pid_t> EnsureLinkGone(const Link& link, std::span<const int> kept);

  [[nodiscard]] std::vector<Cidr> Addresses(const Link& link);
  // Return the addresses of all links; AddressesByLink() by the link's index, in one dump.
  [[nodiscard]] std::set<Ip> AllAddresses();
  [[nodiscard]] std::map<int, std::vector<Cidr>> AddressesByLink();
  // Returns the links that have a global IPv6 address that expires, such as an address from a
  // router advertisement.
  [[nodiscard]] std::set<int> LinksWithLearntAddresses();
  // Assigns the address, and waits until packets to it arrive. IPv6 addresses get IFA_F_NODAD.
  void EnsureAddress(const Link& link, const Cidr& address);
  // Assigns the address without waiting until it is usable. For IPv6, call AwaitLocal() afterwards,
  // or AwaitAddresses() if `detect_duplicates` is true; if it is false, the address gets
  // IFA_F_NODAD. An IPv4 address gets a broadcast address if its prefix is shorter than /31. Takes
  // one more round trip if the address exists already.
  void AssignAddress(const Link& link, const Cidr& address, bool detect_duplicates);
  void EnsureAddressGone(const Link& link, const Cidr& address);

  // Adds the route that the kernel itself adds with `address`, if it is not there.
  void EnsureConnectedRoute(const Link& link, const Cidr& address);
  // Adds the route. Keeps other routes to the same destination: a route through another gateway
  // remains as a second path. An identical route is no error.
  void EnsureRoute(const Link& link, const Route& route);
  // Returns every unicast route out of `link`, in all tables, also those that the kernel created
  // for addresses. Table and scope are always set (IPv6's scope is 0), and IPv6's priority is 1024
  // by default.
  [[nodiscard]] std::vector<Route> Routes(const Link& link);
  // Return the routes out of all links; RoutesByLink() by the link's index. This costs as much as
  // the routes of one link.
  [[nodiscard]] std::vector<Route> Routes();
  [[nodiscard]] std::map<int, std::vector<Route>> RoutesByLink();
  // Returns, by link, the route that the kernel would now choose for packets of this machine to
  // `destination`, as Routes() would return it: once for each next hop. Empty if packets end here,
  // or have no route. In contrast to Routes(), this costs the same however many routes there are.
  [[nodiscard]] std::map<int, std::vector<Route>> RoutesTo(const Ip& destination);
  // A route learnt from a router advertisement, and the link that it leads out of.
  struct LearntRoute {
    int link = 0;
    Route route;
  };
  [[nodiscard]] std::vector<LearntRoute> LearntRoutes();
  void EnsureGone(const LearntRoute& learnt);
  // Returns the link by which this machine sends packets to `destination`; lo for a local address;
  // nullopt if there is no route.
  [[nodiscard]] std::optional<int> LookupOutputInterface(const Ip& destination);
  // Returns the route that the kernel would now choose for a packet; sends nothing.
  [[nodiscard]] RouteAnswer LookUpRoute(const RouteQuery& query);
  // Returns the first rule that leads packets of `query` to `table`; nullopt if it is one of the
  // kernel's own three tables, or if no rule does. Takes two round trips. The kernel does not say
  // by which rule it came to a route, so selectors are compared here.
  [[nodiscard]] std::optional<RoutingRule> FindRule(const RouteQuery& query, std::uint32_t table);
  // Returns the neighbour entry that the kernel would use for packets to `address` out of `link`;
  // nullopt if it has none now.
  [[nodiscard]] std::optional<Neighbour> FindNeighbour(const Link& link, const Ip& address);
  // Returns all neighbours of all links: one dump.
  [[nodiscard]] std::vector<Neighbour> Neighbours();
  // Returns for how long the kernel has asked for the address without an answer, or how long ago it
  // gave up; nullopt if neither is true.
  [[nodiscard]] std::optional<std::chrono::milliseconds> UnansweredFor(const Link& link,
                                                                       const Ip& address);
  // Makes the kernel ask for the address again with the next packet, if it is asking without an
  // answer.
  void ForgetUnanswered(const Link& link, const Ip& address);

  // Waits until the link is operational and, if it is a bridge port, not disabled. Does not wait
  // for spanning tree, which holds a port back for half a minute. The kernel's events wake this
  // function, not a timer. Returns the link as it is then. Throws kTryAgain at the deadline, and
  // names the last state of the link.
  [[nodiscard]] Link AwaitOperational(const std::string& name, Deadline deadline);

  // Waits, in the same way, until duplicate address detection of the link's IPv6 addresses is done.
  // Throws kConflict if another machine has one of the addresses, and kTryAgain at the deadline;
  // both name the address.
  void AwaitAddresses(const Link& link, Deadline deadline);

  // Waits, in the same way, until packets to an IPv6 address of the link arrive. The kernel lists
  // the address at once, but a worker (addrconf_dad_work, even without detection) joins its
  // solicited-node group and creates its local route later. Until then, packets to the address are
  // lost.
  void AwaitLocal(const Link& link, const Ip& address, Deadline deadline);

  // Returns this namespace's id for `netns` (see Link::peer_netns); nullopt if it has given it
  // none, as long as no link was listed that leads there.
  [[nodiscard]] std::optional<int> FindNetnsId(const netlink::Netns& netns);
  // Returns whether anything still references the namespace with this id (see Link::peer_netns). If
  // nothing does, a veth whose other end is in that namespace is about to disappear.
  [[nodiscard]] bool IsNetnsAlive(int netns_id);
  // Returns the other end of `veth` if it is in another namespace, without entering that namespace.
  [[nodiscard]] std::optional<Link> FindPeer(const Link& veth);

 private:
  struct NeighbourEntry {
    int state = 0;  // NUD_...; 0: there is no entry
    Mac mac;
    std::chrono::milliseconds age{};  // time in this state
  };
  NeighbourEntry ReadNeighbour(const Link& link, const Ip& address);

  explicit Socket(netlink::RequestSocket socket) : socket_(std::move(socket)) {}

  netlink::RequestSocket socket_;
};

}  // namespace nomad_bridge::rtnl
