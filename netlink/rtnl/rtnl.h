// Links, addresses and routes: one rtnetlink socket in one network namespace, about a dozen verbs.
//
// Shapes  Index 0 is no link. MTUs are in bytes. Addresses are Ip/Cidr/Mac values.
// Costs   One kernel round trip per verb, unless said otherwise; links are looked up by a single
//         get, never a dump.
// Errors  kKernel: msg says what was tried with names, details hold the kernel's own words
//         (extended ack, if any) and the errno's name. Absent links are answers (Find...) or
//         success (Ensure...Gone).
// Verbs   Find: absent is an answer. Create: must not exist. Ensure: again is fine. EnsureGone:
//         absent is success.
// Source  rtnetlink(7), bridge(8), linux/if_link.h, linux/if_bridge.h, linux/rtnetlink.h, kernel
//         5.10 and later.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file_lock.h"
#include "base/ip.h"
#include "base/route.h"
#include "base/vlan_range.h"
#include "netlink/core/netns.h"

namespace nomad_bridge::rtnl {

// lo has this index in every namespace.
constexpr int kLoopbackIndex = 1;

struct Link {
  int index = 0;
  std::string name;
  std::string kind;  // "bridge", "veth", ...; empty for lo and hardware
  std::string alias;
  Mac mac;
  int mtu = 0;
  bool up = false;  // IFF_UP: an administrator wants it up
  // it is up, its carrier is there (operstate up, or unknown as lo has it), and it sends
  bool operational = false;
  bool promiscuous = false;     // IFF_PROMISC was set on it
  int master = 0;               // index of the bridge it is a port of
  bool vlan_filtering = false;  // bridge: tells VLANs apart
  bool has_id = false;          // bridge: its id holds a MAC, that of a port or one that was set
  bool hairpin = false;         // bridge port: what comes in may go out again
  bool isolated = false;        // bridge port: has nothing to do with other isolated ones
  bool locked = false;          // bridge port: see LockPort()
  std::uint16_t vlan = 0;       // VLAN link: its id
  // veth: index of the other end, in that end's namespace; VLAN link: the link it stands on
  int peer = 0;
  // veth: id of the other end's namespace as this one numbers it; nullopt: here
  std::optional<int> peer_netns;
};

// Flags of a bridge's port.
struct PortFlags {
  bool hairpin = false;
  bool isolated = false;
};

// What to change of a link; what is nullopt stays.
struct LinkChange {
  std::optional<bool> up;
  std::optional<bool> promiscuous;
  std::optional<Mac> mac;
  std::optional<int> mtu;
  std::optional<int> master;         // 0 takes it out of its bridge
  std::optional<std::string> alias;  // at most 255 bytes
  std::optional<PortFlags> port;     // the link must be a port already
};

// What a port is to some VLANs, as the kernel lists it: a member of them,
struct Vlan {
  VlanRange ids;
  bool pvid = false;      // where frames without a tag belong that come in,
  bool untagged = false;  // and whose frames go out without a tag.

  bool operator==(const Vlan&) const = default;
};

// Which VLANs a port is to be a member of.
struct PortVlans {
  std::uint16_t untagged = 0;  // comes in and goes out without a tag; 0: none does
  std::vector<VlanRange> tagged;
  bool keep_default = false;  // others that it has stay, as does the bridge's default one
};

struct VethSpec {
  std::string host_name;
  Mac host_mac;
  int bridge = 0;  // the host end becomes a port of this link
  std::string container_ifname;
  Mac container_mac;
  int mtu = 0;  // 0 = the kernel's default
};

class Socket {
 public:
  [[nodiscard]] static Socket In(const netlink::Netns& ns);
  Socket(Socket&&) noexcept;
  Socket& operator=(Socket&&) noexcept;
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket();

  [[nodiscard]] std::optional<Link> FindLink(const std::string& name);
  [[nodiscard]] std::optional<Link> FindLink(int index);
  // For a link that was there a moment ago: throws kKernel if it has gone meanwhile.
  [[nodiscard]] Link RequireLink(const std::string& name);
  // Ports of a bridge by name and index only: one dump of bridge ports, for repair and for
  // counting.
  struct Port {
    int index = 0;
    std::string name;
  };
  [[nodiscard]] std::vector<Port> Ports(int bridge);

  // False if a link of that name is there already (another process may have been faster). `mtu` 0 =
  // the kernel's choice. The MAC is fixed: it does not change with the bridge's ports. The bridge
  // is not yet up. Throws kKernel if it is to filter VLANs and the kernel cannot.
  [[nodiscard]] bool CreateBridge(const std::string& name,
                                  const Mac& mac,
                                  int mtu,
                                  bool vlan_filtering = false);

  // A bridge made without a MAC takes that of a port, each time again; from now on it keeps the one
  // it has. Before it has had a port Linux 5.10 (6.1 no more) does not even take that for its own,
  // and has to be told.
  void FixMac(const Link& bridge);

  // What `bridge` brings to the node of one VLAN, as a link of its own with the bridge's MAC, down;
  // the bridge must be a member of that VLAN. False if a link of that name is there already.
  [[nodiscard]] bool CreateVlanLink(const std::string& name,
                                    const Link& bridge,
                                    std::uint16_t vlan);

  // One message makes both ends, down: the host end here, a port of its bridge; the container end born
  // inside `container` under its final name. Throws kConflict if either name is taken, naming it,
  // and kKernel with a plain sentence if the bridge is full (1,023 ports).
  void CreateVeth(const VethSpec& spec, const netlink::Netns& container);

  void Change(const Link& link, const LinkChange& change);

  // They count only on a bridge with Link::vlan_filtering; `port` may be that bridge, which is a
  // port of itself to the node. Again is fine, and mends. Throws kKernel on a kernel without VLANs.
  // Has...: whether setting them would change nothing.
  void SetPortVlans(const Link& port, const PortVlans& vlans);
  [[nodiscard]] bool HasPortVlans(const Link& port, const PortVlans& vlans);
  // By id; none on a kernel without VLANs, or if `port` is none.
  [[nodiscard]] std::vector<Vlan> Vlans(const Link& port);

  // From now on the bridge drops what comes in with another source MAC than this, in all VLANs that
  // the port has by now. It dies with the port. Again is fine, and mends. Throws kKernel before
  // Linux 5.18.
  void LockPort(const Link& port, const Mac& mac);
  [[nodiscard]] bool IsPortLocked(const Link& port, const Mac& mac);

  void EnsureLinkGone(const std::string& name);

  [[nodiscard]] std::vector<Cidr> Addresses(const Link& link);
  // The address is in use when this returns: packets to it arrive. IPv6 addresses get IFA_F_NODAD
  // and cost one more round trip, unless `detect_duplicates`: see AwaitAddresses(). IPv4 ones get
  // their broadcast address where the prefix is shorter than /31. One more round trip if the
  // address is there already.
  void EnsureAddress(const Link& link, const Cidr& address, bool detect_duplicates = false);
  void EnsureAddressGone(const Link& link, const Cidr& address);

  // Other routes to the same destination stay: an identical one is success, one through another
  // gateway a second path.
  void EnsureRoute(const Link& link, const Route& route);
  // Every unicast route out of `link`, all tables, those that the kernel made for addresses among
  // them. As the kernel has them: table and scope are always given (IPv6's scope is 0), and an IPv6
  // route made without a priority has 1024.
  [[nodiscard]] std::vector<Route> Routes(const Link& link);
  // The same out of any link.
  [[nodiscard]] std::vector<Route> Routes();
  // Index of the link that what is sent from here to `destination` leaves by; nullopt if there is
  // no way. An address of this machine's own is reached by lo.
  [[nodiscard]] std::optional<int> LookupOutputInterface(const Ip& destination);

  // Waits until the link is operational and, if it is a bridge port, forwarding: woken by the
  // kernel's own events, never by a timer of ours. Throws kTryAgain at the deadline, naming the
  // state it was last seen in.
  void AwaitOperational(const std::string& name, Deadline deadline);

  // Waits, in the same way, until the link has all of its IPv6 addresses for itself: until the
  // kernel has asked for each whether somebody else has it. Throws kConflict if somebody has, and
  // kTryAgain at the deadline, naming the address.
  void AwaitAddresses(const Link& link, Deadline deadline);

  // Whether anything still holds the namespace that this one knows under `netns_id` (see
  // Link::peer_netns). A veth whose other end lives in a dead namespace is about to disappear.
  [[nodiscard]] bool IsNetnsAlive(int netns_id);

 private:
  class Impl;

  // Waits until the kernel has finished adding an IPv6 address, in the manner of AwaitOperational.
  void AwaitLocal(const Link& link, const Ip& address, Deadline deadline);

  explicit Socket(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace nomad_bridge::rtnl
