// How full the table of connections is: a new one finds no place in a full one, and is dropped. And
// what takes one out of it too early.
#pragma once

#include "plugin/causes/journey.h"

namespace nomad_bridge::causes {

struct ConntrackRoom {
  long used = 0;
  long most = 0;  // 0: this kernel follows no connections

  [[nodiscard]] bool IsFull() const { return most != 0 && used >= most; }
  [[nodiscard]] Fix Enlarge() const;
};

[[nodiscard]] ConntrackRoom FindConntrackRoom();

// Of connections by TCP: what is answered to one that is forgotten is not translated.
[[nodiscard]] Causes FindConntrackTimeouts();

}  // namespace nomad_bridge::causes
