// What is wrong inside a container's network namespace, with what would put it right from the
// node. Nothing is changed.
//
// Errors   kKernel
#pragma once

#include "netlink/sockets/listeners.h"
#include "plugin/causes/stations.h"

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

// `rules` are those of the container. All ports count as answered where a sandbox or a virtual
// machine takes the frames of the interface.
[[nodiscard]] std::vector<Listening> FindListeners(Interior& inside, nft::Ruleset& rules);

// Where its default route leads if its config names none: to the node, or to a LAN's router.
[[nodiscard]] std::optional<Ip> FindGateway(const state::Record& record, Family family);
// `command`, inside, has it send by `gateway`, of FindGateway(). On a LAN that is advice: its
// config may name another router.
[[nodiscard]] Fix FixByGateway(const state::Record& record,
                               const Ip& gateway,
                               const std::string& command);

// The interface, its addresses, and the routes of answers.
[[nodiscard]] Causes FindInContainer(Interior& inside, const std::optional<Ip>& client);
// Of a network that the node routes: the node takes the last hop of what the container sends. Not
// for many containers: /proc's settings of each cost as much as those of all before
// (netlink/core/sysctl.h).
[[nodiscard]] Causes FindHopLimit(const Interior& inside);
// Who asks for its address gets no answer, as the setting of all its links says. Not for many
// containers, either.
[[nodiscard]] Causes FindArpIgnoredInside(const Interior& inside);
// What carries packets, but is not as ADD has answered: CHECK fails for it.
[[nodiscard]] Causes FindWhatCheckRefuses(Interior& inside);

// Where what answers a connection goes: nowhere, to a gateway that is not there, or out of another
// interface, whose network lets no other address out.
[[nodiscard]] Causes FindInAnswers(state::Host& host, Interior& inside, const Journey& journey);

// That a sandbox or a virtual machine takes the frames of the interface (link/frame_reader.h).
[[nodiscard]] std::optional<std::string> FindFrameReaderNote(Interior& inside);
// That note, or FindTrafficControl(), inside.
[[nodiscard]] std::vector<std::string> FindTrafficControlInside(Interior& inside);

// The hooks that packets pass inside.
[[nodiscard]] std::vector<Station> StationsInContainer(Interior& inside, const Journey& journey);
// A rule inside, such as a sidecar's, that leads the connection to another of its ports.
[[nodiscard]] std::optional<nft::Effect> FindRedirect(Interior& inside,
                                                      nft::Ruleset& rules,
                                                      const Journey& journey);
// FindInRules(), inside.
[[nodiscard]] Causes FindInContainerRules(Interior& inside,
                                          nft::Ruleset& rules,
                                          const Journey& journey);

// A service that does not accept: its process is stopped, or its backlog is full.
[[nodiscard]] Causes FindInService(const state::Record& record, const Listening& listening);

}  // namespace nomad_bridge::causes
