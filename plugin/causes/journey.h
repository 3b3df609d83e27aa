// A connection to a published port, as far as it can be told before there is one, and what may end
// it.
//
// Errors   kKernel
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "base/fix.h"
#include "base/mismatch.h"
#include "netlink/nft/packet_path.h"
#include "netlink/rtnl/rtnl.h"
#include "plugin/causes/node_facts.h"
#include "plugin/state/host.h"
#include "plugin/state/record.h"
#include "portmap/mapping.h"

namespace nomad_bridge::causes {

struct Cause {
  std::string text;
  Fix fix;
  bool is_operators = false;  // by a rule in the operator's own chain: it is meant
  bool is_passing = false;    // it passes by itself
  bool ends = true;           // the connection; false: what is wrong costs something else

  bool operator==(const Cause&) const = default;
};

using Causes = std::vector<Cause>;

// Of a client, as the kernel chooses one: not what a rule should name.
constexpr std::uint16_t kClientPort = 49152;

// With which what is asked and what is answered is routed on the node: those that rules of others
// set. nullopt: not known
struct Marks {
  std::optional<std::uint32_t> request = 0;
  std::optional<std::uint32_t> answer = 0;
};

struct Journey {
  const state::Record* record = nullptr;  // whose port it is
  portmap::DnatEntry port;
  std::optional<Ip> client;          // as `inspect -from` named it, or anyone beyond the node
  std::optional<Ip> node;            // the address that is asked; nullopt: any of the node's
  std::optional<rtnl::Link> uplink;  // by which it comes; nullopt: from this node itself
  bool is_client_named = false;
  // Where none is named, clients elsewhere: what concerns anyone concerns them, too.
  std::vector<Ip> others = {};
  // Of a port that is published on all addresses: the uplink's other ones, and those of other
  // uplinks.
  std::vector<Ip> also = {};
  std::vector<Ip> elsewhere = {};
  // Who gets what is for the client on the uplink's network: a gateway, or itself. nullopt: nobody.
  std::optional<Ip> next_hop = std::nullopt;

  Marks marks = {};  // see FindMarks()

  // Where no uplink is known: one that works, of a node that has no address at all.
  std::optional<std::string> bare_uplink = std::nullopt;

  [[nodiscard]] Family family() const { return port.container_ip.family(); }
  [[nodiscard]] std::string Protocol() const;  // "tcp"
  // "10.1.2.3"; "clients beyond the node, such as 198.41.0.4". REQUIRES: client
  [[nodiscard]] std::string ClientText() const;
};

class Planner {
 public:
  explicit Planner(NodeFacts& facts) : facts_(facts), net_(facts.host.net) {}

  // From `client`, or from anyone: then by the uplink that the default route leads out of, or where
  // there is none, by one with an address: one that is down, as it may have had that route.
  [[nodiscard]] Journey Plan(const state::Record& record,
                             const portmap::DnatEntry& port,
                             const std::optional<Ip>& client);

 private:
  [[nodiscard]] Journey PlanAnew(const portmap::DnatEntry& port, const std::optional<Ip>& client);
  [[nodiscard]] std::optional<rtnl::Link> UplinkOfAnyone(const portmap::DnatEntry& port);
  [[nodiscard]] bool HasWayBeyond();  // of any family
  // That `way` leads out of.
  [[nodiscard]] std::optional<rtnl::Link> UplinkOf(const rtnl::RouteAnswer& way);
  void AddOtherNodes(Journey& journey);
  [[nodiscard]] std::optional<Ip> NextHopOf(const Journey& journey);
  [[nodiscard]] std::optional<std::string> BareUplink();

  NodeFacts& facts_;
  rtnl::Socket& net_;
  // Of any port of that family that is published on that address.
  std::map<std::tuple<Family, std::optional<Ip>, std::optional<Ip>>, Journey> planned_;
};

// Of a network in which others are, too.
[[nodiscard]] inline Fix AnotherSubnet() {
  return Fix::Advice("another subnet in the conflist, then start its allocations anew");
}

// "ip", "ip -6"
[[nodiscard]] std::string IpTool(Family family);

// Of the port's answers to `client`: behind prerouting they are no longer for the node, and before
// postrouting they come from the container. `input_link`: by which they came; 0: where they begin,
// without a mark.
[[nodiscard]] rtnl::RouteQuery AnswersTo(const Ip& client, const Journey& journey, int input_link);

// The node's own address in the container's network.
[[nodiscard]] std::optional<Ip> OwnGateway(const state::Record& record, Family family);

// `command`, in the container's namespace.
[[nodiscard]] std::string InsideFix(const state::Record& record, const std::string& command);

// ---- where it passes, in this order

// What anyone lacks to reach the port, or to be answered: the node's address of that family, or its
// default route. Meant on a node that has only the other family.
[[nodiscard]] std::optional<std::string> FindNoWayBeyond(NodeFacts& facts, const Journey& journey);
// Not meant: the node had one when the port was published. FindOnNode() says so, unless there is
// another cause.
[[nodiscard]] bool HasLostWayBeyond(NodeFacts& facts, const Journey& journey);

// Conntrack, the published address, the uplink and the node's settings.
[[nodiscard]] Causes FindOnNode(NodeFacts& facts, const Journey& journey);

// Filters and queues of tc that the connection's packets pass on the node, each with the command
// that shows it: of others, of which cannot be told what they drop.
[[nodiscard]] std::vector<std::string> FindTrafficControl(state::Host& host,
                                                          const Journey& journey);

// From the node to the container and back: addresses, routes, neighbours and the bridge's port.
[[nodiscard]] Causes FindToContainer(NodeFacts& facts, const Journey& journey);

// The gateway by which answers leave to clients beyond the node's own networks: it was asked for
// just now, and nobody has answered. Where something else is wrong on the way that may be why.
[[nodiscard]] Causes FindSilentGateway(NodeFacts& facts, const Journey& journey);
// Of the container itself, where neither the node nor the container shows why: the node has asked
// for its address just now, and nobody has answered. Not of one that was just made.
[[nodiscard]] Causes FindSilentContainer(NodeFacts& facts, const Journey& journey);
// That somebody has put down for good where it is: right or wrong, which cannot be told.
[[nodiscard]] std::vector<std::string> FindFixedGateway(NodeFacts& facts, const Journey& journey);

// The policies in force, for a client that was named: whom they keep out is meant, so anyone is
// no fault.
[[nodiscard]] Causes FindInPolicies(state::Host& host, const Journey& journey);

// The policies of IPsec, on the node, and in the container.
[[nodiscard]] Causes FindInXfrm(NodeFacts& facts, const Journey& journey);
[[nodiscard]] Causes FindInXfrmInside(const rtnl::XfrmPolicies& inside, const Journey& journey);

// Whether a reconcile that has found this finds our own rules in force. If not, what a chain of
// others drops may be what ours no longer accept, and is looked for after the repair.
[[nodiscard]] bool AreRulesWhole(const Mismatches& found);

// Zero where no rule of policy routing asks for one.
[[nodiscard]] Marks FindMarks(NodeFacts& facts, const Journey& journey);

// Rules of others, in nf_tables, at every hook of the node that the connection's packets pass.
[[nodiscard]] Causes FindInRules(NodeFacts& facts, const Journey& journey);
// Whether rules, also ours, end it only because the bridge was renamed: they know it by its name.
[[nodiscard]] bool IsEndedByBridgeName(NodeFacts& facts, const Journey& journey);
// What they do to what the node itself asks, at the output hook. The zones of conntrack only where
// rules end nothing else: the node gets no answer for the same reason as others.
[[nodiscard]] Causes FindInOwnRules(NodeFacts& facts, const Journey& journey, bool with_zones);
// What they do to other packets of the container than those of a connection to its port.
[[nodiscard]] std::vector<std::string> FindBesideInRules(NodeFacts& facts, const Journey& journey);

}  // namespace nomad_bridge::causes
