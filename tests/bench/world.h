// A node of its own for one side: a network and a mount namespace with nothing in them.
//
// Where   /run, and with it /var/run/cni and /run/netns, is an empty tmpfs in there; so is
//         /var/lib/cni, if there is one.
// Lives   Everything in a world dies with the program. Guests are kept until then too: a dying
//         network namespace keeps the kernel busy for a while, and that would show in the next
//         measurement.
// Threads One: entering moves the caller.
#pragma once

#include <string>

#include "base/fd.h"

namespace nomad_bridge::bench {

class World {
 public:
  World();

  // Moves this process into the world.
  void Enter() const;
  // A fresh network namespace, as a runtime prepares it: bound to the path that is returned. The
  // caller is in the world.
  [[nodiscard]] std::string MakeGuest();

 private:
  UniqueFd network_;
  UniqueFd mounts_;
  int containers_ = 0;
};

}  // namespace nomad_bridge::bench
