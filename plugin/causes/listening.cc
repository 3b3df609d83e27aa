#include "plugin/causes/listening.h"

#include <algorithm>
#include <set>

#include "base/list.h"
#include "base/text.h"

namespace nomad_bridge::causes {
namespace {

using Place = Connection::Place;

// Returns whether the listener is bound to another interface than `input`, which packets come
// through.
bool IsBoundElsewhere(const sockets::Listener& listener, const std::optional<rtnl::Link>& input) {
  return listener.link != 0 && input && listener.link != input->index &&
         listener.link != input->master;
}

// Returns why nobody can be reached on `listening.where`.
std::string MismatchOf(const Listening& listening, const netlink::Netns& netns, const Ip& address) {
  if (!listening.has_any) {
    return Cat("no listener on ", listening.where);
  }
  const sockets::Listener& first = listening.listeners.front();
  const std::optional<rtnl::Link> link =
      first.link == 0 ? std::nullopt : rtnl::Socket::In(netns).FindLink(first.link);
  return link && first.Accepts(address)
             ? Format(
                   "the listener on {} takes only what comes by '{}'", listening.where, link->name)
             : Format("the listener on {} is on {}:{}, not on {}",
                      listening.where,
                      Bracketed(first.address),
                      first.port,
                      address);
}

// Returns where the request was last seen at its end; nullopt if it did not come that far.
std::optional<Endpoint> EndOf(const Connection& connection, const Trail& trail) {
  const Seen* const seen =
      trail.Find({.side = connection.to == Place::kNode ? Side::kNode : Side::kServer,
                  .packet = probe::PacketKind::kRequest,
                  .point = nft::Hook::Point::kInput,
                  .is_end = true});
  return seen == nullptr
             ? std::nullopt
             : std::optional(Endpoint{.protocol = connection.protocol,
                                      .address = seen->Destination().value_or(connection.server),
                                      .port = seen->DestinationPort()});
}

}  // namespace

Listening FindListening(const netlink::Netns& netns,
                        const std::optional<rtnl::Link>& input,
                        const Endpoint& endpoint) {
  Listening listening{.where = Cat(Text(endpoint.protocol), '/', endpoint.port)};
  if (endpoint.protocol == Protocol::kSctp) {
    listening.is_answered = true;
    return listening;
  }
  listening.listeners = sockets::ListenerLists::In(netns).Of(endpoint.protocol);
  std::erase_if(listening.listeners,
                [&](const sockets::Listener& each) { return each.port != endpoint.port; });
  listening.has_any = !listening.listeners.empty();
  const auto accepts = [&](const sockets::Listener& each) {
    return each.Accepts(endpoint.address) && !IsBoundElsewhere(each, input);
  };
  listening.is_answered = std::ranges::any_of(listening.listeners, accepts);
  listening.mismatch = MismatchOf(listening, netns, endpoint.address);
  std::erase_if(listening.listeners, [&](const sockets::Listener& each) { return !accepts(each); });
  return listening;
}

std::vector<Listening> FindListeners(Inside& inside) {
  std::vector<Listening> all;
  for (const portmap::DnatEntry& port : inside.record.rules.ports) {
    all.push_back(FindListening(
        inside.netns,
        inside.link,
        {.protocol = port.protocol, .address = port.container_ip, .port = port.container_port}));
  }
  if (!std::ranges::all_of(all, &Listening::is_answered) && FindFrameReaderNote(inside)) {
    for (Listening& listening : all) {
      listening.is_answered = true;  // what a sandbox does inside cannot be seen
    }
  }
  return all;
}

std::vector<std::uint16_t> FindPortsAt(const Inside& inside, Protocol protocol, const Ip& address) {
  std::set<std::uint16_t> ports;
  if (protocol != Protocol::kSctp) {
    auto lists = sockets::ListenerLists::In(inside.netns);
    for (const sockets::Listener& each : lists.Of(protocol)) {
      if (each.Accepts(address)) {
        ports.insert(each.port);
      }
    }
  }
  return {ports.begin(), ports.end()};
}

std::vector<std::uint16_t> FindPortsOf(const Inside& inside, Family family) {
  const std::vector<Ip> own = AddressesOnly(inside.record.ipam.addresses);
  const auto address = std::ranges::find(own, family, &Ip::family);
  return address == own.end() ? std::vector<std::uint16_t>()
                              : FindPortsAt(inside, Protocol::kTcp, *address);
}

std::optional<Listening> FindService(NodeFacts& facts,
                                     const Connection& connection,
                                     const Trail& trail) {
  const std::optional<Endpoint> end = EndOf(connection, trail);
  if (!end) {
    return std::nullopt;
  }
  if (connection.to == Place::kNode) {
    return FindListening(facts.host.netns,
                         connection.client_record
                             ? facts.FindLink(connection.client_record->link.gateway_ifname)
                             : connection.uplink,
                         *end);
  }
  std::optional<Inside> inside = OpenInside(*connection.server_record);
  return !inside ? std::nullopt
                 : std::optional(FindListening(inside->netns,
                                               connection.IsInside()
                                                   ? inside->net.FindLink(rtnl::kLoopbackIndex)
                                                   : inside->link,
                                               *end));
}

FindingList FindNoService(NodeFacts& facts, const Connection& connection, const Trail& trail) {
  const std::optional<Listening> listening = FindService(facts, connection, trail);
  if (!listening || listening->is_answered) {
    return {};
  }
  const Endpoint end = EndOf(connection, trail).value();
  if (connection.to == Place::kNode) {
    return {{.text = Cat("on the node: ", listening->mismatch),
             .fix = Fix::Advice(Format("look who listens: ss -l{}np 'sport = :{}'",
                                       end.protocol == Protocol::kTcp ? 't' : 'u',
                                       end.port))}};
  }
  const state::Record& record = *connection.server_record;
  const std::optional<Inside> inside = OpenInside(record);
  const std::vector<std::uint16_t> others =
      inside ? FindPortsAt(*inside, end.protocol, end.address) : std::vector<std::uint16_t>();
  const std::optional<Ip> gateway =
      connection.IsInside() ? record.OwnGateway(end.address.family()) : std::nullopt;
  return {{.text = Format("in container '{}': {}", record.id.container_id, listening->mismatch),
           .fix = Fix::Advice(
               Cat("let its task listen there",
                   others.empty() ? "" : ", or use a port on which it listens: ",
                   Joined(others, ", "),
                   gateway ? Format("; the node's own services are at {}", *gateway) : ""))}};
}

FindingList FindInService(const state::Record& record, const Listening& listening) {
  FindingList causes;
  for (const sockets::Listener& listener : listening.listeners) {
    const std::optional<sockets::Process> holder = sockets::FindHolder(listener.inode);
    const bool is_stopped = holder && holder->stopped;
    const bool is_full = listener.protocol == Protocol::kTcp && listener.waiting > listener.backlog;
    if (!is_stopped && !is_full) {
      continue;
    }
    const std::string who = sockets::HolderOf(listener.inode);
    causes.push_back(
        {.text = is_stopped ? Format("{}, which listens on {}, is stopped", who, listening.where)
                            : Format("{} accepts no connection on {}: {} wait, its backlog is {}",
                                     who,
                                     listening.where,
                                     listener.waiting,
                                     listener.backlog),
         .fix = is_stopped ? Fix(Cat("kill -CONT ", holder->id)) : record.RuntimeFix("restart")});
  }
  return causes;
}

FindingList FindInService(const Connection& connection) {
  const std::optional<Inside> inside = OpenInside(*connection.server_record);
  return !inside ? FindingList()
                 : FindInService(inside->record,
                                 FindListening(inside->netns,
                                               inside->link,
                                               {.protocol = connection.protocol,
                                                .address = connection.server,
                                                .port = connection.server_port}));
}

}  // namespace nomad_bridge::causes
