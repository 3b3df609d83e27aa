// The way of a connection as one line: the stations that it passes, and the station where it ends.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plugin/causes/probe.h"

namespace nomad_bridge::causes {

struct Station {
  enum class Result : std::uint8_t { kPassed, kFailed, kNotReached };
  // What the packet has to do at the station. If it fails, the packet ends there.
  enum class What : std::uint8_t {
    kEnter,       // arrives from beyond, or leaves its own namespace
    kPrerouting,  // rules, before the routing decision
    kRoute,
    kInput,      // rules, for the node itself
    kForward,    // rules, for other machines
    kBridge,     // the network of the container
    kContainer,  // rules and routes inside
    kService,    // somebody answers
    kAnswer,     // the answer gets back
    kLeave,      // it leaves the node
  };

  What what = What::kEnter;
  std::string name;  // "eth0", "forward"
  Result result = Result::kNotReached;
};

struct Way {
  std::vector<Station> stations;

  // Returns the station where the connection ends; nullptr if it passes all stations.
  [[nodiscard]] const Station* Failed() const;
  [[nodiscard]] bool IsWhole() const { return Failed() == nullptr; }
  [[nodiscard]] bool Passes(Station::What what) const;
};

[[nodiscard]] Way WayOf(const Connection& connection, const Trail& trail);

}  // namespace nomad_bridge::causes
