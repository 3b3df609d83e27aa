// Links, addresses and routes: one rtnetlink socket in one network namespace, about a dozen verbs.
//
// Library The messages are built on libnl-3's core, not with libnl-route-3. As of 3.7 that knows
//         neither the isolated nor the locked flag of a bridge port, and it maps the kernel's errno
//         to one of fewer codes of its own.
// Shapes  Index 0 is no link. MTUs are in bytes. Addresses are Ip/Cidr/Mac values. Numbers are in
//         host byte order.
// Costs   One kernel round trip per verb, unless said otherwise; links are looked up by a single
//         get, never a dump.
// Errors  kKernel: msg says what was tried with names, details hold the kernel's own words
//         (extended ack, if any) and the errno's name. kTryAgain if the kernel does not answer in
//         time. Absent links are answers (Find...) or success (Ensure...Gone).
// Verbs   Find: absent is an answer. Create: must not exist. Ensure: idempotent. EnsureGone: absent
//         is success.
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

// A link's counts since it was made.
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

// Whether packets between a bridge's ports pass nf_tables' inet chains, whatever the node's sysctls
// say: nf_call_iptables and nf_call_ip6tables.
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

// The same under net/ipv6/conf.
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
  bool operational = false;  // up, with carrier (up, or unknown as lo's) and a queue that sends
  bool promiscuous = false;  // IFF_PROMISC was set on it
  // The link resolves neighbours, and answers: no loopback, no IFF_NOARP, ...
  bool resolves = false;
  std::string queue;            // "noqueue", "fq_codel", "netem", ...: what sends, its root qdisc
  int master = 0;               // index of the bridge it is a port of
  bool vlan_filtering = false;  // bridge
  int forward_delay = 0;        // bridge with spanning tree: in hundredths of a second; else 0
  NfCall nf_call;               // bridge
  bool has_id = false;          // bridge: its id holds a MAC, that of a port or one that was set
  PortFlags port;               // bridge port
  bool locked = false;          // bridge port: see LockPort()
  bool learns = false;          // bridge port: learns MACs from what it receives
  std::optional<std::uint8_t> port_state;  // bridge port: BR_STATE_...
  bool forwarding = true;                  // bridge port: spanning tree lets its frames pass
  std::uint16_t vlan = 0;                  // VLAN link: its id
  // veth: index of the other end, in that end's namespace; VLAN link: its lower link
  int peer = 0;
  // veth: id of the other end's namespace as this one numbers it; nullopt: here
  std::optional<int> peer_netns;
  std::optional<LinkCounters> counters;
  std::optional<Ipv4Settings> ipv4;  // nullopt: not for so small an MTU
  std::optional<Ipv6Settings> ipv6;  // nullopt: the kernel has no IPv6, or not for so small an MTU

  [[nodiscard]] bool ForwardsIpv4() const { return ipv4 && ipv4->forwarding; }
  [[nodiscard]] bool HasIpv6() const { return ipv6 && !ipv6->disabled; }
};

// Changes to a link; members that are nullopt stay as they are.
struct LinkChange {
  std::optional<bool> up;
  std::optional<bool> promiscuous;
  std::optional<Mac> mac;
  std::optional<int> mtu;
  std::optional<int> master;         // 0 takes it out of its bridge
  std::optional<std::string> alias;  // at most 255 bytes
  std::optional<PortFlags> port;     // the link must be a port already
  std::optional<NfCall> nf_call;     // of a bridge
};

// A port's membership in some VLANs, as the kernel lists it.
struct Vlan {
  VlanRange ids;
  bool pvid = false;      // untagged frames that come in belong to it
  bool untagged = false;  // its frames go out untagged

  bool operator==(const Vlan&) const = default;
};

// A MAC behind a port, as the kernel lists it.
struct FdbEntry {
  int port = 0;  // index of the link
  Mac mac;
  std::uint16_t vlan = 0;  // 0: outside of any
  enum class Kind : std::uint8_t {
    kOwn,      // of the port itself, or of the bridge
    kLearned,  // from what somebody sent
    kStatic,   // by somebody's command
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
  int input_link = 0;  // by which it came in; 0: sent by this machine
  std::uint32_t mark = 0;
};

struct RouteAnswer {
  // EXDEV: rp_filter drops it (EINVAL since Linux 6.15); ENETUNREACH, EHOSTUNREACH, EACCES, EINVAL:
  // no route, or one that drops; 0: it goes out of `link`.
  int error = 0;
  int link = 0;
  std::uint32_t table = 0;
  std::optional<Ip> gateway = std::nullopt;
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
  // Of the namespace in which the socket was opened.
  [[nodiscard]] std::uint64_t NetnsCookie() const { return netlink::NetnsCookie(socket_.fd()); }

  [[nodiscard]] std::optional<Link> FindLink(const std::string& name);
  [[nodiscard]] std::optional<Link> FindLink(int index);
  // Returns all links of the namespace: one dump, 20 ms with a thousand veths. For rare use.
  [[nodiscard]] std::vector<Link> Links();
  // For a link that existed a moment ago: throws kKernel if it is gone.
  [[nodiscard]] Link RequireLink(const std::string& name);
  // The ports of a bridge: index, name, master, up, flags, locked and forwarding only. One dump of
  // bridge ports, for repair and for counting.
  [[nodiscard]] std::vector<Link> Ports(int bridge);

  // Returns false if a link of that name exists already (another process may have been faster).
  // `mtu` 0: the kernel chooses. The MAC is fixed: it does not change with the bridge's ports.
  // Multicast goes to all ports. The bridge is not yet up. Throws kKernel if it is to filter VLANs
  // and the kernel cannot.
  [[nodiscard]] bool CreateBridge(const std::string& name,
                                  const Mac& mac,
                                  int mtu,
                                  bool vlan_filtering = false);

  // Fixes the bridge's MAC: a bridge created without a MAC takes the MAC of a port whenever its
  // ports change. Linux 5.10 (no longer 6.1) has no FDB entry for the MAC of a bridge that has not
  // had a port; this adds it.
  void FixMac(const Link& bridge);

  // A VLAN sub-interface of `bridge`, with its MAC, down; the bridge must be a member of that VLAN.
  // False if a link of that name is there already.
  [[nodiscard]] bool CreateVlanLink(const std::string& name,
                                    const Link& bridge,
                                    std::uint16_t vlan);

  // One message creates both ends, down: the host end here, as a port of its bridge; the container
  // end inside `container`, under its final name. Throws kConflict if either name is taken, naming
  // it, and kKernel if the bridge is full (1,023 ports).
  void CreateVeth(const VethSpec& spec, const netlink::Netns& container);

  void Change(const Link& link, const LinkChange& change);

  // VLANs take effect only on a bridge with Link::vlan_filtering; `port` may be that bridge, whose
  // own device is a port towards the node. Idempotent, repairs. Throws kKernel on a kernel without
  // VLANs. Has...() returns whether setting them would change nothing.
  void SetPortVlans(const Link& port, const PortVlans& vlans);
  [[nodiscard]] bool HasPortVlans(const Link& port, const PortVlans& vlans);
  // Returns the VLANs by id; none on a kernel without VLANs, or if `port` is no port.
  [[nodiscard]] std::vector<Vlan> Vlans(const Link& port);

  // From now on the bridge drops frames from this port with another source MAC, in all VLANs that
  // the port has by now. Idempotent, repairs. Throws kKernel before Linux 5.18.
  void LockPort(const Link& port, const Mac& mac);
  void UnlockPort(const Link& port);
  [[nodiscard]] bool IsPortLocked(const Link& port, const Mac& mac);
  // Returns the entries of all ports, by one dump.
  [[nodiscard]] std::vector<FdbEntry> AllFdbEntries();

  // Return net/<family>/conf/all/forwarding, and conf/default/forwarding, which later links get;
  // false if this kernel lacks the family.
  [[nodiscard]] bool ForwardsAll(Family family);
  [[nodiscard]] bool ForwardsByDefault(Family family);

  // Drops IPv4 packets from or to 127.0.0.0/8 that come in by `link`, before rules of any kind see
  // them, except packets to 127.0.0.0/8 with the mark `except_mark`. The filter stays until the
  // link is deleted. One more round trip if there is no filter yet. Returns false if this kernel
  // has no tc filters.
  [[nodiscard]] bool EnsureLocalhostFilter(const Link& link, std::uint32_t except_mark);
  void EnsureLocalhostFilterGone(const Link& link);
  // Returns whether the filter is missing although this kernel has tc filters. One round trip if it
  // is there.
  [[nodiscard]] bool LacksLocalhostFilter(const Link& link);

  // Returns whether nothing leaves by the link: its queue is a blackhole, or netem that loses
  // everything.
  [[nodiscard]] bool Discards(const Link& link);
  // Returns where the link has other tc filters, in tc's words: "ingress", "egress".
  [[nodiscard]] std::vector<std::string> FilteredDirections(const Link& link);

  void EnsureLinkGone(const std::string& name);
  // The same, but returns as soon as nobody sees the link any more, nor the other end of a veth,
  // and the name is free. The kernel then waits for a grace period of RCU, some 15 ms: a child of
  // ours waits for it, whose pid is returned unless it has ended. It keeps `kept` open until then
  // (see background_request.h). Where no child can be made, this waits.
  [[nodiscard]] std::optional<pid_t> EnsureLinkGone(const Link& link, std::span<const int> kept);

  [[nodiscard]] std::vector<Cidr> Addresses(const Link& link);
  [[nodiscard]] std::set<Ip> AllAddresses();
  // Returns the links that have a global IPv6 address that expires, as router advertisements give
  // them.
  [[nodiscard]] std::set<int> LinksWithLearntAddresses();
  // Returns the addresses at which this node is reached, of every link outside a VRF. Reads the
  // local routes: a list of addresses would take the kernel longer, because it visits every link,
  // including the host veths.
  [[nodiscard]] std::vector<Ip> LocalAddresses(Family family);
  // The address is in use when this returns: packets to it arrive. IPv6 addresses get IFA_F_NODAD.
  void EnsureAddress(const Link& link, const Cidr& address);
  // An IPv6 address is in use only once AwaitLocal() has returned; with `detect_duplicates`,
  // without which it gets IFA_F_NODAD, AwaitAddresses(). IPv4 ones get their broadcast address
  // where the prefix is shorter than /31. One more round trip if the address is there already.
  void AssignAddress(const Link& link, const Cidr& address, bool detect_duplicates);
  void EnsureAddressGone(const Link& link, const Cidr& address);

  // Other routes to the same destination stay: an identical one is success, one through another
  // gateway a second path.
  void EnsureRoute(const Link& link, const Route& route);
  // Every unicast route out of `link`, all tables, also those that the kernel made for addresses:
  // table and scope are always given (IPv6's scope is 0), and IPv6's priority is 1024 by default.
  [[nodiscard]] std::vector<Route> Routes(const Link& link);
  // Returns the routes out of all links, and the same by the link's index. As costly as for one
  // link.
  [[nodiscard]] std::vector<Route> Routes();
  [[nodiscard]] std::map<int, std::vector<Route>> RoutesByLink();
  // Routes learnt from router advertisements, each with the link that it leads out of.
  struct LearntRoute {
    int link = 0;
    Route route;
  };
  [[nodiscard]] std::vector<LearntRoute> LearntRoutes();
  void EnsureGone(const LearntRoute& learnt);
  // Returns the link by which packets from here to `destination` leave, if any; lo for a local
  // address.
  [[nodiscard]] std::optional<int> LookupOutputInterface(const Ip& destination);
  // Returns the route that the kernel would now choose for a packet; sends nothing.
  [[nodiscard]] RouteAnswer LookUpRoute(const RouteQuery& query);
  // Returns the neighbour to which packets to `address` out of `link` would be sent; nullopt if it
  // is not known now.
  [[nodiscard]] std::optional<Neighbour> FindNeighbour(const Link& link, const Ip& address);
  // Returns all neighbours of all links: one dump.
  [[nodiscard]] std::vector<Neighbour> Neighbours();
  // Returns for how long the kernel has asked for the address without an answer, or since when it
  // has given up; nullopt: neither.
  [[nodiscard]] std::optional<std::chrono::milliseconds> UnansweredFor(const Link& link,
                                                                       const Ip& address);
  // Makes the kernel ask for the address again with the next packet, if it is asking without an
  // answer.
  void ForgetUnanswered(const Link& link, const Ip& address);

  // Waits until the link is operational and, if it is a bridge port, forwarding, or held back by
  // spanning tree alone, which takes it half a minute: woken by the kernel's own events, never by a
  // timer of ours. Returns the link as it is then. Throws kTryAgain at the deadline, naming the
  // state it was last seen in.
  [[nodiscard]] Link AwaitOperational(const std::string& name, Deadline deadline);

  // Waits, in the same way, until duplicate address detection of the link's IPv6 addresses is done.
  // Throws kConflict if another machine has one, and kTryAgain at the deadline, naming the address.
  void AwaitAddresses(const Link& link, Deadline deadline);

  // Waits, in the same way, until packets to an IPv6 address of the link arrive. The kernel lists
  // the address at once, but only a worker (addrconf_dad_work, even without detection) joins its
  // solicited-node group and makes its local route. Until then packets are lost.
  void AwaitLocal(const Link& link, const Ip& address, Deadline deadline);

  // Whether anything still references the namespace that this one knows under `netns_id` (see
  // Link::peer_netns). If nothing does, a veth whose other end is there is about to disappear.
  [[nodiscard]] bool IsNetnsAlive(int netns_id);
  // Returns the other end of `veth` if it is in another namespace, without entering that namespace.
  [[nodiscard]] std::optional<Link> FindPeer(const Link& veth);

 private:
  struct NeighbourEntry {
    int state = 0;  // NUD_...; 0: there is none
    Mac mac;
    std::chrono::milliseconds age{};  // of the state
  };
  NeighbourEntry ReadNeighbour(const Link& link, const Ip& address);

  explicit Socket(netlink::RequestSocket socket) : socket_(std::move(socket)) {}

  netlink::RequestSocket socket_;
};

}  // namespace nomad_bridge::rtnl
