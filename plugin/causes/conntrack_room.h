// How full the table of connections is: a new one finds no place in a full one, and is dropped.
#pragma once

#include "base/fix.h"

namespace nomad_bridge::causes {

struct ConntrackRoom {
  long used = 0;
  long most = 0;  // 0: this kernel follows no connections

  [[nodiscard]] bool IsFull() const { return most != 0 && used >= most; }
  [[nodiscard]] Fix Enlarge() const;
};

[[nodiscard]] ConntrackRoom FindConntrackRoom();

}  // namespace nomad_bridge::causes
