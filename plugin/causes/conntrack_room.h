// Shows how full the conntrack table is. If it is full, new connections are dropped.
#pragma once

#include "base/fix.h"

namespace nomad_bridge::causes {

struct ConntrackRoom {
  long used = 0;
  long most = 0;  // 0: this kernel has no conntrack

  [[nodiscard]] bool IsFull() const { return most != 0 && used >= most; }
  [[nodiscard]] Fix Enlarge() const;
};

[[nodiscard]] ConntrackRoom FindConntrackRoom();

}  // namespace nomad_bridge::causes
