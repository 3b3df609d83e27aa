// What is wrong inside a container's network namespace, with what would put it right from the
// node. Nothing is changed.
//
// Errors   kKernel
#pragma once

#include "netlink/sockets/listeners.h"
#include "plugin/causes/journey.h"

namespace nomad_bridge::causes {

// Whether, and where, somebody listens on a published port.
struct Listening {
  portmap::DnatEntry port;
  std::string where;  // "tcp/80"
  std::vector<sockets::Listener> listeners;
  bool has_any = false;        // also on another address
  bool is_answered = false;    // on the address that packets come for
  bool is_redirected = false;  // by rules inside the container, to whom it answers
  std::string mismatch = {};   // why not
};

// `net` and `rules` are those of `container`.
[[nodiscard]] std::vector<Listening> FindListeners(const netlink::Netns& container,
                                                   rtnl::Socket& net,
                                                   nft::Ruleset& rules,
                                                   const state::Record& record);

// The interface that ADD made, also where the container has given it another name.
[[nodiscard]] std::optional<rtnl::Link> FindOwnLink(rtnl::Socket& container,
                                                    const state::Record& record);

// Where its default route leads if its config names none: to the node, or to a LAN's router.
[[nodiscard]] std::optional<Ip> FindGateway(const state::Record& record, Family family);
// `command`, inside, has it send by `gateway`, of FindGateway(). On a LAN that is advice: its
// config may name another router.
[[nodiscard]] Fix FixByGateway(const state::Record& record,
                               const Ip& gateway,
                               const std::string& command);

// The interface, its addresses, and the routes of answers.
[[nodiscard]] Causes FindInContainer(rtnl::Socket& container,
                                     const state::Record& record,
                                     const std::optional<Ip>& client);
// Of a network that the node routes: the node takes the last hop of what the container sends. Not
// for many containers: /proc's settings of each cost as much as those of all before
// (netlink/core/sysctl.h).
[[nodiscard]] Causes FindHopLimit(const netlink::Netns& netns,
                                  rtnl::Socket& container,
                                  const state::Record& record);
// Who asks for its address gets no answer, as the setting of all its links says. Not for many
// containers, either.
[[nodiscard]] Causes FindArpIgnoredInside(const netlink::Netns& netns,
                                          rtnl::Socket& container,
                                          const state::Record& record);
// What carries packets, but is not as ADD has answered: CHECK fails for it.
[[nodiscard]] Causes FindWhatCheckRefuses(rtnl::Socket& container, const state::Record& record);

// Where what answers a connection goes: nowhere, to a gateway that is not there, or out of another
// interface, whose network lets no other address out.
[[nodiscard]] Causes FindInAnswers(state::Host& host,
                                   rtnl::Socket& container,
                                   const Journey& journey);

// A service that does not accept: its process is stopped, or its backlog is full.
[[nodiscard]] Causes FindInService(const state::Record& record, const Listening& listening);

}  // namespace nomad_bridge::causes
