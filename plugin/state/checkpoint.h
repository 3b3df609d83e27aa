// What was in force right after our last commit. As long as the ruleset's generation is still the
// checkpoint's, nobody has changed a rule since, and nothing needs to be looked at.
//
// Shape   /run/nomad-bridge/.generation, one JSON object (state_json.h).
// Lives   on tmpfs; one of another boot or host namespace counts as absent.
// Locks   Written under the rules' lock.
// Errors  kIo.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ip.h"
#include "plugin/state/origin.h"

namespace nomad_bridge::state {

struct Checkpoint {
  std::uint32_t generation = 0;
  int accept_mark_bit = 0;
  std::vector<std::string> shared;  // hashes of what is in force (rules/shared.h)
  std::vector<std::string>
      opened_ifnames;  // accepted by other firewalls (foreign/other_firewalls.h)
  // Where ports are, or were, published: on which addresses of the node; nullopt: on all of them.
  std::vector<std::optional<Ip>> published_on;
  std::vector<std::string> notes;  // what only the operator can repair, one line each
};

class CheckpointFile {
 public:
  explicit CheckpointFile(Origin here) : here_(std::move(here)) {}

  [[nodiscard]] std::optional<Checkpoint> Find() const;
  void Write(const Checkpoint& checkpoint) const;

 private:
  Origin here_;
};

}  // namespace nomad_bridge::state
