#include "plugin/causes/explain.h"

#include "base/error.h"
#include "base/list.h"
#include "base/text.h"
#include "plugin/causes/explain_inside.h"
#include "plugin/causes/listening.h"
#include "plugin/causes/on_node.h"
#include "plugin/causes/rule_cause.h"
#include "plugin/state/kernel_names.h"

namespace nomad_bridge::causes {
namespace {

using nft::TableFamily;
using probe::PacketKind;
using Place = Connection::Place;
using Point = nft::Hook::Point;
using What = Station::What;

class Explainer {
 public:
  Explainer(NodeFacts& facts, const Connection& connection, const Trail& trail)
      : facts_(facts),
        net_(facts.host.net),
        connection_(connection),
        trail_(trail),
        tool_(IpTool(connection.family())) {}

  // Returns the note that the answer leaves by another link than the one by which the request came;
  // empty if it does not.
  [[nodiscard]] std::string DescribeOtherWayBack() {
    const Seen* const caught = trail_.FindCaught(PacketKind::kAnswer);
    const std::optional<rtnl::Link> link =
        caught == nullptr ? std::nullopt : facts_.FindLink(caught->marker->device);
    if (!link || connection_.from != Place::kBeyond || link->index == connection_.uplink->index ||
        link->master == connection_.uplink->index) {
      return {};
    }
    const rtnl::RouteQuery query = QueryOfAnswer();
    const auto rule = net_.FindRule(query, net_.LookUpRoute(query).table);
    return Format(
        "packets that come in by '{}' from {} are answered by way of '{}'{}: a router or "
        "firewall may drop the answers",
        connection_.uplink->name,
        connection_.ClientText(),
        link->name,
        rule ? Format(", by the routing rule '{}'", rule->text) : std::string());
  }

  // Returns the causes that follow from the station at which the connection ends.
  [[nodiscard]] FindingList ByStation(const Station& failed) {
    FindingList causes = At(failed.what);
    if (causes.empty()) {
      causes.push_back(Vaguely(failed));
    }
    return causes;
  }

 private:
  [[nodiscard]] FindingList At(What what) {
    switch (what) {
      case What::kEnter:
        return AtEnter();
      case What::kRoute:
        return AtRoute();
      case What::kPrerouting:
      case What::kInput:
      case What::kForward:
        return AtHook();
      case What::kBridge:
        return AtBridge();
      case What::kContainer:
        return ExplainInContainer(connection_, trail_);
      case What::kService:
        return AtService();
      case What::kAnswer:
        return AtAnswer();
      case What::kLeave:
        return AtLeave();
    }
    return {};
  }

  [[nodiscard]] const Seen* On(PacketKind packet, Point point, bool is_end = false) const {
    return trail_.Find({.packet = packet, .point = point, .is_end = is_end});
  }

  [[nodiscard]] static Finding Advice(std::string text, std::string advice) {
    return {.text = std::move(text), .fix = Fix::Advice(std::move(advice))};
  }

  [[nodiscard]] Finding Vaguely(const Station& failed) const {
    const Seen* const last = trail_.LastMarker();
    const bool is_answer = last != nullptr && last->packet == PacketKind::kAnswer;
    return Advice(
        Format("the way of {} ends at '{}', and no rule of nf_tables says so",
               PacketText(connection_, is_answer ? PacketKind::kAnswer : PacketKind::kRequest),
               failed.name),
        "look at what else drops packets: iptables-legacy-save; ip xfrm policy; "
        "tc -s qdisc show; nstat -az | grep -i drop");
  }

  [[nodiscard]] Finding NoWayBack(const rtnl::RouteAnswer& back, std::string advice) const {
    return Advice(Format("answers do not get to {}: {}", connection_.ClientText(), ErrorText(back)),
                  std::move(advice));
  }

  // Returns advice to look up the route with the mark of the packet `seen`.
  [[nodiscard]] std::string LookAtRoutes(const Ip& destination,
                                         const Ip& source,
                                         const rtnl::Link& input,
                                         const Seen& seen) const {
    return Format(
        "look at the node's routes and rules: {} rule show; {} route get {} from {} iif {}{}",
        tool_,
        tool_,
        destination,
        source,
        ShellWord(input.name),
        seen.step.mark == 0 ? std::string() : Cat(" mark ", seen.step.mark));
  }

  // ---- the request, on the node

  FindingList AtEnter() {
    if (connection_.from == Place::kAllocation) {
      return ExplainLeaving(facts_, connection_, trail_);
    }
    if (connection_.from == Place::kNode) {
      return {};
    }
    const rtnl::Link& uplink = *connection_.uplink;
    if (!trail_.was_sent || !uplink.up) {
      return {{.text = Format("interface '{}', which leads to it, takes no packets", uplink.name),
               .fix = Format("ip link set {} up", ShellWord(uplink.name))}};
    }
    return FindFilters("ingress");
  }

  FindingList AtHook() {
    return {Advice(Format("rules that nf_tables does not show drop {}",
                          PacketText(connection_, PacketKind::kRequest)),
                   "look at those of iptables-legacy: iptables-legacy-save")};
  }

  FindingList AtRoute() {
    const Seen* const prerouting = On(PacketKind::kRequest, Point::kPrerouting, true);
    if (connection_.to != Place::kNode && On(PacketKind::kRequest, Point::kInput) != nullptr) {
      return ByNodeItself();
    }
    if (prerouting == nullptr) {
      return {};
    }
    const std::optional<rtnl::Link> input = Input();
    if (!input) {
      return {};
    }
    if (connection_.server_record) {
      FindingList detour =
          FindToContainer(facts_, *connection_.server_record, connection_.server, QueryOfRequest());
      if (!detour.empty()) {
        return detour;
      }
    }
    const Ip destination = prerouting->Destination().value_or(connection_.server);
    const rtnl::RouteAnswer way = net_.LookUpRoute(QueryOfRequest());
    if (IsByReversePath(net_, way, *input, connection_.source)) {
      return {StrictReversePath(*input, connection_.ClientText())};
    }
    // If the node has no route back to the source, or only a blackhole, the kernel drops the packet
    // without any sign.
    const rtnl::RouteAnswer back = net_.LookUpRoute({.destination = connection_.source});
    if (way.error != 0 && back.error != 0) {
      return {NoWayBack(back,
                        Format("look at the node's routes and rules: {} rule show; {} route "
                               "get {}",
                               tool_,
                               tool_,
                               connection_.source))};
    }
    if (way.error != 0) {
      return {Advice(Format("packets that arrive on '{}' for {} are lost: {}",
                            input->name,
                            destination,
                            ErrorText(way)),
                     LookAtRoutes(destination, connection_.source, *input, *prerouting))};
    }
    FindingList hairpin = FindHairpinOff();
    if (!hairpin.empty()) {
      return hairpin;
    }
    return {Advice(Format("the node does not forward {}, though it has a route for it",
                          PacketText(connection_, PacketKind::kRequest)),
                   "look at IPsec's policies, and at rules that set a hop limit: ip xfrm policy; "
                   "nft list ruleset")};
  }

  // Returns the link that receives the request.
  [[nodiscard]] std::optional<rtnl::Link> Input() const {
    return connection_.from == Place::kBeyond ? connection_.uplink
                                              : GatewayOf(connection_.client_record);
  }

  // Returns the query for the route of the request, as it was after the rules that come before the
  // routing decision.
  [[nodiscard]] rtnl::RouteQuery QueryOfRequest() const {
    const Seen* const prerouting = On(PacketKind::kRequest, Point::kPrerouting, true);
    const std::optional<rtnl::Link> input = Input();
    rtnl::RouteQuery query = {.destination = connection_.server, .source = connection_.source};
    query.flow = rtnl::Flow{.protocol = static_cast<std::uint8_t>(connection_.protocol),
                            .destination_port = connection_.server_port};
    if (prerouting != nullptr && input) {
      query.destination = prerouting->Destination().value_or(connection_.server);
      query.flow->source_port = prerouting->SourcePort();
      query.flow->destination_port = prerouting->DestinationPort();
      query.input_link = input->index;
      query.mark = prerouting->step.mark;
    }
    return query;
  }

  // With br_netfilter, the bridge itself takes a translated packet back to the port by which it
  // came, and drops it there without hairpin mode.
  FindingList FindHairpinOff() {
    const std::optional<state::Record>& record = connection_.server_record;
    const std::optional<rtnl::Link> veth =
        record && connection_.client_record && connection_.client_record->id == record->id
            ? facts_.FindLink(state::HostVethName(record->id))
            : std::nullopt;
    if (!veth || veth->master == 0 || veth->port.hairpin) {
      return {};
    }
    return {
        {.area = Finding::Area::kPort,
         .text = Format("the hairpin mode of '{}' is off, so the allocation does not reach "
                        "its own published ports",
                        veth->name),
         .fix = record->link.port.Flags().hairpin
                    ? Fix("nomad-bridge reconcile")
                    : Fix::Advice(R"(set "hairpinMode": true in the network's config, for new )"
                                  "allocations; inside, it reaches itself at its own address")}};
  }

  // The packet was not translated, or was translated to an address of the node.
  FindingList ByNodeItself() {
    FindingList redirected = FindRedirect(facts_, connection_, trail_);
    if (!redirected.empty()) {
      return redirected;
    }
    FindingList untracked = FindUntracking(facts_, connection_, trail_);
    if (!untracked.empty()) {
      return untracked;
    }
    return {Advice("packets for the port end at this node: no rule of ours translates them",
                   "compare our rules with the record: nomad-bridge reconcile -dry-run")};
  }

  [[nodiscard]] std::optional<rtnl::Link> GatewayOf(
      const std::optional<state::Record>& record) const {
    return record ? facts_.FindLink(record->link.gateway_ifname) : std::nullopt;
  }

  // The packet was lost between the rules of the node and the rules in the container.
  FindingList AtBridge() {
    if (const Seen* const drop = trail_.LookupDrop()) {
      return {CauseOf(facts_, connection_, *drop, "drops")};
    }
    const state::Record& record = *connection_.server_record;
    const Seen* const leaving = On(PacketKind::kRequest, Point::kPostrouting);
    const bool is_elsewhere = leaving != nullptr && leaving->Destination() != connection_.server;
    FindingList causes = is_elsewhere ? FindRedirect(facts_, connection_, trail_) : FindingList();
    if (causes.empty()) {
      causes = FindToContainer(facts_, record, connection_.server, QueryOfRequest());
    }
    if (causes.empty()) {
      causes = ByLinks(record);
    }
    if (causes.empty()) {
      causes = ExplainEntering(record);
    }
    if (causes.empty()) {
      causes = FindFilters("egress");
    }
    return causes.empty() ? FindSilence(record) : causes;
  }

  // Examines the queues of the bridge and of its port, and the bridge's table.
  FindingList ByLinks(const state::Record& record) {
    const std::optional<rtnl::Link> veth = facts_.FindLink(state::HostVethName(record.id));
    for (const std::optional<rtnl::Link>& link : {GatewayOf(connection_.server_record), veth}) {
      FindingList causes = link ? FindBlackhole(net_, *link) : FindingList();
      if (!causes.empty()) {
        return causes;
      }
    }
    return veth ? FindWrongPort(facts_, record, *veth) : FindingList();
  }

  FindingList FindSilence(const state::Record& record) {
    const std::optional<rtnl::Link> gateway = GatewayOf(connection_.server_record);
    if (!gateway || !net_.UnansweredFor(*gateway, connection_.server)) {
      return {};
    }
    return {
        Advice(Format("nobody on '{}' answers for {}", gateway->name, connection_.server),
               Format("look whether the request arrives there, and what is answered: {}",
                      record.InsideFix(Format("tcpdump -ni {} {}",
                                              ShellWord(record.id.ifname),
                                              connection_.server.is_ipv4() ? "arp" : "icmp6"))))};
  }

  // Names the tc filters that the packet passes on the node: they may drop it.
  FindingList FindFilters(const std::string& direction) {
    const std::optional<state::Record>& record = connection_.server_record;
    for (const std::optional<rtnl::Link>& link :
         {record ? facts_.FindLink(state::HostVethName(record->id)) : std::nullopt,
          GatewayOf(record),
          connection_.uplink}) {
      if (link && Contains(net_.FilteredDirections(*link), direction)) {
        return {Advice(
            Format("a filter of tc on '{}' may drop it", link->name),
            Format("look at it: tc -s filter show dev {} {}", ShellWord(link->name), direction))};
      }
    }
    return {};
  }

  // ---- the answer

  FindingList AtService() {
    return connection_.to == Place::kNode ? FindNoService(facts_, connection_, trail_)
                                          : ExplainService(facts_, connection_, trail_);
  }

  // Returns the query for the route of the answer on the node.
  [[nodiscard]] rtnl::RouteQuery QueryOfAnswer() const {
    const std::optional<rtnl::Link> gateway = GatewayOf(connection_.server_record);
    const Seen* const prerouting = On(PacketKind::kAnswer, Point::kPrerouting, true);
    rtnl::RouteQuery query = AnswersOf(connection_, gateway ? gateway->index : 0);
    query.mark = prerouting == nullptr ? 0 : prerouting->step.mark;
    return query;
  }

  // Explains an answer that is routed to an allocation, but leaves the node elsewhere.
  FindingList FindAnswersDetour() {
    const bool is_routed = connection_.IsPublished() || connection_.to == Place::kNode;
    return connection_.client_record && is_routed
               ? FindDetourByRule(
                     facts_, *connection_.client_record, connection_.source, QueryOfAnswer())
               : FindingList();
  }

  FindingList AtAnswer() {
    const std::optional<rtnl::Link> gateway = GatewayOf(connection_.server_record);
    const bool is_at_node = gateway && trail_.Find({.packet = PacketKind::kAnswer,
                                                    .family = TableFamily::kNetdev,
                                                    .point = Point::kIngress,
                                                    .device = gateway->name}) != nullptr;
    if (connection_.server_record && !is_at_node) {
      FindingList causes = InFrontOfNode();
      if (!causes.empty()) {
        return causes;
      }
    }
    if (On(PacketKind::kAnswer, Point::kInput) != nullptr && connection_.from != Place::kNode) {
      return {Advice("the port's answers end at this node: conntrack does not translate them back",
                     "look for rules that set a zone of conntrack, or have it not follow: "
                     "nft list ruleset; iptables-save")};
    }
    FindingList detour = FindAnswersDetour();
    if (!detour.empty()) {
      return detour;
    }
    if (On(PacketKind::kAnswer, Point::kPostrouting) != nullptr) {
      return AtLeave();
    }
    const Seen* const prerouting = On(PacketKind::kAnswer, Point::kPrerouting, true);
    if (prerouting == nullptr || !gateway) {
      return {};
    }
    const rtnl::RouteAnswer back = net_.LookUpRoute(QueryOfAnswer());
    if (IsByReversePath(net_, back, *gateway, connection_.server)) {
      return {StrictReversePath(*gateway, connection_.server.Text())};
    }
    if (back.error == 0) {
      return {};
    }
    return {NoWayBack(back,
                      LookAtRoutes(connection_.source, connection_.server, *gateway, *prerouting))};
  }

  // The answer was lost between the service and the rules of the node.
  FindingList InFrontOfNode() {
    FindingList causes = ExplainAnswer(facts_, connection_, trail_);
    if (causes.empty()) {
      causes = FindHeldPort(facts_, *connection_.server_record);
    }
    return causes.empty() ? FindFilters("ingress") : causes;
  }

  // Explains a packet that has passed all rules: it leaves through the link of its route if the
  // next hop there answers.
  FindingList AtLeave() {
    const bool is_request = connection_.to == Place::kBeyond;
    const Ip& far = is_request ? connection_.destination : connection_.source;
    const Seen* const seen =
        On(is_request ? PacketKind::kRequest : PacketKind::kAnswer, Point::kPrerouting, true);
    const rtnl::RouteAnswer way =
        WayBeyond(facts_, connection_, seen == nullptr ? 0 : seen->step.mark);
    const std::optional<rtnl::Link> link =
        way.error == 0 ? facts_.FindLink(way.link) : std::nullopt;
    if (!link) {
      return {Advice(Format("the node has no way to {}: {}", far, ErrorText(way)),
                     Format("look at the node's routes: {} route get {}", tool_, far))};
    }
    if (trail_.HasGoneElsewhere() && connection_.uplink) {
      return {Advice(Format("answers leave by '{}', not by '{}', through which the client comes",
                            link->name,
                            connection_.uplink->name),
                     Format("look at the node's routes and rules: {} rule show", tool_))};
    }
    if (!link->operational) {
      return {{.text = Format("'{}' is down, or has no carrier", link->name),
               .fix = Format("ip link set {} up", ShellWord(link->name))}};
    }
    if (const Seen* const drop = trail_.LookupDrop()) {
      return {CauseOf(facts_, connection_, *drop, "drops")};
    }
    const Ip next = way.gateway.value_or(far);
    if (net_.FindNeighbour(*link, next) || !link->resolves) {
      return FindFilters("egress");
    }
    return {Advice(Format("nobody on '{}' answers for {} {}: clients beyond get no answer",
                          link->name,
                          way.gateway ? "the gateway" : "the client",
                          next),
                   Format("find the machine there; when it answers, this shows its address: {} "
                          "neigh show {} dev {}",
                          tool_,
                          next,
                          ShellWord(link->name)))};
  }

  NodeFacts& facts_;
  rtnl::Socket& net_;
  const Connection& connection_;
  const Trail& trail_;
  std::string tool_;
};

}  // namespace

Diagnosis Diagnose(NodeFacts& facts, const Connection& connection) {
  const Trail trail = Probe(facts, connection);
  Diagnosis diagnosis = {.way = WayOf(connection, trail), .unseen = FindXdp(facts, connection)};
  const Station* const failed = diagnosis.way.Failed();
  if (failed == nullptr) {
    diagnosis.note = Explainer(facts, connection, trail).DescribeOtherWayBack();
    return diagnosis;
  }
  if (!trail.is_complete) {
    throw Error(Code::kKernel, "the kernel has lost a part of the probe's trace");
  }
  const Seen* const last = trail.LastMarker();
  const bool is_at_container =
      failed->what == Station::What::kContainer ||
      (failed->what == Station::What::kService && connection.server_record);
  diagnosis.is_in_container = is_at_container || (last != nullptr && last->side != Side::kNode);
  diagnosis.is_refused = failed->what == Station::What::kService &&
                         (trail.IsRefused() || connection.protocol == Protocol::kUdp);
  diagnosis.causes = ExplainByRule(facts, connection, trail);
  diagnosis.is_by_rule = !diagnosis.causes.empty();
  const Seen* const drop = trail.Drop();
  diagnosis.is_by_policy = drop != nullptr && IsOurs(*drop) &&
                           diagnosis.causes.front().severity == Finding::Severity::kNote;
  const bool is_dropped_at_input = drop != nullptr && !IsOurs(*drop) && last != nullptr &&
                                   last->side == Side::kNode &&
                                   last->marker->family == nft::TableFamily::kInet &&
                                   last->marker->point == nft::Hook::Point::kInput;
  diagnosis.is_kept = is_dropped_at_input || (connection.to == Connection::Place::kBeyond &&
                                              !FindRedirect(facts, connection, trail).empty());
  if (!diagnosis.is_by_rule) {
    diagnosis.causes = Explainer(facts, connection, trail).ByStation(*failed);
  }
  return diagnosis;
}

}  // namespace nomad_bridge::causes
