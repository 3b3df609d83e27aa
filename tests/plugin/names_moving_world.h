// A node that is moved over to us while its allocations live: Nomad's own list, run by Debian's
// reference plugins before, by ours after.
#pragma once

#include "tests/support/runtime_world.h"

namespace nomad_bridge::test {

class MovingWorld : public RuntimeWorld {
 protected:
  [[nodiscard]] Network Theirs() const { return {.list = list_, .path = kReferenceFolder}; }
  [[nodiscard]] Network Ours() const { return {.list = list_, .path = OurFolder()}; }
  [[nodiscard]] static Network OursAlone() {
    return {.list = {{"cniVersion", "0.4.0"},
                     {"name", "nomad"},
                     {"plugins",
                      {{{"type", "nomad-bridge"}, {"capabilities", {{"portMappings", true}}}}}}},
            .path = OurFolder()};
  }

  json list_ = Fixture("nomad_builtin_bridge.conflist");
};

}  // namespace nomad_bridge::test
