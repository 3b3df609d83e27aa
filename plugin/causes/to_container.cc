#include <algorithm>
#include <utility>

#include "base/list.h"
#include "base/text.h"
#include "plugin/causes/blockers.h"
#include "plugin/causes/lookups.h"
#include "plugin/causes/reverse_path.h"
#include "plugin/link/former_bridge.h"
#include "plugin/link/forwarding.h"
#include "plugin/link/idle_link.h"
#include "plugin/state/kernel_names.h"

namespace nomad_bridge::causes {
namespace {

// One look at the way between the node and the container.
class WayLook {
 public:
  WayLook(NodeFacts& facts, const Journey& journey)
      : facts_(facts),
        host_(facts.host),
        record_(*journey.record),
        journey_(journey),
        address_(journey.port.container_ip),
        tool_(IpTool(journey.family())),
        gateway_(facts.FindLink(record_.link.gateway_ifname)),
        own_(gateway_ ? FindOwnAddress() : std::nullopt),
        way_(host_.net.LookUpRoute({.destination = address_})) {}

  Causes Run() {
    LookForSameAddress();
    if (gateway_) {
      Append(causes_, FindBlackhole(host_.net, *gateway_));
    }
    if (causes_.empty() && IsRoutedHere()) {
      LookAtRoute();
      LookAtNeighbour();
      if (causes_.empty()) {
        LookAtRequests();
      }
      if (causes_.empty()) {
        LookAtAnswers();
      }
    }
    LookAtPort();
    return std::move(causes_);
  }

 private:
  // The node's address in the network of the container: of a LAN's bridge whichever it has there.
  // nullopt if it is not there.
  [[nodiscard]] std::optional<Cidr> FindOwnAddress() const {
    for (const Cidr& cidr : facts_.Addresses(*gateway_)) {
      if (cidr.Contains(address_) && (IsLans() || Contains(record_.link.gateways, cidr))) {
        return cidr;
      }
    }
    return std::nullopt;
  }

  // The bridge is the node's own to its LAN: no address of it is ours.
  [[nodiscard]] bool IsLans() const { return record_.link.gateways.empty(); }

  // The bridge stands in no VRF and has an address of the node. What follows from one that is down,
  // without its address or does not forward goes with a reconcile, and needs no fix.
  [[nodiscard]] bool IsRoutedHere() {
    return own_ && gateway_->up && gateway_->master == 0 && facts_.Forwards(*gateway_, *own_);
  }

  void Add(const std::string& text, Fix fix) { causes_.push_back({text, std::move(fix)}); }

  void LookForSameAddress() {
    if (way_.error != 0 || way_.link != rtnl::kLoopbackIndex) {
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
    const std::optional<std::string> route =
        causes_.empty() ? host_.net.FindLocalRoute(address_) : std::nullopt;
    if (route) {
      Add(Format(
              "the local route to {} has this node itself take what is for {}", *route, address_),
          Format("{} route del local {}{}", tool_, *route, TableWords(kLocalTable)));
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
    const auto is_own = [&](const Route& route) {
      return !route.gateway && route.destination.Contains(address_);
    };
    if (std::ranges::none_of(facts_.Routes(*gateway_), is_own)) {
      return Add(Format("the route to {}/{} by '{}' is missing",
                        own_->Network(),
                        own_->prefix_length,
                        gateway_->name),
                 AddOwnRoute(kMainTable));
    }
    if (way_.error != 0) {
      return Append(
          causes_,
          FindBlockers(
              host_.net, {.destination = address_}, Format("no packet gets to {}", address_)));
    }
    Append(causes_, FindDetour(way_, Format("the route to {}", address_)));
  }

  // By another link than the container's; `what` leads there.
  [[nodiscard]] Causes FindDetour(const rtnl::RouteAnswer& way, const std::string& what) {
    if (way.link == gateway_->index || way.link == rtnl::kLoopbackIndex) {
      return {};  // lo: the node has the address
    }
    const std::optional<rtnl::Link> wrong = host_.net.FindLink(way.link);
    if (!wrong) {
      return {};
    }
    if (const auto former = link::FindFormerBridge(host_, *wrong, *gateway_)) {
      return {{.text = former->text, .fix = former->fix}};
    }
    std::optional<Route> nearest;
    for (const Route& route : host_.net.Routes(*wrong)) {
      const bool is_nearer =
          !nearest || route.destination.prefix_length > nearest->destination.prefix_length;
      if (route.table == way.table && route.destination.Contains(address_) && is_nearer) {
        nearest = route;
      }
    }
    return {{.text = Format("{} leads out of '{}', not of '{}'", what, wrong->name, gateway_->name),
             .fix = FixOfDetour(way, *wrong, nearest)}};
  }

  // What leads elsewhere with more than this network, such as a default route, is needed; so may be
  // what leads to a part of it, with others in it.
  [[nodiscard]] Fix FixOfDetour(const rtnl::RouteAnswer& way,
                                const rtnl::Link& wrong,
                                const std::optional<Route>& nearest) const {
    if (!nearest || nearest->destination.prefix_length < own_->prefix_length) {
      return AddOwnRoute(way.table);
    }
    return nearest->destination.prefix_length < address_.bits()
               ? AnotherSubnet()
               : Fix(Format("{} route del {} dev {}{}",
                            tool_,
                            nearest->destination,
                            ShellWord(wrong.name),
                            TableWords(way.table)));
  }

  // What comes by the uplink is known to rules of policy routing by that, and by its source. What
  // concerns some clients only concerns no one in particular.
  void LookAtRequests() {
    const std::optional<rtnl::Link>& uplink = journey_.uplink;
    if (!journey_.client || !uplink || !uplink->up || uplink->master != 0 ||
        (address_.is_ipv4() && !uplink->ForwardsIpv4())) {
      return;
    }
    Causes found = FindOfRequest(*uplink, *journey_.client);
    for (const Ip& other : journey_.others) {
      if (!found.empty()) {
        const Causes shared = FindOfRequest(*uplink, other);
        std::erase_if(found, [&](const Cause& cause) { return !Contains(shared, cause); });
      }
    }
    Append(causes_, std::move(found));
  }

  [[nodiscard]] Causes FindOfRequest(const rtnl::Link& uplink, const Ip& client) {
    const rtnl::RouteQuery query = {
        .destination = address_,
        .source = client,
        .flow = rtnl::Flow{.protocol = static_cast<std::uint8_t>(journey_.port.protocol),
                           .source_port = kClientPort,
                           .destination_port = journey_.port.container_port},
        .input_link = uplink.index,
        .mark = journey_.marks.request};
    const rtnl::RouteAnswer way = host_.net.LookUpRoute(query);
    const std::string what = Format("what comes by '{}' for {}", uplink.name, address_);
    if (way.error == 0) {
      Causes detour = FindDetour(way, what);
      return !query.mark && HasRulesAboutMarks() ? Causes() : std::move(detour);
    }
    return IsByReversePath(host_.net, way, uplink, client)
               ? Causes()
               : FindKnownBlockers(host_.net, query, Cat(what, " does not get there"));
  }

  [[nodiscard]] bool HasRulesAboutMarks() { return facts_.HasRulesAboutMarks(journey_.family()); }

  void LookAtNeighbour() {
    Causes arp_off = FindArpOff(host_.net, *gateway_, address_);
    if (!arp_off.empty()) {
      return Append(causes_, std::move(arp_off));
    }
    if (OwnGateway(record_, Family::kIpv4) && address_.is_ipv4()) {
      Append(causes_, FindArpIgnored(*gateway_, facts_.ArpIgnoreOfAll()));
    }
    const std::optional<rtnl::Neighbour> neighbour = facts_.FindNeighbour(*gateway_, address_);
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
    const rtnl::RouteQuery query = AnswersTo(*journey_.client, journey_, gateway_->index);
    const rtnl::RouteAnswer back = host_.net.LookUpRoute(query);
    if (IsByReversePath(host_.net, back, *gateway_, address_)) {
      causes_.push_back(StrictReversePath(*gateway_, address_.Text()));
    } else if (back.error != 0) {
      const auto find = !query.mark && HasRulesAboutMarks() ? FindKnownBlockers : FindBlockers;
      Append(causes_,
             find(host_.net, query, Format("answers do not get to {}", journey_.ClientText()), ""));
    }
  }

  void LookAtPort() {
    if (record_.link.bridge.empty() || !record_.IsLive(cni::Part::kLink)) {
      return;
    }
    const std::optional<rtnl::Link> veth = facts_.FindLink(state::HostVethName(record_.id));
    const std::optional<rtnl::Link> bridge = facts_.FindLink(record_.link.bridge);
    if (!veth || !bridge) {
      return;  // a reconcile says so
    }
    Append(causes_, FindBlackhole(host_.net, *veth));
    LookAtMac(*veth, *bridge);
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

  // The bridge learns no other place for it. At the right one, what the node sends arrives. With
  // VLANs the entry may be of another one.
  void LookAtMac(const rtnl::Link& veth, const rtnl::Link& bridge) {
    const Mac mac = record_.ContainerMac();
    for (const rtnl::FdbEntry& entry : facts_.OwnMacs()) {
      const bool is_its = entry.mac == mac && entry.port != veth.index && !bridge.vlan_filtering;
      const std::optional<rtnl::Link> port = is_its ? facts_.FindLink(entry.port) : std::nullopt;
      if (port && (port->index == bridge.index || port->master == bridge.index)) {
        Add(Format("bridge '{}' takes the container's MAC {} for the node's own, at '{}'",
                   bridge.name,
                   mac.Text(),
                   port->name),
            Format("bridge fdb del {} dev {} {}",
                   mac.Text(),
                   ShellWord(port->name),
                   port->index == bridge.index ? "self" : "master"));
      }
    }
  }

  void LookAtPortState(const rtnl::Link& veth, const rtnl::Link& bridge) {
    link::IdleLink held = link::DescribeHeldPort(veth, bridge);
    causes_.push_back({.text = Format("bridge port '{}' {}", veth.name, held.text),
                       .fix = std::move(held.fix),
                       .is_passing = held.is_passing});
  }

  NodeFacts& facts_;
  state::Host& host_;
  const state::Record& record_;
  const Journey& journey_;
  const Ip& address_;
  std::string tool_;
  std::optional<rtnl::Link> gateway_;
  std::optional<Cidr> own_;
  rtnl::RouteAnswer way_;  // of packets from this node to the container
  Causes causes_;
};

}  // namespace

Causes FindToContainer(NodeFacts& facts, const Journey& journey) {
  return WayLook(facts, journey).Run();
}

}  // namespace nomad_bridge::causes
