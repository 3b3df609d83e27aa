#include "plugin/causes/probe.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <set>
#include <utility>

#include <netinet/in.h>
#include <poll.h>

#include "base/file_lock.h"
#include "firewall/drops.h"
#include "firewall/port_filter.h"
#include "netlink/probe/cleanup.h"
#include "plugin/causes/in_container.h"
#include "plugin/causes/listening.h"
#include "plugin/causes/probe_sender.h"
#include "plugin/link/uplink.h"
#include "plugin/rules/policy_admission.h"
#include "plugin/state/kernel_names.h"

namespace nomad_bridge::causes {
namespace {

using nft::TableFamily;
using probe::Observer;
using probe::PacketKind;
using Point = nft::Hook::Point;
using Place = Connection::Place;

// Long enough for the answer of any neighbour that exists.
constexpr std::chrono::milliseconds kLongest{500};
// Long enough for the kernel to finish its check for duplicates of a new IPv6 address. Until then,
// the address finds no neighbours.
constexpr std::chrono::milliseconds kNewAddress{2500};
// Long enough for a drop by a rule to show in the other namespace, too.
constexpr std::chrono::milliseconds kMoment{20};

// Where rules of ours count or note what they drop. Our chain forward comes directly after the
// admission by policies.
constexpr std::array kSignedAt = {
    Observer::What::SignedAt{TableFamily::kInet, Point::kForward, rules::kAdmissionPriority},
    Observer::What::SignedAt{TableFamily::kInet, Point::kInput, rules::kAdmissionPriority},
    Observer::What::SignedAt{TableFamily::kBridge, Point::kPrerouting, firewall::kBridgeDstnat},
    Observer::What::SignedAt{TableFamily::kBridge, Point::kForward, firewall::kBridgeFilter}};

// Returns the side of a marker in a container that has both.
Side SideOf(const probe::Marker& marker, PacketKind packet) {
  const bool is_netdev = marker.family == TableFamily::kNetdev;
  const bool leaves = is_netdev
                          ? marker.point == Point::kEgress
                          : marker.point == Point::kOutput || marker.point == Point::kPostrouting;
  const bool is_request = packet == PacketKind::kRequest || packet == PacketKind::kAsk;
  return leaves == is_request ? Side::kClient : Side::kServer;
}

// Runs one probe: prepares it, sends the packet, and watches.
class Run {
 public:
  Run(NodeFacts& facts, const Connection& connection)
      : facts_(facts), host_(facts.host), connection_(connection), sender_(facts, connection) {}

  Trail Make() {
    RequireUnasked();
    OpenContainers();
    std::optional<probe::Cleanup> cleanup(std::in_place, sender_.Ending(client_, server_));
    std::vector<Watch> watches;
    watches.push_back({.observer = Observer::Start(host_.netns, WhatOnNode())});
    const bool is_to_itself = client_ && server_ && client_->id() == server_->id();
    if (client_) {
      watches.push_back({.observer = Observer::Start(*client_, WhatInside()),
                         .side = Side::kClient,
                         .has_both_sides = is_to_itself});
    }
    if (server_ && !is_to_itself) {
      watches.push_back(
          {.observer = Observer::Start(*server_, WhatInside()), .side = Side::kServer});
    }
    trail_.was_sent = sender_.Send(client_);
    // A rule that drops a packet of this process makes the sending fail, too.
    Await(watches, trail_.was_sent ? kLongest : kMoment);
    if (!IsTcp()) {
      const std::optional<Listening> service = FindService(facts_, connection_, trail_);
      trail_.is_heard = service && service->is_answered;
    }
    // While the observers are there: they catch the reset, too.
    cleanup.reset();
    return std::move(trail_);
  }

 private:
  struct Watch {
    Observer observer;
    std::vector<probe::Sighting> fresh = {};
    Side side = Side::kNode;
    bool has_both_sides = false;  // client and server are in it: `side` changes with each marker
  };

  [[nodiscard]] bool IsTcp() const { return connection_.protocol == Protocol::kTcp; }

  // Deletes the neighbour entries of the server and of the next hop if they have not answered: the
  // kernel would not ask for them again soon.
  void RequireUnasked() {
    const std::optional<state::Record>& record = connection_.server_record;
    const std::optional<rtnl::Link> gateway =
        record ? facts_.FindLink(record->link.gateway_ifname) : std::nullopt;
    if (gateway) {
      host_.net.ForgetUnanswered(*gateway, connection_.server);
    }
    const std::optional<Ip> next = sender_.NextHop();
    if (connection_.uplink && next) {
      host_.net.ForgetUnanswered(*connection_.uplink, *next);
    }
  }

  void OpenContainers() {
    if (connection_.client_record) {
      client_ = link::FindNetns(*connection_.client_record);
    }
    if (connection_.server_record) {
      server_ = link::FindNetns(*connection_.server_record);
    }
  }

  // ---- what is watched

  [[nodiscard]] Observer::What What() const {
    Observer::What what = {
        .flow = flow_, .asked = {connection_.server, connection_.source, connection_.destination}};
    for (const std::optional<state::Record>* const record :
         {&connection_.client_record, &connection_.server_record}) {
      for (const Cidr& gateway : *record ? (*record)->link.gateways : std::vector<Cidr>()) {
        what.asked.insert(gateway.address);
      }
    }
    return what;
  }

  // Returns the links by which the node is reached, with the ports of those that are bridges.
  [[nodiscard]] std::set<std::string> Uplinks() {
    std::set<std::string> names;
    for (const rtnl::Link& link : facts_.Uplinks()) {
      names.insert(link.name);
      if (link.kind == "bridge") {
        names.merge(link::FindUplinks(facts_.Links(), link));
      }
    }
    if (connection_.uplink) {
      names.insert(connection_.uplink->name);
    }
    return names;
  }

  [[nodiscard]] Observer::What WhatOnNode() {
    Observer::What what = What();
    if (const std::optional<Ip> next = sender_.NextHop()) {
      what.asked.insert(*next);
    }
    const std::set<std::string> uplinks = Uplinks();
    what.devices = uplinks;
    AddContainerLinks(what.devices);
    AddCatches(uplinks, what);
    what.sign = firewall::kProbePriority;
    what.signed_at = {kSignedAt.begin(), kSignedAt.end()};
    if (!IsTcp() && connection_.to == Place::kNode) {
      what.catches.push_back(AtInput());
    }
    if (!IsTcp() && server_) {
      trail_.reader_link = FindReaderLink();
    }
    if (!trail_.reader_link.empty()) {
      what.catches.push_back({.packet = PacketKind::kRequest, .device = trail_.reader_link});
    }
    return what;
  }

  [[nodiscard]] std::string FindReaderLink() {
    const state::Record& record = *connection_.server_record;
    std::optional<Inside> inside = OpenInside(record);
    const std::string veth = state::HostVethName(record.id);
    return !inside || !FindFrameReaderNote(*inside) ? std::string()
           : facts_.FindLink(veth)                  ? veth
                                                    : record.link.gateway_ifname;
  }

  // Returns those links of the container that this node has: its host end and what leads to it.
  [[nodiscard]] std::set<std::string> LinksOf(const state::Record& record) {
    const std::vector<std::string> all = HostLinksOf(record);
    std::set<std::string> names(all.begin(), all.end());
    std::erase_if(names, [&](const std::string& name) { return !facts_.FindLink(name); });
    return names;
  }

  // Adds the bridge and the host ends of the containers at both ends.
  void AddContainerLinks(std::set<std::string>& devices) {
    for (const std::optional<state::Record>* const record :
         {&connection_.client_record, &connection_.server_record}) {
      if (*record) {
        devices.merge(LinksOf(**record));
      }
    }
  }

  // Catches packets that leave the node: the answer to a client beyond it, the request to a server
  // beyond it, and both where a rule or route of another program sends them elsewhere. A bridge
  // passes packets on to its ports, so they are caught at the ports.
  void AddCatches(const std::set<std::string>& uplinks, Observer::What& what) {
    for (const std::string& uplink : uplinks) {
      const std::optional<rtnl::Link> link = facts_.FindLink(uplink);
      if (link && link->kind == "bridge" && !link::FindUplinks(facts_.Links(), *link).empty()) {
        continue;
      }
      if (connection_.to == Place::kBeyond) {
        what.catches.push_back({.packet = PacketKind::kRequest, .device = uplink});
      }
      if (IsTcp() && connection_.from == Place::kBeyond) {
        what.catches.push_back({.packet = PacketKind::kAnswer, .device = uplink});
      }
    }
    what.elsewhere.push_back(
        {.packet = PacketKind::kRequest,
         .links = LinksTo(connection_.to, connection_.server_record, connection_.server, uplinks)});
    if (IsTcp()) {
      what.elsewhere.push_back(
          {.packet = PacketKind::kAnswer,
           .links =
               LinksTo(connection_.from, connection_.client_record, connection_.source, uplinks)});
    }
  }

  // Returns the links by which packets to that end may leave.
  [[nodiscard]] std::set<std::string> LinksTo(Place place,
                                              const std::optional<state::Record>& record,
                                              const Ip& address,
                                              const std::set<std::string>& uplinks) {
    std::set<std::string> links = place == Place::kBeyond ? uplinks
                                  : record                ? LinksOf(*record)
                                                          : std::set<std::string>();
    if (links.empty() && record) {
      // Another plugin has made the interface.
      const std::optional<rtnl::Link> link =
          facts_.FindLink(host_.net.LookUpRoute({.destination = address}).link);
      if (link && !uplinks.contains(link->name)) {
        links.insert(link->name);
      }
    }
    if (const std::optional<rtnl::Link> loopback = facts_.FindLink(rtnl::kLoopbackIndex)) {
      links.insert(loopback->name);
    }
    return links;
  }

  [[nodiscard]] Observer::What WhatInside() const {
    Observer::What what = What();
    for (const std::optional<state::Record>* const record :
         {&connection_.client_record, &connection_.server_record}) {
      if (*record) {
        what.devices.insert((*record)->id.ifname);
      }
    }
    if (!IsTcp() && connection_.to == Place::kAllocation) {
      what.catches.push_back(AtInput());
    }
    return what;
  }

  static probe::Catch AtInput() {
    return {.packet = PacketKind::kRequest,
            .family = TableFamily::kInet,
            .point = Point::kInput,
            .device = {}};
  }

  // ---- watching

  void Await(std::vector<Watch>& watches, std::chrono::milliseconds patience) {
    Deadline deadline = FromNow(patience);
    for (;;) {
      for (Watch& watch : watches) {
        watch.observer.Take(watch.fresh);
        trail_.is_complete = trail_.is_complete && !watch.observer.HasLostEvents();
        Take(watch);
      }
      Sort();
      if (IsAnswered()) {
        return;
      }
      if (trail_.Drop() != nullptr || trail_.IsRefused() || trail_.HasGoneElsewhere()) {
        deadline = std::min(deadline, FromNow(kMoment));
      }
      if (!AwaitMore(watches, deadline)) {
        if (patience >= kNewAddress || !IsAwaitingNeighbour()) {
          return;
        }
        patience = kNewAddress;
        deadline = FromNow(patience);
      }
    }
  }

  [[nodiscard]] bool IsAwaitingNeighbour() const {
    const Seen* const last = trail_.LastMarker();
    return last != nullptr && last->side == Side::kNode && trail_.Drop() == nullptr &&
           !trail_.HasGoneElsewhere() && last->marker->family == TableFamily::kInet &&
           last->marker->point == Point::kPostrouting && last->marker->is_end &&
           connection_.family() == Family::kIpv6;
  }

  // Returns false at the deadline.
  static bool AwaitMore(const std::vector<Watch>& watches, Deadline deadline) {
    std::vector<pollfd> waiting;
    waiting.reserve(watches.size());
    for (const Watch& watch : watches) {
      waiting.push_back({.fd = watch.observer.fd(), .events = POLLIN, .revents = 0});
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    return left.count() > 0 &&
           ::poll(waiting.data(), waiting.size(), static_cast<int>(left.count())) > 0;
  }

  void Take(Watch& watch) {
    for (probe::Sighting& sighting : watch.fresh) {
      if (sighting.marker && watch.has_both_sides) {
        watch.side = SideOf(*sighting.marker, sighting.packet);
      }
      const bool is_lookup =
          sighting.packet == PacketKind::kAsk || sighting.packet == PacketKind::kTold;
      Seen seen;
      static_cast<probe::Sighting&>(seen) = std::move(sighting);
      seen.side = watch.side;
      (is_lookup ? trail_.lookups : trail_.steps).push_back(std::move(seen));
    }
    watch.fresh.clear();
  }

  // Sorts the events by namespace: requests from the client to the server, answers the other way.
  // Events of one namespace are in order already.
  void Sort() {
    const auto place = [](const Seen& seen) {
      const int side = static_cast<int>(seen.side);
      constexpr int kSides = 3;
      return seen.packet == PacketKind::kRequest ? side : 2 * kSides - side;
    };
    std::ranges::stable_sort(trail_.steps, {}, place);
  }

  [[nodiscard]] bool IsAnswered() const {
    if (!IsTcp() || connection_.to == Place::kBeyond) {
      return trail_.IsCaught(PacketKind::kRequest);
    }
    const Side end = connection_.from == Place::kNode ? Side::kNode : Side::kClient;
    return connection_.from == Place::kBeyond ? trail_.IsCaught(PacketKind::kAnswer)
                                              : trail_.Find({.side = end,
                                                             .packet = PacketKind::kAnswer,
                                                             .point = Point::kInput,
                                                             .is_end = true}) != nullptr;
  }

  NodeFacts& facts_;
  state::Host& host_;
  const Connection& connection_;
  ProbeSender sender_;
  const probe::Flow& flow_ = sender_.flow();
  std::optional<netlink::Netns> client_;
  std::optional<netlink::Netns> server_;
  Trail trail_;
};

}  // namespace

Trail Probe(NodeFacts& facts, const Connection& connection) {
  return Run(facts, connection).Make();
}

}  // namespace nomad_bridge::causes
