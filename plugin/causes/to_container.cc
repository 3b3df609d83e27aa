#include <algorithm>
#include <utility>

#include "base/list.h"
#include "base/text.h"
#include "plugin/causes/blockers.h"
#include "plugin/causes/lookups.h"
#include "plugin/causes/reverse_path.h"
#include "plugin/link/forwarding.h"
#include "plugin/link/port_state.h"
#include "plugin/state/kernel_names.h"

namespace nomad_bridge::causes {
namespace {

// One look at the way between the node and the container.
class WayLook {
 public:
  WayLook(state::Host& host, const state::Record& record, const Journey& journey)
      : host_(host),
        record_(record),
        journey_(journey),
        address_(journey.port.container_ip),
        tool_(IpTool(journey.family())),
        gateway_(record.link.gateway_ifname.empty()
                     ? std::nullopt
                     : host.net.FindLink(record.link.gateway_ifname)),
        own_(gateway_ ? FindOwnAddress() : std::nullopt) {}

  Causes Run() {
    LookForSameAddress();
    if (gateway_) {
      AddAll(FindBlackhole(*gateway_));
    }
    if (causes_.empty() && IsRoutedHere()) {
      LookAtRoute();
      LookAtNeighbour();
      LookAtAnswers();
    }
    LookAtPort();
    return std::move(causes_);
  }

 private:
  // The gateway's address in the network of the container; nullopt if it is not there.
  [[nodiscard]] std::optional<Cidr> FindOwnAddress() const {
    for (const Cidr& cidr : host_.net.Addresses(*gateway_)) {
      if (Contains(record_.link.gateways, cidr) && cidr.Contains(address_)) {
        return cidr;
      }
    }
    return std::nullopt;
  }

  // The bridge stands in no VRF and has a gateway of ours. What follows from one that is down,
  // without its address or does not forward goes with a reconcile, and needs no fix.
  [[nodiscard]] bool IsRoutedHere() const {
    if (!own_ || !gateway_->up || gateway_->master != 0) {
      return false;
    }
    Mismatches found(Mode::kLook);
    link::CheckForwarding(host_, *gateway_, {*own_}, found);
    return found.empty();
  }

  void Add(const std::string& text, Fix fix) { causes_.push_back({text, std::move(fix)}); }
  void AddAll(Causes more) {
    for (Cause& cause : more) {
      causes_.push_back(std::move(cause));
    }
  }

  void LookForSameAddress() {
    if (!Contains(host_.net.LocalAddresses(journey_.family()), address_)) {
      return;
    }
    for (const rtnl::Link& link : host_.net.Links()) {
      for (const Cidr& own : host_.net.Addresses(link)) {
        if (own.address == address_) {
          Add(Format("this node itself has {}, on '{}'", address_, link.name),
              Format("{} address del {} dev {}", tool_, own, ShellWord(link.name)));
        }
      }
    }
  }

  // By which all of the network is reached, in `table`.
  [[nodiscard]] Fix AddOwnRoute(std::uint32_t table) const {
    return Format("{} route add {}/{} dev {} src {}{}",
                  tool_,
                  own_->Network(),
                  own_->prefix_length,
                  ShellWord(gateway_->name),
                  own_->address,
                  TableWords(table));
  }

  void LookAtRoute() {
    const std::vector<Route> by_gateway = host_.net.Routes(*gateway_);
    if (std::ranges::none_of(
            by_gateway, [&](const Route& route) { return route.destination.Contains(address_); })) {
      return Add(Format("the route to {}/{} by '{}' is missing",
                        own_->Network(),
                        own_->prefix_length,
                        gateway_->name),
                 AddOwnRoute(kMainTable));
    }
    const rtnl::RouteQuery query = {.destination = address_};
    const rtnl::RouteAnswer way = host_.net.LookUpRoute(query);
    if (way.error != 0) {
      return AddAll(FindBlockers(host_.net, query, Format("no packet gets to {}", address_)));
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
    // What leads elsewhere with more than this network, such as a default route, is needed.
    const bool is_wrong = nearest && nearest->destination.prefix_length >= own_->prefix_length;
    Add(Format("the route to {} leads out of '{}', not of '{}'",
               address_,
               wrong->name,
               gateway_->name),
        is_wrong ? Format("{} route del {} dev {}{}",
                          tool_,
                          nearest->destination,
                          ShellWord(wrong->name),
                          TableWords(way.table))
                 : AddOwnRoute(way.table));
  }

  void LookAtNeighbour() {
    Causes arp_off = FindArpOff(host_.net, *gateway_, address_);
    if (!arp_off.empty()) {
      return AddAll(std::move(arp_off));
    }
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
          Format("{} neigh del {} dev {}", tool_, address_, ifname));
    } else {
      // What is its for this node alone: the other machine keeps its link.
      Add(Format("{} is at {} for this node, not at {}: another machine on '{}' has it, too",
                 address_,
                 neighbour->mac.Text(),
                 expected.Text(),
                 gateway_->name),
          Format("{} neigh replace {} lladdr {} dev {} nud permanent",
                 tool_,
                 address_,
                 expected.Text(),
                 ifname));
    }
  }

  void LookAtAnswers() {
    if (!journey_.client || !journey_.uplink || !journey_.uplink->up) {
      return;
    }
    const Ip& client = *journey_.client;
    const rtnl::RouteQuery query = {
        .destination = client, .source = address_, .input_link = gateway_->index};
    const rtnl::RouteAnswer back = host_.net.LookUpRoute(query);
    if (IsByReversePath(host_.net, back, *gateway_, address_)) {
      causes_.push_back(StrictReversePath(*gateway_, address_.Text()));
    } else if (back.error != 0) {
      AddAll(FindBlockers(
          host_.net, query, Format("answers do not get to {}", journey_.ClientText())));
    }
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
    AddAll(FindBlackhole(*veth));
    if (bridge->up && veth->operational && veth->master == bridge->index && !veth->forwarding) {
      LookAtPortState(*veth, *bridge);
    }
    if (veth->mtu < bridge->mtu) {
      causes_.push_back(
          {.text = Format("the MTU of '{}' is {}, that of '{}' {}: larger packets are lost",
                          veth->name,
                          veth->mtu,
                          bridge->name,
                          bridge->mtu),
           .fix = Format("ip link set {} mtu {}", veth->name, bridge->mtu),
           .ends = false});
    }
  }

  void LookAtPortState(const rtnl::Link& veth, const rtnl::Link& bridge) {
    link::HeldPort held = link::DescribeHeldPort(veth, bridge);
    causes_.push_back({.text = Format("bridge port '{}' {}", veth.name, held.text),
                       .fix = std::move(held.fix),
                       .is_passing = held.is_passing});
  }

  state::Host& host_;
  const state::Record& record_;
  const Journey& journey_;
  const Ip& address_;
  std::string tool_;
  std::optional<rtnl::Link> gateway_;
  std::optional<Cidr> own_;
  Causes causes_;
};

}  // namespace

Causes FindToContainer(state::Host& host, const state::Record& record, const Journey& journey) {
  return WayLook(host, record, journey).Run();
}

}  // namespace nomad_bridge::causes
