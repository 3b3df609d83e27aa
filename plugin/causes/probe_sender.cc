#include "plugin/causes/probe_sender.h"

#include <chrono>

#include <unistd.h>

#include "base/text.h"
#include "plugin/link/uplink.h"

namespace nomad_bridge::causes {
namespace {

using Place = Connection::Place;

// Chooses ports and numbers that are random enough to tell two probes of a node apart. The
// kernel's own random numbers may block.
probe::Flow ChooseFlow(const Connection& connection) {
  constexpr std::uint16_t kFirstPort = 50000;
  constexpr std::uint16_t kPorts = 10000;
  constexpr std::uint32_t kMask = 0x7fffffff;
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  const std::uint64_t chance = StableHash(Cat(now, ' ', ::getpid()));
  return {.source = connection.source,
          .destination = connection.destination,
          .protocol = static_cast<std::uint8_t>(connection.protocol),
          .source_port = static_cast<std::uint16_t>(kFirstPort + (chance >> 32) % kPorts),
          .destination_port = connection.port,
          .token = static_cast<std::uint32_t>(chance) & kMask};
}

}  // namespace

ProbeSender::ProbeSender(NodeFacts& facts, const Connection& connection)
    : facts_(facts), connection_(connection), flow_(ChooseFlow(connection)) {}

bool ProbeSender::Send(const std::optional<netlink::Netns>& client) {
  if (connection_.from == Place::kNode) {
    return probe::SendOwn(facts_.host.netns, flow_, probe::FirstPacket(flow_));
  }
  if (connection_.from == Place::kAllocation) {
    return client && probe::SendOwn(*client, flow_, probe::FirstPacket(flow_));
  }
  return probe::Inject(facts_.host.netns, Entry(), Frame(probe::FirstPacket(flow_)));
}

std::vector<std::uint8_t> ProbeSender::Frame(const std::vector<std::uint8_t>& packet) {
  const rtnl::Link& uplink = *connection_.uplink;
  const std::optional<rtnl::Neighbour> neighbour =
      facts_.host.net.FindNeighbour(uplink, NextHop().value_or(connection_.source));
  constexpr Mac kAnyone = {{0x02, 0, 0, 0, 0, 0x01}};
  return probe::Framed(TakerOf(uplink), neighbour ? neighbour->mac : kAnyone, packet);
}

int ProbeSender::Entry() {
  const rtnl::Link& uplink = *connection_.uplink;
  if (uplink.kind == "bridge") {
    for (const std::string& name : link::FindUplinks(facts_.Links(), uplink)) {
      const std::optional<rtnl::Link> port = facts_.FindLink(name);
      if (port && port->operational) {
        return port->index;
      }
    }
  }
  return uplink.index;
}

Mac ProbeSender::TakerOf(const rtnl::Link& uplink) const {
  const std::optional<state::Record>& record = connection_.server_record;
  const bool is_on_bridge = record && !connection_.IsPublished() && !uplink.name.empty() &&
                            record->link.bridge == uplink.name;
  return is_on_bridge ? record->ContainerMac() : uplink.mac;
}

std::optional<Ip> ProbeSender::NextHop() {
  const Ip& far = connection_.to == Place::kBeyond ? connection_.destination : connection_.source;
  const rtnl::RouteAnswer way = facts_.host.net.LookUpRoute({.destination = far});
  return way.error == 0 ? way.gateway : std::nullopt;
}

}  // namespace nomad_bridge::causes
