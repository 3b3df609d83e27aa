#include "plugin/causes/probe_sender.h"

#include <chrono>

#include <unistd.h>

#include "base/error.h"
#include "base/text.h"
#include "netlink/conntrack/conntrack.h"
#include "netlink/probe/injector.h"
#include "plugin/link/uplink.h"

namespace nomad_bridge::causes {
namespace {

using Place = Connection::Place;

// Returns the packet with which the flow begins, as conntrack names it.
conntrack::Beginning BeginningOf(const probe::Flow& flow) {
  return {.protocol = flow.protocol,
          .source = flow.source,
          .source_port = flow.source_port,
          .destination = flow.destination,
          .destination_port = flow.destination_port};
}

// Returns whether conntrack knows a connection of others with the same ends. The probe would end
// that connection. Nor may the flow have the ends of a connection that is not translated: the
// probe's source port would be.
bool IsTaken(conntrack::Conntrack& conntrack,
             const probe::Flow& flow,
             const Connection& connection) {
  conntrack::Beginning at_server = BeginningOf(flow);
  at_server.destination = connection.server;
  at_server.destination_port = connection.server_port;
  return conntrack.FindId(BeginningOf(flow)) || conntrack.FindId(at_server);
}

// Chooses a number that is random enough to tell two probes of a node apart, and a source port that
// is free. The kernel's own random numbers may block.
probe::Flow ChooseFlow(conntrack::Conntrack& conntrack, const Connection& connection) {
  constexpr std::uint32_t kPorts = 65536 - conntrack::kFirstClientPort;
  constexpr std::uint32_t kMask = 0x7fffffff;
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  const std::uint64_t chance = StableHash(Cat(now, ' ', ::getpid()));
  probe::Flow flow = {.source = connection.source,
                      .destination = connection.destination,
                      .protocol = static_cast<std::uint8_t>(connection.protocol),
                      .destination_port = connection.port,
                      .token = static_cast<std::uint32_t>(chance) & kMask};
  for (std::uint32_t i = 0; i < kPorts; ++i) {
    flow.source_port =
        static_cast<std::uint16_t>(conntrack::kFirstClientPort + ((chance >> 32) + i) % kPorts);
    if (!IsTaken(conntrack, flow, connection)) {
      return flow;
    }
  }
  throw Error(
      Code::kKernel,
      Format("conntrack knows a connection from {} to {} port {} for each source port: none "
             "is left for a probe",
             connection.source,
             connection.destination,
             connection.port));
}

// Ends the lookup of a neighbour that has not answered: the kernel would repeat it twice more.
void ForgetUnanswered(const std::optional<netlink::Netns>& container,
                      const std::optional<state::Record>& record,
                      const Ip& neighbour) {
  if (!container) {
    return;
  }
  rtnl::Socket net = rtnl::Socket::In(*container);
  if (const std::optional<rtnl::Link> link = net.FindLink(record->id.ifname)) {
    net.ForgetUnanswered(*link, neighbour);
  }
}

conntrack::Conntrack& ConntrackOf(state::Host& host) {
  return host.conntrack ? *host.conntrack
                        : host.conntrack.emplace(conntrack::Conntrack::In(host.netns));
}

}  // namespace

ProbeSender::ProbeSender(NodeFacts& facts, const Connection& connection)
    : facts_(facts),
      connection_(connection),
      flow_(ChooseFlow(ConntrackOf(facts.host), connection)) {}

bool ProbeSender::Send(const std::optional<netlink::Netns>& client) {
  if (connection_.from == Place::kNode) {
    return probe::SendOwn(facts_.host.netns, flow_, probe::FirstPacket(flow_));
  }
  if (connection_.from == Place::kAllocation) {
    return client && probe::SendOwn(*client, flow_, probe::FirstPacket(flow_));
  }
  return probe::Inject(facts_.host.netns, FindEntry().link.index, Frame(probe::FirstPacket(flow_)));
}

std::vector<std::uint8_t> ProbeSender::Frame(const std::vector<std::uint8_t>& packet) {
  return probe::Framed(TakerOf(*connection_.uplink), FindEntry().sender, packet);
}

// A bridge learns from every frame where its sender is. With the MAC of a neighbour, the frame has
// to come in where the neighbour's frames do: otherwise, packets to the neighbour would be lost.
ProbeSender::EntryPoint ProbeSender::ChooseEntry() {
  const rtnl::Link& uplink = *connection_.uplink;
  const std::optional<rtnl::Neighbour> neighbour =
      facts_.host.net.FindNeighbour(uplink, NextHop().value_or(connection_.source));
  const Mac strange = StrangeMac();
  if (uplink.kind != "bridge") {
    return {.link = uplink, .sender = neighbour ? neighbour->mac : strange};
  }
  if (const auto port = neighbour ? FindPortOf(uplink, neighbour->mac) : std::nullopt) {
    return {.link = *port, .sender = neighbour->mac};
  }
  for (const std::string& name : link::FindUplinks(facts_.Links(), uplink)) {
    const std::optional<rtnl::Link> port = facts_.FindLink(name);
    if (port && port->operational) {
      return {.link = *port, .sender = strange, .is_strange = true};
    }
  }
  return {.link = uplink, .sender = strange};
}

std::optional<rtnl::Link> ProbeSender::FindPortOf(const rtnl::Link& bridge, const Mac& mac) {
  for (const rtnl::FdbEntry& entry : facts_.host.net.AllFdbEntries()) {
    std::optional<rtnl::Link> port = facts_.FindLink(entry.port);
    if (entry.mac == mac && entry.kind != rtnl::FdbEntry::Kind::kOwn && port &&
        port->master == bridge.index) {
      return port;
    }
  }
  return std::nullopt;
}

Mac ProbeSender::StrangeMac() const {
  constexpr int kByte = 8;
  Mac mac = {{0x02}};  // locally administered
  for (std::size_t i = 0; i < sizeof flow_.token; ++i) {
    mac.bytes.at(mac.bytes.size() - 1 - i) =
        static_cast<std::uint8_t>(flow_.token >> (kByte * i) & 0xff);
  }
  return mac;
}

std::function<void()> ProbeSender::Resetting(const std::optional<EntryPoint>& entry,
                                             const std::optional<netlink::Netns>& client) {
  const netlink::Netns& netns = facts_.host.netns;
  const std::vector<std::uint8_t> reset = probe::ResetPacket(flow_);
  // A killed probe catches nothing any more: its reset must not leave the node.
  const bool is_own = client || connection_.from == Place::kNode;
  if (connection_.protocol != Protocol::kTcp ||
      (!entry && (connection_.to == Place::kBeyond || !is_own))) {
    return [] {};
  }
  if (entry) {
    return [&netns, link = entry->link.index, frame = Frame(reset)] {
      static_cast<void>(probe::Inject(netns, link, frame));
    };
  }
  // The client's kernel resets the connection only if the answer reaches it.
  return [&ns = client ? *client : netns, &flow = flow_, reset] {
    static_cast<void>(probe::SendOwn(ns, flow, reset));
  };
}

std::function<void()> ProbeSender::Ending(const std::optional<netlink::Netns>& client,
                                          const std::optional<netlink::Netns>& server) {
  const std::optional<EntryPoint> entry =
      connection_.from == Place::kBeyond ? std::optional(FindEntry()) : std::nullopt;
  return [this, &client, &server, entry, reset = Resetting(entry, client)] {
    const netlink::Netns& netns = facts_.host.netns;
    const conntrack::Beginning beginning = BeginningOf(flow_);
    conntrack::Conntrack conntrack = conntrack::Conntrack::In(netns);
    // Before the reset: after it, another program may have begun a connection with the same ends.
    const std::optional<std::uint32_t> id = conntrack.FindId(beginning);
    reset();
    // The connection is over, but conntrack would count it for some seconds more.
    if (id) {
      conntrack.Forget(beginning, *id);
    }
    if (entry && entry->is_strange) {
      rtnl::Socket::In(netns).EnsureFdbEntryGone(entry->link, entry->sender);
    }
    // Last: a container may be about to go.
    ForgetUnanswered(client, connection_.client_record, connection_.destination);
    // With promiscMode, the answer of a published port comes from the server itself, and the kernel
    // of a client on its bridge resets that.
    if (connection_.IsPublished()) {
      ForgetUnanswered(client, connection_.client_record, connection_.server);
    }
    ForgetUnanswered(server, connection_.server_record, connection_.source);
  };
}

Mac ProbeSender::TakerOf(const rtnl::Link& uplink) const {
  const std::optional<state::Record>& record = connection_.server_record;
  const bool is_on_bridge = record && !connection_.IsPublished() && !uplink.name.empty() &&
                            record->link.bridge == uplink.name;
  return is_on_bridge ? record->ContainerMac() : uplink.mac;
}

std::optional<Ip> ProbeSender::NextHop() {
  const rtnl::RouteAnswer way = WayBeyond(facts_, connection_);
  return way.error == 0 ? way.gateway : std::nullopt;
}

}  // namespace nomad_bridge::causes
