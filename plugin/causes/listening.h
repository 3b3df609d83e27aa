// Finds out whether a service waits for packets where they are sent: in a container or on the node.
//
// Limits   SCTP sockets are not listed, and count as answered.
// Errors   kKernel
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/finding.h"
#include "netlink/sockets/listeners.h"
#include "plugin/causes/in_container.h"
#include "plugin/causes/trail.h"

namespace nomad_bridge::causes {

// Where packets are sent, after every translation.
struct Endpoint {
  Protocol protocol = Protocol::kTcp;
  Ip address;
  std::uint16_t port = 0;
};

// Whether, and where, somebody listens on a port.
struct Listening {
  std::string where;                         // "tcp/80"
  std::vector<sockets::Listener> listeners;  // those to which packets for the address come
  bool has_any = false;                      // somebody listens, on whatever address
  bool is_answered = false;                  // on the address to which packets are sent
  std::string mismatch = {};                 // why it is not answered
};

// Returns the listeners on a port of the namespace `netns`. `input` is the link by which packets
// arrive there; nullopt: any.
[[nodiscard]] Listening FindListening(const netlink::Netns& netns,
                                      const std::optional<rtnl::Link>& input,
                                      const Endpoint& endpoint);

// Returns the listeners of each published port, in the order of the record. All count as answered
// if a sandbox or a virtual machine takes the frames of the interface.
[[nodiscard]] std::vector<Listening> FindListeners(Inside& inside);
// Returns all ports that answer on `address` of the container.
[[nodiscard]] std::vector<std::uint16_t> FindPortsAt(const Inside& inside,
                                                     Protocol protocol,
                                                     const Ip& address);
// Returns all TCP ports that answer on an address of `family` that ADD gave the container.
[[nodiscard]] std::vector<std::uint16_t> FindPortsOf(const Inside& inside, Family family);

// Returns the listeners where the request was last seen, before a service would get it; nullopt if
// it did not come that far.
[[nodiscard]] std::optional<Listening> FindService(NodeFacts& facts,
                                                   const Connection& connection,
                                                   const Trail& trail);
// Returns why nobody gets the request there; empty if somebody does.
[[nodiscard]] FindingList FindNoService(NodeFacts& facts,
                                        const Connection& connection,
                                        const Trail& trail);

// Finds a service that does not accept: its process is stopped, or its backlog is full. The kernel
// answers in its place, so a probe does not see it.
[[nodiscard]] FindingList FindInService(const state::Record& record, const Listening& listening);
// REQUIRES: connection.server_record
[[nodiscard]] FindingList FindInService(const Connection& connection);

}  // namespace nomad_bridge::causes
