// A node that is moved over to us while its allocations live: Nomad's own list, run by Debian's
// reference plugins before, by ours after.
#pragma once

#include "tests/support/runtime.h"
#include "tests/support/world.h"

namespace nomad_bridge::test {

class MovingWorld : public World {
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
