// A connection that somebody may open, with everything that is known before the first packet.
//
// Errors   kKernel
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "netlink/rtnl/rtnl.h"
#include "plugin/causes/node_facts.h"
#include "plugin/state/host.h"
#include "plugin/state/record.h"
#include "portmap/mapping.h"

namespace nomad_bridge::causes {

struct Connection {
  enum class Place : std::uint8_t { kBeyond, kNode, kAllocation };

  Place from = Place::kBeyond;
  Place to = Place::kAllocation;
  Protocol protocol = Protocol::kTcp;
  Ip source;
  // The destination that the client uses: for a published port an address of the node, and the
  // node's port.
  Ip destination;
  std::uint16_t port = 0;
  // The end that answers, after every translation. Without a translation, the same as `destination`
  // and `port`.
  Ip server;
  std::uint16_t server_port = 0;
  std::optional<state::Record> client_record;  // if `from` is kAllocation
  std::optional<state::Record> server_record;  // if `to` is kAllocation
  // The link through which packets of a client beyond the node arrive, or through which a server
  // beyond the node is reached.
  std::optional<rtnl::Link> uplink;
  bool is_client_named = false;  // false: the source stands for anyone beyond the node

  [[nodiscard]] Family family() const { return source.family(); }
  [[nodiscard]] bool IsPublished() const { return server != destination; }
  // Returns whether packets do not leave the allocation: it asks at 127.0.0.1 or its own address.
  [[nodiscard]] bool IsInside() const {
    return client_record && server_record && !IsPublished() &&
           client_record->id == server_record->id;
  }
  // "tcp"
  [[nodiscard]] std::string ProtocolName() const { return std::string(Text(protocol)); }
  // "10.1.2.3"; "clients beyond the node, such as 198.41.0.4"
  [[nodiscard]] std::string ClientText() const;
};

class Planner {
 public:
  // Named clients come in by the link called `entry`; empty: by the link of the route to them.
  explicit Planner(NodeFacts& facts, std::string entry = {})
      : facts_(facts), net_(facts.host.net), entry_(std::move(entry)) {}

  // Plans a connection to a published port, from `client`, or from anyone beyond the node. Returns
  // nullopt if the node has neither a route there nor an address that a client could use.
  [[nodiscard]] std::optional<Connection> ToPort(const state::Record& record,
                                                 const portmap::DnatEntry& port,
                                                 const std::optional<Ip>& client);
  // Plans the same connection through another uplink: the usual uplink of unknown clients.
  [[nodiscard]] std::optional<Connection> ByUsualUplink(const Connection& connection,
                                                        const portmap::DnatEntry& port);
  // Plans the same connection from another client beyond the node.
  [[nodiscard]] std::optional<Connection> ByAnotherClient(const Connection& connection);
  // Plans a connection from the allocation of `record` to `destination`: the node, an allocation,
  // the allocation itself, or any machine. Returns nullopt if the allocation has no address of that
  // family.
  [[nodiscard]] std::optional<Connection> FromAllocation(const state::Record& record,
                                                         Protocol protocol,
                                                         const Ip& destination,
                                                         std::uint16_t port);
  // Plans a connection from `client` to the allocation's own address.
  [[nodiscard]] std::optional<Connection> ToAllocation(const state::Record& record,
                                                       Protocol protocol,
                                                       std::uint16_t port,
                                                       const Ip& client);

 private:
  // Sets where a client is, and how it reaches the node.
  void SetClient(Connection& connection, const Ip& client, const portmap::DnatEntry* port);
  // Sets who answers at an address of the node.
  void SetService(Connection& connection);
  void SetAnyone(Connection& connection, const portmap::DnatEntry& port);
  [[nodiscard]] std::optional<Ip> FindRouted(rtnl::Socket& container, Family family);
  // Returns the source of packets from the allocation to `destination` if it is an address of the
  // allocation's own, such as 127.0.0.53; else nullopt.
  [[nodiscard]] static std::optional<Ip> FindOwnSource(const state::Record& record,
                                                       const Ip& destination);
  [[nodiscard]] std::optional<rtnl::Link> UplinkOfAnyone(const Connection& connection,
                                                         const portmap::DnatEntry* port,
                                                         Family family);
  // Returns the link with that index as an uplink if it is one: there, a bridge counts as
  // operational only if one of its ports to the outside is.
  [[nodiscard]] std::optional<rtnl::Link> AsUplink(int index);
  // Returns the link through which the route `way` leads.
  [[nodiscard]] std::optional<rtnl::Link> LinkOf(const rtnl::RouteAnswer& way);
  // Returns the allocation that has the address; of several, the one to which the route `way`
  // leads.
  [[nodiscard]] std::optional<state::Record> FindHolder(const Ip& address,
                                                        const rtnl::RouteAnswer& way);
  [[nodiscard]] std::optional<Ip> NodeAddress(const std::optional<rtnl::Link>& link, Family family);

  NodeFacts& facts_;
  rtnl::Socket& net_;
  std::string entry_;
};

// Returns "ip" or "ip -6".
[[nodiscard]] std::string IpTool(Family family);

// Returns the query for the route of answers on the node, or in the container (`input_link` 0).
[[nodiscard]] rtnl::RouteQuery AnswersOf(const Connection& connection, int input_link);

// Returns the names of the links of this node by which packets get to the container; some may not
// exist.
[[nodiscard]] std::vector<std::string> HostLinksOf(const state::Record& record);

// Returns the route by which a packet with `mark` leaves the node: the request to a server beyond
// it, or the answer to a client beyond it.
[[nodiscard]] rtnl::RouteAnswer WayBeyond(NodeFacts& facts,
                                          const Connection& connection,
                                          std::uint32_t mark = 0);

}  // namespace nomad_bridge::causes
