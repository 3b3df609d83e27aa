// What holds as long as the ruleset's generation is the one after our last change.
//
// Shape   /run/nomad-bridge/.generation   "<boot id> <device> <inode> <generation> <mark bit>", then
//                                         lines "shared <hash>", "gate <link>" and "note <text>"
// Lives   on tmpfs; of another boot or namespace it counts as absent.
// Errors  kIo.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plugin/state/origin.h"

namespace nomad_bridge::state {

struct Checkpoint {
  std::uint32_t generation = 0;
  int accept_mark_bit = 0;
  std::vector<std::string> shared;  // hashes: what is in force (rules/shared.h)
  std::vector<std::string>
      opened_ifnames;              // that other firewalls were told of (foreign/other_firewalls.h)
  std::vector<std::string> notes;  // what only the operator can help, one line each
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
