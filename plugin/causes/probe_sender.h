// Sends the packet of a probe as its client would send it: from a container, from the node, or as a
// neighbour on the uplink's network.
//
// Errors  kKernel (netlink/probe/injector.h, netlink/rtnl/rtnl.h)
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "netlink/core/netns.h"
#include "netlink/probe/injector.h"
#include "plugin/causes/connection.h"
#include "plugin/causes/node_facts.h"

namespace nomad_bridge::causes {

class ProbeSender {
 public:
  // Keeps references to both.
  ProbeSender(NodeFacts& facts, const Connection& connection);

  [[nodiscard]] const probe::Flow& flow() const { return flow_; }

  // `client` is the namespace of a client that is a container. Returns false if the kernel refused
  // to send, or if there is no such namespace.
  [[nodiscard]] bool Send(const std::optional<netlink::Netns>& client);

  // Returns the index of the link that receives a packet from beyond the node: for a bridge one of
  // its ports.
  [[nodiscard]] int Entry();
  // Returns `packet` in the frame of a neighbour on the uplink's network.
  [[nodiscard]] std::vector<std::uint8_t> Frame(const std::vector<std::uint8_t>& packet);
  // Returns the neighbour to which packets that leave the node are sent.
  [[nodiscard]] std::optional<Ip> NextHop();

 private:
  // Returns the MAC that a neighbour on the uplink's network sends to.
  [[nodiscard]] Mac TakerOf(const rtnl::Link& uplink) const;

  NodeFacts& facts_;
  const Connection& connection_;
  probe::Flow flow_;
};

}  // namespace nomad_bridge::causes
