// What is wrong inside a container's network namespace, with what would put it right from the
// node. Nothing is changed.
//
// Errors   kKernel
#pragma once

#include "netlink/sockets/listeners.h"
#include "plugin/causes/cause.h"
#include "plugin/causes/connection.h"

namespace nomad_bridge::causes {

// Whether, and where, somebody listens on a published port.
struct Listening {
  portmap::DnatEntry port;
  std::string where;  // "tcp/80"
  std::vector<sockets::Listener> listeners;
  bool has_any = false;       // also on another address
  bool is_answered = false;   // on the address that packets come for
  std::string mismatch = {};  // why not
};

// The namespace of `record`; nullopt if it is not to be seen from here.
[[nodiscard]] std::optional<netlink::Netns> FindNetns(const state::Record& record);

// A container as it is found: `link` is the interface that ADD made, also where the container has
// given it another name.
struct Interior {
  const netlink::Netns& netns;
  const state::Record& record;
  rtnl::Socket net = rtnl::Socket::In(netns);
  std::optional<rtnl::Link> link = FindLink();

 private:
  [[nodiscard]] std::optional<rtnl::Link> FindLink();
};

// Of each published port. All count as answered where a sandbox or a virtual machine takes the
// frames of the interface.
[[nodiscard]] std::vector<Listening> FindListeners(Interior& inside);
// On which somebody listens where nobody listens on that one.
[[nodiscard]] std::vector<std::uint16_t> FindOtherPorts(Interior& inside,
                                                        const portmap::DnatEntry& port);
// All of TCP on which an address of `family` is answered that ADD gave it.
[[nodiscard]] std::vector<std::uint16_t> FindPortsOf(Interior& inside, Family family);

// Where its default route leads if its config names none: to the node, or to a LAN's router.
[[nodiscard]] std::optional<Ip> FindGateway(const state::Record& record, Family family);
// `command`, inside, has it send by `gateway`, of FindGateway(). On a LAN that is advice: its
// config may name another router.
[[nodiscard]] Fix FixByGateway(const state::Record& record,
                               const Ip& gateway,
                               const std::string& command);

// By a table of its own what has `address` leaves by `own`, whatever the other
// routes are.
[[nodiscard]] Fix FixByOwnTable(const rtnl::Link& own,
                                const state::Record& record,
                                const Ip& address);

// The interface, its addresses, and the routes of answers.
[[nodiscard]] Causes FindInContainer(Interior& inside, const std::optional<Ip>& client);
// One end of the pair takes no packets as large as those that the other one sends.
[[nodiscard]] Causes FindSmallerEnd(state::Host& host, const Interior& inside);
// That a sandbox or a virtual machine takes the frames of the interface (link/frame_reader.h).
[[nodiscard]] std::optional<std::string> FindFrameReaderNote(Interior& inside);

// That the network gives no default route for a published family, so that some clients get no
// answer.
[[nodiscard]] std::vector<std::string> FindRouteNotes(Interior& inside);

// What it answers from its address in this network may leave by that of another one, which drops
// what is not from its own address: of two default routes the kernel takes now this one and now
// that, so that no single probe tells.
[[nodiscard]] Causes FindSecondNetwork(state::Host& host, Interior& inside);

// A service that does not accept: its process is stopped, or its backlog is full.
[[nodiscard]] Causes FindInService(const state::Record& record, const Listening& listening);

}  // namespace nomad_bridge::causes
