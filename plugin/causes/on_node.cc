#include "plugin/causes/on_node.h"

#include <algorithm>
#include <cerrno>
#include <set>

#include <linux/if_bridge.h>

#include "base/file.h"
#include "base/list.h"
#include "base/text.h"
#include "netlink/core/sysctl.h"
#include "plugin/link/forwarding.h"
#include "plugin/link/subnet.h"
#include "plugin/link/uplink.h"
#include "plugin/state/kernel_names.h"

namespace nomad_bridge::causes {
namespace {

// Examines the node for one published port.
class NodeLook {
 public:
  NodeLook(NodeFacts& facts,
           const state::Record& record,
           const portmap::DnatEntry& port,
           const std::optional<Connection>& connection)
      : facts_(facts), host_(facts.host), record_(record), port_(port) {
    if (connection) {
      uplink_ = connection->uplink;
      is_client_named_ = connection->is_client_named;
    }
  }

  FindingList Run() {
    LookAtConntrack();
    LookAtPublishedAddress();
    if (uplink_ && !uplink_->operational) {
      LookAtCarrier(*uplink_);
    }
    if (causes_.empty() && !is_client_named_) {
      LookForLostDefaultRoute();
    }
    LookAtForwarding();
    return std::move(causes_);
  }

 private:
  void Add(const std::string& text, Fix fix) {
    causes_.push_back({.text = text, .fix = std::move(fix)});
  }

  void LookAtConntrack() {
    const ConntrackRoom room = FindConntrackRoom();
    if (room.IsFull()) {
      Add(Format("conntrack is full, {} of {}: new connections are dropped", room.used, room.most),
          room.Enlarge());
    }
  }

  void LookAtPublishedAddress() {
    const std::optional<Ip>& published = port_.host_ip;
    // A load balancer's address may be local by a route alone.
    if (published && !host_.net.LookUpRoute({.destination = *published}).is_local) {
      Add(Format("{}, which the port is published on, is no address of this node", *published),
          Fix::Advice(
              Format("if another node has it now (keepalived), nothing; else: {} address add "
                     "{} dev {}",
                     IpTool(published->family()),
                     Cidr::Host(*published),
                     ShellWord(uplink_ ? uplink_->name : "INTERFACE"))));
    }
  }

  void LookAtCarrier(const rtnl::Link& uplink) {
    Add(Format("interface '{}', which leads to it, {}",
               uplink.name,
               uplink.up ? "has no carrier" : "is down"),
        uplink.up ? Fix::Advice(Format(
                        "check the cable of '{}', or of its uplink if it is a bridge", uplink.name))
                  : Fix(Format("ip link set {} up", ShellWord(uplink.name))));
  }

  // Finds out whether the node has lost its default route. A link that was set down and up again
  // has lost its IPv6 addresses, and all routes through gateways.
  void LookForLostDefaultRoute() {
    const std::optional<std::string> lacks = FindNoWayBeyond(facts_, port_);
    if (lacks && HasLostDefaultRoute(facts_, record_, port_.container_ip.family())) {
      Add(Cat(*lacks, "; it had one when the port was published"),
          Fix::Advice(
              Format("let the node's network service give {} its addresses and routes again",
                     uplink_ ? Cat("'", uplink_->name, "'") : "the node")));
    }
  }

  void LookAtForwarding() {
    const Family family = port_.container_ip.family();
    if (!host_.net.ForwardsAll(family)) {
      if (record_.link.gateways.empty()) {  // otherwise a reconcile turns forwarding on
        causes_.push_back(link::ForwardingOff(link::ForwardingOf(family)));
      }
    } else if (family == Family::kIpv4) {
      for (const std::optional<rtnl::Link>& link :
           {uplink_, facts_.FindLink(record_.link.gateway_ifname)}) {
        if (link && link->ipv4 && !link->ipv4->forwarding) {
          causes_.push_back(link::ForwardingOff(netlink::Ipv4Setting(link->name, "forwarding")));
        }
      }
    }
  }

  NodeFacts& facts_;
  state::Host& host_;
  const state::Record& record_;
  const portmap::DnatEntry& port_;
  std::optional<rtnl::Link> uplink_;
  bool is_client_named_ = false;
  FindingList causes_;
};

// Returns whether the node itself reaches the network of `address` by `gateway`.
bool HasNetworkOf(NodeFacts& facts, const rtnl::Link& gateway, const Ip& address) {
  return gateway.up && gateway.master == 0 &&
         std::ranges::any_of(facts.Addresses(gateway),
                             [&](const Cidr& own) { return own.Contains(address); });
}

// Returns queries for the routes of packets to `address` from the node, and from beyond each
// uplink. A rule for one address of the node, as a node with two uplinks has, keeps only that
// address from the allocation: a probe finds it.
std::vector<rtnl::RouteQuery> UsualQueriesFor(NodeFacts& facts, const Ip& address) {
  std::vector<rtnl::RouteQuery> queries = {{.destination = address}};
  for (const rtnl::Link& uplink : facts.Uplinks()) {
    queries.push_back({.destination = address,
                       .source = link::InternetAddress(address.family()),
                       .input_link = uplink.index});
  }
  return queries;
}

// Finds a wrong neighbour entry: another machine has the address, or somebody has added the entry.
FindingList FindWrongNeighbour(NodeFacts& facts, const state::Record& record, const Ip& address) {
  const std::optional<rtnl::Link> gateway = facts.FindLink(record.link.gateway_ifname);
  const std::optional<rtnl::Neighbour> neighbour =
      gateway ? facts.host.net.FindNeighbour(*gateway, address) : std::nullopt;
  const Mac expected = record.ContainerMac();
  if (!neighbour || neighbour->mac == expected || !record.Has(cni::Part::kLink)) {
    return {};
  }
  const std::string tool = IpTool(address.family());
  const std::string ifname = ShellWord(gateway->name);
  if (neighbour->permanent) {
    return {{.text = Format("a permanent neighbour entry on '{}' has {} at {}, not at {}",
                            gateway->name,
                            address,
                            neighbour->mac.Text(),
                            expected.Text()),
             .fix = Format("{} neigh del {} dev {}", tool, address, ifname)}};
  }
  // The fix changes only the entry of this node: the other machine keeps its address.
  return {{.text = Format("{} is at {} for this node, not at {}: another machine on '{}' has it, "
                          "too",
                          address,
                          neighbour->mac.Text(),
                          expected.Text(),
                          gateway->name),
           .fix = Format("{} neigh replace {} lladdr {} dev {} nud permanent",
                         tool,
                         address,
                         expected.Text(),
                         ifname)}};
}

}  // namespace

bool HasLostDefaultRoute(NodeFacts& facts, const state::Record& record, Family family) {
  return record.rules.had_default_route.Has(family) && !facts.DefaultRoutes().Has(family);
}

std::optional<std::string> FindNoWayBeyond(NodeFacts& facts, const portmap::DnatEntry& port) {
  const Family family = port.container_ip.family();
  if (port.host_ip && port.host_ip->IsLoopback()) {
    return std::nullopt;
  }
  const char* const text = family == Family::kIpv4 ? "IPv4" : "IPv6";
  if (!facts.HasAddress(family)) {
    return Format("this node has no address for {}: nobody beyond it reaches the port there", text);
  }
  return facts.DefaultRoutes().Has(family)
             ? std::nullopt
             : std::optional(Format("this node has no default route for {}: clients beyond its own "
                                    "networks get no answer",
                                    text));
}

FindingList FindOnNode(NodeFacts& facts,
                       const state::Record& record,
                       const portmap::DnatEntry& port,
                       const std::optional<Connection>& connection) {
  return NodeLook(facts, record, port, connection).Run();
}

FindingList FindBlackhole(rtnl::Socket& net, const rtnl::Link& link, const std::string& prefix) {
  if (!net.Discards(link)) {
    return {};
  }
  return {{.text = Format("'{}' sends nothing: its queue {}",
                          link.name,
                          link.queue == "netem" ? "of kind netem loses all" : "is a blackhole"),
           .fix = Format("{}tc qdisc del dev {} root", prefix, ShellWord(link.name))}};
}

FindingList FindXdp(NodeFacts& facts, const Connection& connection) {
  if (connection.from != Connection::Place::kBeyond || !connection.uplink) {
    return {};
  }
  const rtnl::Link& uplink = *connection.uplink;
  const std::set<std::string> ports = link::FindUplinks(facts.Links(), uplink);
  FindingList found;
  for (const rtnl::Link& link : facts.Links()) {
    // A bond has its links as a bridge has its ports.
    const bool is_below = link.index == uplink.index || ports.contains(link.name) ||
                          (uplink.kind == "vlan" && link.index == uplink.peer) ||
                          (uplink.kind != "bridge" && link.master == uplink.index);
    if (link.has_xdp && is_below) {
      const std::string text = Format(
          "the XDP program of '{}' was not looked at: it may drop what clients send", link.name);
      found.push_back({.text = text,
                       .fix = Fix::Advice("look at it: bpftool net; bpftool prog"),
                       .severity = Finding::Severity::kWarning,
                       .ends = false,
                       .error = text});
    }
  }
  return found;
}

FindingList FindHeldPort(NodeFacts& facts, const state::Record& record) {
  const std::optional<rtnl::Link> veth = facts.FindLink(state::HostVethName(record.id));
  const std::optional<rtnl::Link> bridge = facts.FindLink(record.link.bridge);
  if (!veth || !bridge || !bridge->up || !veth->operational || veth->master != bridge->index ||
      veth->forwarding) {
    return {};  // the port forwards, or a reconcile reports why not
  }
  Finding held{.text = Format("bridge port '{}' does not forward", veth->name)};
  if (bridge->forward_delay == 0) {  // no spanning tree, which alone may block a port
    held.fix = Format("bridge link set dev {} state 3", ShellWord(veth->name));
    return {held};
  }
  constexpr int kOfASecond = 100;
  held.text += Format(": the spanning tree of '{}' holds it back", bridge->name);
  held.fix =
      Fix::Advice(Format("wait {} seconds, twice the forward delay of '{}'; if it stays so, "
                         "look for a loop behind the port",
                         2 * bridge->forward_delay / kOfASecond,
                         bridge->name));
  if (veth->port_state == BR_STATE_LISTENING || veth->port_state == BR_STATE_LEARNING) {
    held.severity = Finding::Severity::kNote;  // it ends by itself
  }
  return {held};
}

FindingList FindWrongPort(NodeFacts& facts, const state::Record& record, const rtnl::Link& veth) {
  const Mac mac = record.ContainerMac();
  const auto is_elsewhere = [&](const rtnl::FdbEntry& entry) {
    return entry.mac == mac && entry.port != veth.index &&
           entry.kind != rtnl::FdbEntry::Kind::kLearned;
  };
  const std::vector<rtnl::FdbEntry> entries = facts.host.net.AllFdbEntries();
  const auto wrong = std::ranges::find_if(entries, is_elsewhere);
  const std::optional<rtnl::Link> port =
      wrong == entries.end() ? std::nullopt : facts.FindLink(wrong->port);
  if (!port) {
    return {};
  }
  return {
      {.text = Format("the bridge has the container's MAC {} at '{}', not at '{}'",
                      mac.Text(),
                      port->name,
                      veth.name),
       .fix = Fix::Advice(Format("look at that entry: bridge fdb show | grep {}", mac.Text()))}};
}

FindingList FindDetourByRule(NodeFacts& facts,
                             const state::Record& record,
                             const Ip& address,
                             const std::optional<rtnl::RouteQuery>& packet) {
  const std::optional<rtnl::Link> gateway = facts.FindLink(record.link.gateway_ifname);
  if (!gateway || !HasNetworkOf(facts, *gateway, address)) {
    return {};
  }
  const std::vector<rtnl::RouteQuery> queries =
      packet ? std::vector{*packet, rtnl::RouteQuery{.destination = address}}
             : UsualQueriesFor(facts, address);
  for (const rtnl::RouteQuery& query : queries) {
    if (auto detour = link::FindDetour(facts.host.net, record, *gateway, query)) {
      return {*std::move(detour)};
    }
  }
  return {};
}

FindingList FindToContainer(NodeFacts& facts,
                            const state::Record& record,
                            const Ip& address,
                            const std::optional<rtnl::RouteQuery>& packet) {
  const std::optional<rtnl::Link> gateway = facts.FindLink(record.link.gateway_ifname);
  FindingList causes;
  if (gateway && HasNetworkOf(facts, *gateway, address)) {
    causes = FindDetourByRule(facts, record, address, packet);
    if (causes.empty()) {
      causes = FindWrongNeighbour(facts, record, address);
    }
  }
  if (!record.link.bridge.empty() && record.IsLive(cni::Part::kLink)) {
    Append(causes, FindHeldPort(facts, record));
  }
  return causes;
}

bool IsReversePathStrict(std::string_view ifname) {
  constexpr long kStrict = 1;
  return std::max(netlink::SysctlNumber(netlink::Ipv4Setting("all", "rp_filter")),
                  netlink::SysctlNumber(netlink::Ipv4Setting(ifname, "rp_filter"))) == kStrict;
}

Fix LoosenReversePath(std::string_view ifname) {
  return Cat("sysctl -w ", ShellWord(Cat(netlink::Ipv4Setting(ifname, "rp_filter"), "=2")));
}

bool IsByReversePath(rtnl::Socket& net,
                     const rtnl::RouteAnswer& answer,
                     const rtnl::Link& link,
                     const Ip& source) {
  // Since Linux 6.15 the error is EINVAL, which has many other reasons, too.
  if (answer.error != EINVAL || !source.is_ipv4()) {
    return answer.error == EXDEV;
  }
  const rtnl::RouteAnswer back = net.LookUpRoute({.destination = source});
  return IsReversePathStrict(link.name) && back.error == 0 && back.link != link.index;
}

Finding StrictReversePath(const rtnl::Link& link, const std::string& source) {
  return {.text = Format("packets that arrive on '{}' from {} are dropped: the way back leaves by "
                         "another interface, and rp_filter is strict ({}, or that of all)",
                         link.name,
                         source,
                         netlink::Ipv4Setting(link.name, "rp_filter")),
          .fix = LoosenReversePath(link.name)};
}

// The file has pairs of lines: a line of names, and a line of numbers. See proc_pid_net(5),
// netstat.
bool HasReversePathDropped() {
  const std::vector<std::string> lines =
      SplitFields(FindFile("/proc/self/net/netstat").value_or(""), "\n");
  for (std::size_t at = 0; at + 1 < lines.size(); at += 2) {
    const std::vector<std::string> names = SplitFields(lines[at], " ");
    const std::vector<std::string> numbers = SplitFields(lines[at + 1], " ");
    const auto found = std::ranges::find(names, "IPReversePathFilter");
    const auto column = static_cast<std::size_t>(found - names.begin());
    if (column < std::min(names.size(), numbers.size())) {
      return numbers[column] != "0";
    }
  }
  return false;
}

Fix ConntrackRoom::Enlarge() const {
  // After the limit was lowered, the table may hold more than the limit allows.
  return Cat("sysctl -w net/netfilter/nf_conntrack_max=", std::max(used, most) * 2);
}

ConntrackRoom FindConntrackRoom() {
  return {.used = netlink::SysctlNumber("net/netfilter/nf_conntrack_count"),
          .most = netlink::SysctlNumber("net/netfilter/nf_conntrack_max")};
}

}  // namespace nomad_bridge::causes
