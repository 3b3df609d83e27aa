#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "base/list.h"
#include "base/text.h"
#include "netlink/core/sysctl.h"
#include "plugin/causes/journey.h"
#include "plugin/link/uplink.h"
#include "plugin/rules/published_port_warnings.h"

namespace nomad_bridge::causes {
namespace {

constexpr std::uint32_t kMainTable = 254;
constexpr std::uint32_t kLocalTable = 255;

std::string TableWords(std::uint32_t table) {
  return table == kMainTable || table == 0 ? "" : Cat(" table ", table);
}

Cause SysctlCause(const std::string& setting, const std::string& wanted, const std::string& text) {
  return {.text = text, .fix = Format("sysctl -w {}={}", setting, wanted)};
}

// One look at the node.
class Look {
 public:
  Look(state::Host& host, const state::Record& record, const Journey& journey)
      : host_(host),
        record_(record),
        journey_(journey),
        address_(journey.port.container_ip),
        gateway_(record.link.gateway_ifname.empty()
                     ? std::nullopt
                     : host.net.FindLink(record.link.gateway_ifname)) {}

  Causes Run() {
    LookAtConntrack();
    LookAtPublishedAddress();
    LookAtUplink();
    LookAtForwarding();
    LookForSameAddress();
    if (IsRoutedHere()) {
      LookAtRoute();
      LookAtNeighbour();
      LookAtInputRoutes();
    }
    LookAtPort();
    return std::move(causes_);
  }

 private:
  // The bridge stands in no VRF, and has a gateway of ours.
  [[nodiscard]] bool IsRoutedHere() const {
    return gateway_ && gateway_->master == 0 && !record_.link.gateways.empty();
  }

  void Add(const std::string& text, const std::string& fix) { causes_.push_back({text, fix}); }

  void LookAtConntrack() {
    const auto number = [](const char* setting) {
      return std::strtol(netlink::FindSysctl(setting).value_or("0").c_str(), nullptr, 10);
    };
    const long count = number("net/netfilter/nf_conntrack_count");
    const long most = number("net/netfilter/nf_conntrack_max");
    if (most != 0 && count >= most) {
      causes_.push_back(SysctlCause(
          "net/netfilter/nf_conntrack_max",
          std::to_string(std::max(count, most) * 2),
          Format("conntrack is full, {} of {}: new connections are dropped", count, most)));
    }
  }

  void LookAtPublishedAddress() {
    const std::optional<Ip>& published = journey_.port.host_ip;
    if (published && !published->IsLoopback() && !host_.net.AllAddresses().contains(*published)) {
      const std::string ifname = journey_.uplink ? journey_.uplink->name : "INTERFACE";
      Add(Format("{}, which it is published on, is no address of this node", *published),
          Format("{} address add {} dev {}",
                 IpTool(journey_.family()),
                 Cidr::Host(*published),
                 ShellWord(ifname)));
    }
  }

  void LookAtUplink() {
    const std::optional<rtnl::Link>& uplink = journey_.uplink;
    if (uplink && !uplink->operational) {
      Add(Format("'{}', by which it is reached, {}",
                 uplink->name,
                 uplink->up ? "has no carrier" : "is down"),
          uplink->up ? Format("plug in what '{}' stands for", uplink->name)
                     : Format("ip link set {} up", ShellWord(uplink->name)));
    }
  }

  void LookAtForwarding() {
    std::vector<std::string> settings = rules::FindForwardingOff(record_);
    if (settings.empty() && journey_.family() == Family::kIpv4) {
      for (const std::optional<rtnl::Link>& link : {journey_.uplink, gateway_}) {
        const std::string setting = link ? Format("net/ipv4/conf/{}/forwarding", link->name) : "";
        if (link && netlink::FindSysctl(setting) == "0") {
          settings.push_back(setting);
        }
      }
    }
    for (const std::string& setting : settings) {
      causes_.push_back(SysctlCause(
          setting, "1", Format("{} is 0: what comes for containers is not forwarded", setting)));
    }
  }

  void LookForSameAddress() {
    if (!host_.net.AllAddresses().contains(address_)) {
      return;
    }
    for (const rtnl::Link& link : host_.net.Links()) {
      for (const Cidr& own : host_.net.Addresses(link)) {
        if (own.address == address_) {
          Add(Format("this node itself has {}, on '{}'", address_, link.name),
              Format("{} address del {} dev {}",
                     IpTool(journey_.family()),
                     own,
                     ShellWord(link.name)));
        }
      }
    }
  }

  void LookAtRoute() {
    const rtnl::RouteAnswer way = host_.net.LookUpRoute({.destination = address_});
    if (way.error != 0) {
      return AddBlockers(address_, Format("no packet gets to {}", address_));
    }
    if (way.link == gateway_->index || way.link == rtnl::kLoopbackIndex) {
      return;  // lo: the node has the address
    }
    const std::optional<rtnl::Link> wrong = host_.net.FindLink(way.link);
    if (!wrong) {
      return;
    }
    std::optional<Route> nearest;
    for (const Route& route : host_.net.Routes(*wrong)) {
      const bool is_nearer =
          !nearest || route.destination.prefix_length > nearest->destination.prefix_length;
      if (route.table == way.table && route.destination.Contains(address_) && is_nearer) {
        nearest = route;
      }
    }
    const std::string ifname = ShellWord(wrong->name);
    Add(Format("the route to {} leads out of '{}', not of '{}'",
               address_,
               wrong->name,
               gateway_->name),
        nearest ? Format("{} route del {} dev {}{}",
                         IpTool(journey_.family()),
                         nearest->destination,
                         ifname,
                         TableWords(way.table))
                : Format("{} route add {} dev {}",
                         IpTool(journey_.family()),
                         Cidr::Host(address_),
                         ShellWord(gateway_->name)));
  }

  // Routes and rules that keep packets from `destination`; `what` if it is not known which.
  void AddBlockers(const Ip& destination, const std::string& what) {
    const std::size_t before = causes_.size();
    const std::string tool = IpTool(journey_.family());
    for (const rtnl::BlockingRule& rule : host_.net.BlockingRules(address_)) {
      Add(Format("{}: ip rule {} says {}", what, rule.priority, rule.action),
          Format("{} rule del priority {}", tool, rule.priority));
    }
    for (const rtnl::BlockingRoute& route : host_.net.BlockingRoutes(destination)) {
      if (route.table != kLocalTable) {  // which is the kernel's own
        Add(Format("{}: the route to {} is {}", what, route.destination, route.type),
            Format("{} route del {} {}{}",
                   tool,
                   route.type,
                   route.destination,
                   TableWords(route.table)));
      }
    }
    if (causes_.size() == before) {
      Add(Cat(what, ": there is no route"), Format("{} route show table all", tool));
    }
  }

  void LookAtNeighbour() {
    const std::optional<rtnl::Neighbour> neighbour = host_.net.FindNeighbour(*gateway_, address_);
    const Mac expected = record_.ContainerMac();
    if (!neighbour || neighbour->mac == expected || !record_.Has(cni::Part::kLink)) {
      return;
    }
    const std::string ifname = ShellWord(gateway_->name);
    if (neighbour->permanent) {
      Add(Format("a permanent neighbour entry on '{}' has {} at {}, not at {}",
                 gateway_->name,
                 address_,
                 neighbour->mac.Text(),
                 expected.Text()),
          Format("ip neigh del {} dev {}", address_, ifname));
    } else {
      Add(Format("{} is at {} for this node, not at {}: another machine on '{}' has it, too",
                 address_,
                 neighbour->mac.Text(),
                 expected.Text(),
                 gateway_->name),
          Format("bridge fdb show br {} | grep {} names its port: take the address from it",
                 ifname,
                 neighbour->mac.Text()));
    }
  }

  // What comes for the container, and what it answers.
  void LookAtInputRoutes() {
    if (!journey_.client || !journey_.uplink) {
      return;
    }
    const Ip& client = *journey_.client;
    LookAtSource(*journey_.uplink, client);
    const rtnl::RouteAnswer back = host_.net.LookUpRoute(
        {.destination = client, .source = address_, .input_link = gateway_->index});
    if (back.error == EXDEV) {
      AddReversePath(*gateway_, address_);
    } else if (back.error != 0) {
      AddBlockers(client, Format("answers get not to {}", client));
    }
  }

  // Whether packets from `client` that come by `link` pass rp_filter.
  void LookAtSource(const rtnl::Link& link, const Ip& client) {
    const Ip& destination = journey_.node.value_or(address_);
    const rtnl::RouteAnswer in = host_.net.LookUpRoute(
        {.destination = destination, .source = client, .input_link = link.index});
    if (in.error == EXDEV) {
      AddReversePath(link, client);
    }
  }

  void AddReversePath(const rtnl::Link& link, const Ip& source) {
    const std::string all = "net/ipv4/conf/all/rp_filter";
    const std::string own = Format("net/ipv4/conf/{}/rp_filter", link.name);
    // The greater of the two counts: 2 stands for loose.
    causes_.push_back(SysctlCause(
        own,
        "2",
        Format("rp_filter of '{}' is strict ({} or {}), and the way back to {} is another one",
               link.name,
               own,
               all,
               source)));
  }

  void LookAtPort() {
    if (record_.link.bridge.empty() || !record_.IsLive(cni::Part::kLink)) {
      return;
    }
    const std::optional<rtnl::Link> veth = host_.net.FindLink(state::HostVethName(record_.id));
    const std::optional<rtnl::Link> bridge = host_.net.FindLink(record_.link.bridge);
    if (!veth || !bridge) {
      return;  // a reconcile says so
    }
    if (veth->operational && veth->master == bridge->index && !veth->forwarding) {
      Add(Format("bridge port '{}' does not forward", veth->name),
          Format("bridge link set dev {} state 3", veth->name));
    }
    if (bridge->mtu < veth->mtu) {
      Add(Format("the MTU of '{}' is {}, that of '{}' {}: larger packets are lost",
                 bridge->name,
                 bridge->mtu,
                 veth->name,
                 veth->mtu),
          Format("ip link set {} mtu {}", ShellWord(bridge->name), veth->mtu));
    }
  }

  state::Host& host_;
  const state::Record& record_;
  const Journey& journey_;
  const Ip& address_;
  std::optional<rtnl::Link> gateway_;
  Causes causes_;
};

}  // namespace

Causes FindOnNode(state::Host& host, const state::Record& record, const Journey& journey) {
  return Look(host, record, journey).Run();
}

}  // namespace nomad_bridge::causes
