#include <algorithm>

#include "base/list.h"
#include "base/text.h"
#include "netlink/core/sysctl.h"
#include "plugin/causes/blockers.h"
#include "plugin/causes/conntrack_room.h"
#include "plugin/causes/lookups.h"
#include "plugin/causes/reverse_path.h"
#include "plugin/link/forwarding.h"
#include "plugin/link/lan.h"
#include "plugin/link/uplink.h"
#include "plugin/state/kernel_names.h"

namespace nomad_bridge::causes {
namespace {

// One look at the node.
class NodeLook {
 public:
  NodeLook(NodeFacts& facts, const Journey& journey)
      : facts_(facts),
        host_(facts.host),
        record_(*journey.record),
        journey_(journey),
        gateway_(facts.FindLink(record_.link.gateway_ifname)) {}

  Causes Run() {
    LookAtConntrack();
    LookAtPublishedAddress();
    LookAtUplink();
    LookAtLocalRoutes();
    if (causes_.empty()) {
      LookForLostWay();
    }
    LookAtForwarding();
    LookAtReversePath();
    return std::move(causes_);
  }

 private:
  void Add(const std::string& text, Fix fix) { causes_.push_back({text, std::move(fix)}); }

  void LookAtConntrack() {
    const ConntrackRoom room = FindConntrackRoom();
    if (room.IsFull()) {
      Add(Format("conntrack is full, {} of {}: new connections are dropped", room.used, room.most),
          room.Enlarge());
    }
    if (room.most != 0 && journey_.port.protocol == portmap::Protocol::kTcp) {
      Append(causes_, FindConntrackTimeouts());
    }
  }

  void LookAtPublishedAddress() {
    const std::optional<Ip>& published = journey_.port.host_ip;
    if (published && !published->IsLoopback() && !host_.net.AllAddresses().contains(*published)) {
      const std::string ifname = journey_.uplink ? journey_.uplink->name : "INTERFACE";
      Add(Format("{}, which it is published on, is no address of this node", *published),
          Fix::Advice(
              Format("if another node has it now (keepalived), nothing; else: {} address add "
                     "{} dev {}",
                     IpTool(journey_.family()),
                     Cidr::Host(*published),
                     ShellWord(ifname))));
    }
  }

  // With a link that is set down go its IPv6 addresses, and with a flush all.
  void LookForAddresses() {
    if (journey_.bare_uplink) {
      Add("this node has no address: nobody beyond it reaches it",
          Fix::Advice(Format("let the node's network service give '{}' its addresses and routes "
                             "again",
                             *journey_.bare_uplink)));
    }
  }

  // Without it nobody's packets for that address are taken. One of IPv6 gets it late, once it is
  // known to be the only one.
  void LookAtLocalRoutes() {
    const std::optional<rtnl::Link>& uplink = journey_.uplink;
    if (!uplink || !uplink->operational || uplink->master != 0 || !journey_.node ||
        !journey_.node->is_ipv4()) {
      return;
    }
    std::vector<Ip> nodes = {*journey_.node};
    Append(nodes, journey_.also);
    for (const Ip& node : nodes) {
      const bool is_taken =
          host_.net.LookUpRoute({.destination = node}).link == rtnl::kLoopbackIndex;
      if (!is_taken && Contains(AddressesOnly(host_.net.Addresses(*uplink)), node) &&
          !host_.net.FindLocalRoute(node)) {
        Add(Format("table local has no route for {}: this node takes nothing that is for it", node),
            Format("ip route add local {} dev {} table local", node, ShellWord(uplink->name)));
      }
    }
  }

  // A link that is set down and up again has lost its IPv6 addresses, and all routes by gateways.
  void LookForLostWay() {
    const std::optional<std::string> lacks = FindNoWayBeyond(facts_, journey_);
    if (lacks && HasLostWayBeyond(facts_, journey_)) {
      Add(Cat(*lacks, "; it had one when the port was published"),
          Fix::Advice(
              Format("let the node's network service give {} its addresses and routes again",
                     journey_.uplink ? Cat("'", journey_.uplink->name, "'") : "the node")));
    }
  }

  void LookAtUplink() {
    const std::optional<rtnl::Link>& uplink = journey_.uplink;
    if (!uplink) {
      return LookForAddresses();
    }
    if (uplink->up && journey_.family() == Family::kIpv6) {
      LookAtIpv6(*uplink);
    }
    Append(causes_, FindBlackhole(host_.net, *uplink));
    if (uplink->operational) {
      LookAtArp(*uplink);
    } else {
      LookAtCarrier(*uplink);
    }
  }

  // With it went its addresses and routes, which only the node's own configuration knows.
  void LookAtIpv6(const rtnl::Link& uplink) {
    const auto add = [&](const std::string& what, const std::string& command) {
      Add(Format("'{}', by which it is reached, has {}", uplink.name, what),
          Fix::Advice(Format("{}, and give '{}' the IPv6 addresses and routes again that went with "
                             "it; or leave IPv6 out of the network's config",
                             command,
                             uplink.name)));
    };
    if (uplink.ipv6 && uplink.ipv6->disabled) {
      const std::string setting = netlink::Ipv6Setting(uplink.name, "disable_ipv6");
      add(Format("IPv6 switched off: {} is 1", setting),
          Cat("sysctl -w ", ShellWord(Cat(setting, "=0"))));
    } else if (uplink.mtu < config::kMinIpv6Mtu && record_.rules.ways.Has(Family::kIpv6)) {
      add(Format("lost IPv6: its MTU is {}, and IPv6 needs {}", uplink.mtu, config::kMinIpv6Mtu),
          Format("ip link set {} mtu {}", ShellWord(uplink.name), config::kEthernetMtu));
    }
  }

  // A next hop that is put down for good may have been told of the node, too.
  void LookAtArp(const rtnl::Link& uplink) {
    Append(causes_, FindArpOff(host_.net, uplink, journey_.next_hop));
    const auto next =
        journey_.next_hop ? facts_.FindNeighbour(uplink, *journey_.next_hop) : std::nullopt;
    if (journey_.family() == Family::kIpv4 && !(next && next->permanent)) {
      Append(causes_, FindArpIgnored(uplink, facts_.ArpIgnoreOfAll()));
    }
  }

  void LookAtCarrier(const rtnl::Link& uplink) {
    std::vector<link::IdleLink> idle;
    if (uplink.kind == "bridge") {
      idle = link::FindIdlePorts(host_, uplink);
    }
    if (idle.empty()) {
      idle.push_back(link::DescribeIdle(uplink));
      idle[0].text = Format("'{}', by which it is reached, {}", uplink.name, idle[0].text);
    }
    for (link::IdleLink& each : idle) {
      causes_.push_back({.text = std::move(each.text),
                         .fix = std::move(each.fix),
                         .is_passing = each.is_passing});
    }
  }

  void LookAtForwarding() {
    const char* const of_all = link::ForwardingOf(journey_.family());
    std::vector<std::string> settings;
    if (!host_.net.ForwardsAll(journey_.family())) {
      if (record_.link.gateways.empty()) {  // else a reconcile turns it on
        settings.emplace_back(of_all);
      }
    } else if (journey_.family() == Family::kIpv4) {
      for (const std::optional<rtnl::Link>& link : {journey_.uplink, gateway_}) {
        if (link && link->ipv4 && !link->ipv4->forwarding) {
          settings.push_back(netlink::Ipv4Setting(link->name, "forwarding"));
        }
      }
    }
    for (const std::string& setting : settings) {
      Add(Format("{} is 0: what comes for containers is not forwarded", setting),
          Cat("sysctl -w ", ShellWord(Cat(setting, "=1"))));
    }
  }

  // What comes for the container.
  void LookAtReversePath() {
    if (!journey_.client) {
      return;
    }
    if (journey_.uplink) {
      LookAtSource(*journey_.uplink);
    }
    // A client that is named may come by where all others do, whatever the way back to it is. That
    // its packets were dropped is known only where some were.
    const std::optional<rtnl::Link> usual =
        journey_.is_client_named && HasReversePathDropped()
            ? Planner(facts_).Plan(record_, journey_.port, std::nullopt).uplink
            : std::nullopt;
    if (usual && (!journey_.uplink || usual->index != journey_.uplink->index)) {
      LookAtSource(*usual);
    }
  }

  void LookAtSource(const rtnl::Link& link) {
    const Ip& destination = journey_.node.value_or(journey_.port.container_ip);
    const rtnl::RouteAnswer in = host_.net.LookUpRoute(
        {.destination = destination, .source = *journey_.client, .input_link = link.index});
    if (IsByReversePath(host_.net, in, link, *journey_.client)) {
      causes_.push_back(StrictReversePath(link, journey_.ClientText()));
    }
  }

  NodeFacts& facts_;
  state::Host& host_;
  const state::Record& record_;
  const Journey& journey_;
  std::optional<rtnl::Link> gateway_;
  Causes causes_;
};

}  // namespace

bool HasLostWayBeyond(NodeFacts& facts, const Journey& journey) {
  const Family family = journey.family();
  return journey.record->rules.ways.Has(family) && !facts.WaysBeyond().Has(family);
}

std::optional<std::string> FindNoWayBeyond(NodeFacts& facts, const Journey& journey) {
  const bool is_local = journey.port.host_ip && journey.port.host_ip->IsLoopback();
  if (journey.is_client_named || is_local) {
    return std::nullopt;
  }
  const char* const family = journey.family() == Family::kIpv4 ? "IPv4" : "IPv6";
  if (!facts.HasAddress(journey.family())) {
    return Format("this node has no address for {}: nobody beyond it reaches the port there",
                  family);
  }
  return facts.HasDefaultRoute(journey.family())
             ? std::nullopt
             : std::optional(Format("this node has no default route for {}: clients beyond its own "
                                    "networks get no answer",
                                    family));
}

Causes FindOnNode(NodeFacts& facts, const Journey& journey) {
  return NodeLook(facts, journey).Run();
}

std::vector<std::string> FindTrafficControl(state::Host& host, const Journey& journey) {
  const state::Record& record = *journey.record;
  std::vector<std::string> notes;
  const auto look = [&](const std::optional<rtnl::Link>& link) {
    if (link) {
      Append(notes, TrafficControlOf(host.net, *link));
    }
  };
  look(journey.uplink);
  if (!record.link.gateway_ifname.empty() &&
      (!journey.uplink || journey.uplink->name != record.link.gateway_ifname)) {
    look(host.net.FindLink(record.link.gateway_ifname));
  }
  look(host.net.FindLink(state::HostVethName(record.id)));
  return notes;
}

}  // namespace nomad_bridge::causes
