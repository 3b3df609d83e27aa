#include <chrono>

#include "base/text.h"
#include "plugin/causes/journey.h"

namespace nomad_bridge::causes {
namespace {

struct Beyond {
  rtnl::Link link;
  Ip gateway;
};

// Of answers to a client beyond the networks of the node.
std::optional<Beyond> FindBeyond(NodeFacts& facts,
                                 const state::Record& record,
                                 const Journey& journey) {
  const std::optional<rtnl::Link> network = record.link.gateway_ifname.empty()
                                                ? std::nullopt
                                                : facts.FindLink(record.link.gateway_ifname);
  if (!journey.client || !network) {
    return std::nullopt;
  }
  const rtnl::RouteAnswer way =
      facts.host.net.LookUpRoute(AnswersTo(*journey.client, journey, network->index));
  const std::optional<rtnl::Link> link =
      way.error == 0 && way.gateway ? facts.FindLink(way.link) : std::nullopt;
  return link && link->operational ? std::optional(Beyond{*link, *way.gateway}) : std::nullopt;
}

}  // namespace

Causes FindSilentGateway(NodeFacts& facts, const state::Record& record, const Journey& journey) {
  using std::chrono::milliseconds;
  // One that is there answers sooner. What failed longer ago may be there again, unasked.
  constexpr milliseconds kPatience{200};
  constexpr milliseconds kMemory{10'000};
  const std::optional<Beyond> next = FindBeyond(facts, record, journey);
  const std::optional<milliseconds> silent =
      next ? facts.host.net.UnansweredFor(next->link, next->gateway) : std::nullopt;
  if (!silent || *silent < kPatience || *silent > kMemory) {
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

std::vector<std::string> FindFixedGateway(NodeFacts& facts,
                                          const state::Record& record,
                                          const Journey& journey) {
  const std::optional<Beyond> next = FindBeyond(facts, record, journey);
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
