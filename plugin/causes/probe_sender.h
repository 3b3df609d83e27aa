// Sends the packet of a probe as its client would send it: from a container, from the node, or as a
// neighbour on the uplink's network.
//
// Others   The probe has a source port that no connection has, and a bridge learns nothing wrong
//          from it.
// Errors   kKernel
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "netlink/probe/frame.h"
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

  // Returns the neighbour to which packets that leave the node are sent.
  [[nodiscard]] std::optional<Ip> NextHop();

  // Returns what ends the connection, for netlink/probe/cleanup.h: it resets the connection
  // unless the server is beyond the node, removes the packet's conntrack entry, makes a bridge
  // forget the sender of its frame, and ends unanswered lookups in the containers, which must live
  // until then.
  [[nodiscard]] std::function<void()> Ending(const std::optional<netlink::Netns>& client,
                                             const std::optional<netlink::Netns>& server);

 private:
  // Where a packet from beyond the node enters it, and the MAC of its sender.
  struct EntryPoint {
    rtnl::Link link;
    Mac sender;
    bool is_strange = false;  // nobody has that MAC
  };
  const EntryPoint& FindEntry() { return entry_ ? *entry_ : entry_.emplace(ChooseEntry()); }
  [[nodiscard]] EntryPoint ChooseEntry();
  // Returns what resets the connection, if it is to be reset.
  [[nodiscard]] std::function<void()> Resetting(const std::optional<EntryPoint>& entry,
                                                const std::optional<netlink::Netns>& client);
  // Returns `packet` in the frame of a neighbour on the uplink's network.
  [[nodiscard]] std::vector<std::uint8_t> Frame(const std::vector<std::uint8_t>& packet);
  // Returns the port behind which the bridge has `mac`.
  [[nodiscard]] std::optional<rtnl::Link> FindPortOf(const rtnl::Link& bridge, const Mac& mac);
  [[nodiscard]] Mac StrangeMac() const;

  // Returns the MAC that a neighbour on the uplink's network sends to.
  [[nodiscard]] Mac TakerOf(const rtnl::Link& uplink) const;

  NodeFacts& facts_;
  const Connection& connection_;
  probe::Flow flow_;
  std::optional<EntryPoint> entry_;
};

}  // namespace nomad_bridge::causes
