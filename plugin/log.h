// Lines for the runtime's log, on stderr: what was mended, what is ignored. Never part of the
// protocol.
#pragma once

#include <iostream>

#include "base/text.h"

namespace nomad_bridge {

template <typename... Parts>
void Say(const Parts&... parts) {
  std::cerr << Cat("nomad-bridge: ", parts..., '\n');
}

}  // namespace nomad_bridge
