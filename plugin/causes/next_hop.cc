#include <chrono>
#include <ctime>

#include "base/text.h"
#include "plugin/causes/journey.h"

namespace nomad_bridge::causes {
namespace {

using std::chrono::milliseconds;

struct Beyond {
  rtnl::Link link;
  Ip gateway;
};

// Of answers to a client beyond the networks of the node.
std::optional<Beyond> FindBeyond(NodeFacts& facts, const Journey& journey) {
  const std::optional<rtnl::Link> network = facts.FindLink(journey.record->link.gateway_ifname);
  if (!journey.client || !network) {
    return std::nullopt;
  }
  const rtnl::RouteAnswer way =
      facts.host.net.LookUpRoute(AnswersTo(*journey.client, journey, network->index));
  const std::optional<rtnl::Link> link =
      way.error == 0 && way.gateway ? facts.FindLink(way.link) : std::nullopt;
  return link && link->operational ? std::optional(Beyond{*link, *way.gateway}) : std::nullopt;
}

// For how long nobody has answered for `address`, if it was asked for just now.
std::optional<milliseconds> SilentFor(rtnl::Socket& net,
                                      const rtnl::Link& link,
                                      const Ip& address) {
  // One that is there answers sooner. What failed longer ago may be there again, unasked.
  constexpr milliseconds kPatience{200};
  constexpr milliseconds kMemory{10'000};
  const std::optional<milliseconds> silent = net.UnansweredFor(link, address);
  return silent && *silent >= kPatience && *silent <= kMemory ? silent : std::nullopt;
}

// Longer ago than `time`, and than it takes an ADD to give it its address.
bool IsOlderThan(milliseconds time, const state::Record& record) {
  constexpr std::chrono::seconds kAdd{2};
  const auto made =
      std::chrono::system_clock::from_time_t(static_cast<std::time_t>(record.created));
  return record.created != 0 && made + kAdd + time < std::chrono::system_clock::now();
}

}  // namespace

Causes FindSilentGateway(NodeFacts& facts, const Journey& journey) {
  const std::optional<Beyond> next = FindBeyond(facts, journey);
  if (!next || !SilentFor(facts.host.net, next->link, next->gateway)) {
    return {};
  }
  return {{.text = Format("nobody on '{}' answers for the gateway {}: clients beyond get no answer",
                          next->link.name,
                          next->gateway),
           .fix = Fix::Advice(Format("look for it there; once it answers this shows its address: "
                                     "{} neigh show {} dev {}",
                                     IpTool(journey.family()),
                                     next->gateway,
                                     ShellWord(next->link.name)))}};
}

Causes FindSilentContainer(NodeFacts& facts, const Journey& journey) {
  const Ip& address = journey.port.container_ip;
  const std::optional<rtnl::Link> network = facts.FindLink(journey.record->link.gateway_ifname);
  const std::optional<milliseconds> silent =
      network ? SilentFor(facts.host.net, *network, address) : std::nullopt;
  if (!silent || !IsOlderThan(*silent, *journey.record)) {
    return {};
  }
  return {{.text = Format("nobody on '{}' answers for {}", network->name, address),
           .fix = Fix::Advice(Format("see whether it is asked there, and what it answers: {}",
                                     InsideFix(*journey.record,
                                               Format("tcpdump -ni {} {}",
                                                      ShellWord(journey.record->id.ifname),
                                                      address.is_ipv4() ? "arp" : "icmp6"))))}};
}

std::vector<std::string> FindFixedGateway(NodeFacts& facts, const Journey& journey) {
  const std::optional<Beyond> next = FindBeyond(facts, journey);
  const std::optional<rtnl::Neighbour> neighbour =
      next ? facts.FindNeighbour(next->link, next->gateway) : std::nullopt;
  if (!neighbour || !neighbour->permanent) {
    return {};
  }
  return {
      Format("a permanent neighbour entry has the gateway {} at {}; if it is elsewhere, clients "
             "beyond get no answer: {} neigh del {} dev {}",
             next->gateway,
             neighbour->mac.Text(),
             IpTool(journey.family()),
             next->gateway,
             ShellWord(next->link.name))};
}

}  // namespace nomad_bridge::causes
