// A World with a CNI runtime as libcni is one: lists of plugins, run in order for ADD and CHECK,
// backwards for DEL; every plugin is a process of its own, ours or anybody's.
//
// Shapes  stdin of a plugin is its entry of the list with name, cniVersion, runtimeConfig (if it
//         declares the capability) and prevResult put in: on ADD the result of the plugin before
//         it, on CHECK and DEL the last one's. CNI_ARGS is there for ADD and CHECK and empty for
//         DEL, as with Nomad.
// Source  libcni 1.3.0, api.go.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/support/world.h"

namespace nomad_bridge::test {

// The reference plugins, from Debian's package.
constexpr const char* kReferenceFolder = "/usr/lib/cni";

// A network configuration list, where its plugins are looked for (CNI_PATH), and where they look for
// the programs that they run (PATH; empty: the system's folders).
struct Network {
  json list;
  std::string path;
  std::string program_path = {};
};

// One attachment of a container to a network.
struct Attached {
  std::string container_id;
  const Node* container = nullptr;
  json port_mappings = json::array();
  std::string args = {};
  std::string ifname = "eth0";
  json result = {};  // of ADD; null before
};

class RuntimeWorld : public World {
 protected:
  // A directory with our binary under all of its names.
  [[nodiscard]] static std::string OurFolder();
  // A conflist of fixtures/conf.
  [[nodiscard]] static json Fixture(const std::string& name);

  // Of the first plugin that fails, else of the last one. AddTo() sets attached.result on success.
  Outcome AddTo(const Network& network, Attached& attached);
  Outcome CheckIn(const Network& network, const Attached& attached);
  Outcome DelFrom(const Network& network, const Attached& attached);
  // The same, which must succeed: else an exception with what was printed.
  Attached MustAdd(const Network& network, Attached attached);
  Outcome MustCheckIn(const Network& network, const Attached& attached);
  Outcome MustDelFrom(const Network& network, const Attached& attached);

  // One plugin of the list: its entry `index`, with `prev_result` (null: none).
  Outcome RunEntry(const std::string& verb,
                   const Network& network,
                   std::size_t index,
                   const Attached& attached,
                   const json& prev_result);
  Outcome MustRunEntry(const std::string& verb,
                       const Network& network,
                       std::size_t index,
                       const Attached& attached,
                       const json& prev_result);
  // What RunEntry() runs, to be run in another way.
  [[nodiscard]] Command EntryCommand(const std::string& verb,
                                     const Network& network,
                                     std::size_t index,
                                     const Attached& attached,
                                     const json& prev_result);
};

}  // namespace nomad_bridge::test
