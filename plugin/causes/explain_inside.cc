#include "plugin/causes/explain_inside.h"

#include <cerrno>

#include "base/list.h"
#include "base/text.h"
#include "netlink/core/sysctl.h"
#include "plugin/causes/in_container.h"
#include "plugin/causes/listening.h"
#include "plugin/causes/on_node.h"
#include "plugin/causes/rule_cause.h"

namespace nomad_bridge::causes {
namespace {

using probe::PacketKind;
using Point = nft::Hook::Point;

FindingList Advise(const std::string& text, const std::string& advice) {
  return {{.text = text, .fix = Fix::Advice(advice)}};
}

// Returns the cause if a sandbox or a virtual machine has taken the frames and does not answer.
// Nobody outside can see what happens inside it.
FindingList FindSilentReader(Inside& inside) {
  const std::optional<std::string> note = FindFrameReaderNote(inside);
  return note ? FindingList{{.text = *note,
                             .fix = Fix::Advice("look there why it does not answer"),
                             .severity = Finding::Severity::kNote}}
              : FindingList();
}

// Explains why packets to `next`, a neighbour of the container, get no further: the neighbour does
// not answer, or its entry is wrong.
FindingList FindNeighbourFault(NodeFacts& facts, Inside& inside, const Ip& next) {
  rtnl::Socket& net = inside.net;
  const rtnl::Link& own = *inside.link;
  const std::string tool = IpTool(next.family());
  const std::optional<rtnl::Link> gateway = facts.FindLink(inside.record.link.gateway_ifname);
  const std::optional<rtnl::Neighbour> neighbour = net.FindNeighbour(own, next);
  const bool is_own_gateway = inside.record.OwnGateway(next.family()) == next;
  if (neighbour && is_own_gateway && gateway && neighbour->mac != gateway->mac) {
    return {{.text = Format("{} neighbour entry in the container has the gateway {} at {}, not at "
                            "{}",
                            neighbour->permanent ? "a permanent" : "the",
                            next,
                            neighbour->mac.Text(),
                            gateway->mac.Text()),
             .fix = inside.record.InsideFix(
                 Format("{} neigh del {} dev {}", tool, next, ShellWord(own.name)))}};
  }
  if (neighbour || !net.UnansweredFor(own, next)) {
    return {};
  }
  const std::optional<Ip> configured = FindGateway(inside.record, next.family());
  if (configured && *configured != next) {
    return {{.text = Format("its default route leads to {}, which is not there", next),
             .fix = FixByGateway(inside.record,
                                 *configured,
                                 Format("{} route replace default via {}", tool, *configured))}};
  }
  return Advise(Format("nobody answers the container for {}", next),
                Format("look whether the request arrives, and what is answered: tcpdump -ni {} {}",
                       ShellWord(inside.record.link.gateway_ifname),
                       next.is_ipv4() ? "arp" : "icmp6"));
}

// Explains how the container sends `query`, which does not leave by the container's own interface;
// `what` describes the packet.
FindingList FindWayFault(NodeFacts& facts,
                         Inside& inside,
                         const rtnl::RouteQuery& query,
                         const std::string& what) {
  rtnl::Socket& net = inside.net;
  const rtnl::Link& own = *inside.link;
  const rtnl::RouteAnswer way = net.LookUpRoute(query);
  const std::string tool = IpTool(query.destination.family());
  const bool has_default = inside.record.ipam.default_routes.Has(query.destination.family());
  if (way.error == ENETUNREACH && !has_default) {
    return Advise(
        Format("in the container {} does not get to {}: the network gives no default "
               "route, and no other route leads there",
               what,
               query.destination),
        "if it should reach that: add a route to the network's config, for new allocations");
  }
  if (way.error != 0) {
    return Advise(
        Format(
            "in the container {} does not get to {}: {}", what, query.destination, ErrorText(way)),
        Format("look at its routes and rules: {}; {}",
               inside.record.InsideFix(Cat(tool, " rule show")),
               inside.record.InsideFix(Format("{} route get {}", tool, query.destination))));
  }
  if (way.link != own.index && own.master != way.link) {
    const std::optional<rtnl::Link> other = net.FindLink(way.link);
    return {{.text = Format("in the container {} leaves by '{}', not by '{}'",
                            what,
                            other ? other->name : "?",
                            own.name),
             .fix = query.source
                        ? FixByOwnTable(own, inside.record, *query.source)
                        : Fix::Advice(Format("look at its routes: {}",
                                             inside.record.InsideFix(Cat(tool, " route"))))}};
  }
  return FindNeighbourFault(facts, inside, way.gateway.value_or(query.destination));
}

const Seen* FindInServer(const Trail& trail, PacketKind packet, Point point, bool is_end) {
  return trail.Find({.side = Side::kServer, .packet = packet, .point = point, .is_end = is_end});
}

}  // namespace

FindingList ExplainLeaving(NodeFacts& facts, const Connection& connection, const Trail& trail) {
  const state::Record& record = *connection.client_record;
  std::optional<Inside> inside = OpenInside(record);
  if (!inside) {
    Finding unseen = UnseenNamespace(record);
    unseen.ends = true;
    return {unseen};
  }
  if (!inside->link) {
    return {};
  }
  if (const Seen* const drop = trail.LookupDrop()) {
    return {CauseOf(facts, connection, *drop, "drops")};
  }
  const rtnl::RouteQuery query = {.destination = connection.destination,
                                  .source = connection.source};
  return FindWayFault(facts, *inside, query, PacketText(connection, PacketKind::kRequest));
}

FindingList ExplainEntering(const state::Record& record) {
  std::optional<Inside> inside = OpenInside(record);
  if (!inside || !inside->link) {
    return {};
  }
  FindingList silent = FindSilentReader(*inside);
  if (!silent.empty()) {
    return silent;
  }
  FindingList lost = FindInContainer(*inside, std::nullopt);
  if (!lost.empty()) {
    return lost;
  }
  const rtnl::Link& own = *inside->link;
  const int answers_nobody = 8;  // ip-sysctl.rst
  if (own.ipv4 && own.ipv4->arp_ignore == answers_nobody) {
    const std::string setting = netlink::Ipv4Setting(own.name, "arp_ignore");
    return {{.text = Format(
                 "{} is {}: who asks for an address there gets no answer", setting, answers_nobody),
             .fix = inside->record.InsideFix(Cat("sysctl -w ", ShellWord(Cat(setting, "=0"))))}};
  }
  return {};
}

FindingList ExplainInContainer(const Connection& connection, const Trail& trail) {
  std::optional<Inside> inside = OpenInside(*connection.server_record);
  const Seen* const prerouting =
      FindInServer(trail, PacketKind::kRequest, Point::kPrerouting, true);
  if (!inside || !inside->link) {
    return {};
  }
  FindingList silent = FindSilentReader(*inside);
  if (!silent.empty()) {
    return silent;
  }
  if (prerouting == nullptr || FindInServer(trail, PacketKind::kRequest, Point::kInput, false)) {
    return Advise("in the container, rules that nf_tables does not show drop packets for the port",
                  Format("look at those of iptables-legacy: {}",
                         inside->record.InsideFix("iptables-legacy-save")));
  }
  const rtnl::Link& own = *inside->link;
  const Ip destination = prerouting->Destination().value_or(connection.server);
  const rtnl::RouteAnswer way = inside->net.LookUpRoute(
      {.destination = destination, .source = connection.source, .input_link = own.index});
  if (IsByReversePath(inside->net, way, own, connection.source)) {
    Finding strict = StrictReversePath(own, connection.ClientText());
    strict.fix = inside->record.InsideFix(strict.fix.command);
    return {strict};
  }
  return Advise(Format("the container does not accept packets for {}: {}",
                       destination,
                       way.error == 0 ? "it is not an address of its own" : ErrorText(way)),
                Format("look at its addresses and routes: {}",
                       inside->record.InsideFix(Cat(IpTool(destination.family()), " address"))));
}

// If a rule inside the container, such as the rule of a sidecar, has led the packet to another
// port, names the rule.
FindingList ExplainService(NodeFacts& facts, const Connection& connection, const Trail& trail) {
  const Seen* const input = FindInServer(trail, PacketKind::kRequest, Point::kInput, true);
  std::optional<Inside> inside = OpenInside(*connection.server_record);
  if (input != nullptr && input->DestinationPort() != connection.server_port) {
    for (const Seen& seen : trail.steps) {
      if (!seen.marker && seen.side == Side::kServer && seen.packet == PacketKind::kRequest &&
          seen.step.handle != 0 && seen.step.verdict.code == nft::Verdict::Code::kAccept &&
          seen.DestinationPort() == connection.server_port) {
        return {CauseOf(
            facts,
            connection,
            seen,
            Format("redirects to port {}, where nobody answers,", input->DestinationPort()))};
      }
    }
  }
  FindingList nobody = FindNoService(facts, connection, trail);
  if (!nobody.empty() || trail.IsRefused() || !inside || !inside->link) {
    return nobody;
  }
  rtnl::RouteQuery query = AnswersOf(connection, 0);
  return FindWayFault(facts, *inside, query, PacketText(connection, PacketKind::kAnswer));
}

FindingList ExplainAnswer(NodeFacts& facts, const Connection& connection, const Trail& trail) {
  std::optional<Inside> inside = OpenInside(*connection.server_record);
  if (!inside || !inside->link) {
    return {};
  }
  if (const Seen* const drop = trail.LookupDrop()) {
    return {CauseOf(facts, connection, *drop, "drops")};
  }
  FindingList causes = FindBlackhole(inside->net, *inside->link, inside->record.InsideFix(""));
  if (causes.empty()) {
    causes = FindWayFault(
        facts, *inside, AnswersOf(connection, 0), PacketText(connection, PacketKind::kAnswer));
  }
  return causes;
}

}  // namespace nomad_bridge::causes
