// A node that moves to our plugins while its allocations live. Debian's reference plugins run
// Nomad's own list before the move; our plugins run it after the move.
#pragma once

#include "tests/plugin/cli_world.h"

namespace nomad_bridge::test {

class MovingWorld : public CliWorld {
 protected:
  [[nodiscard]] Network Theirs() const { return {.list = list_, .path = kReferenceDirectory}; }
  [[nodiscard]] Network Ours() const { return ByOurs(list_); }
  [[nodiscard]] static Network OursAlone() {
    return ByOurs(ListOf({{{"type", "nomad-bridge"}, {"capabilities", {{"portMappings", true}}}}},
                         "nomad",
                         "0.4.0"));
  }

  json list_ = Conflist("nomad_builtin_bridge");
};

}  // namespace nomad_bridge::test
