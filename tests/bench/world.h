// A host of its own for one contender: a network and a mount namespace with nothing in them.
//
// Where   /run, /var/run and /var/lib/cni are empty tmpfs in there.
// Lives   Everything in a world ends with the program. Containers are kept until then too: a
//         network namespace that is being deleted keeps the kernel busy for a while, and that would
//         show in the next measurement.
// Threads One: entering moves the caller.
#pragma once

#include <optional>
#include <string>

#include "base/fd.h"
#include "tests/support/isolation.h"
#include "tests/support/node.h"

namespace nomad_bridge::bench {

class World {
 public:
  // The process must be isolated already (EnterIsolation()).
  World();

  // Moves this process into the world.
  void Enter() const;
  // A fresh network namespace, as a runtime prepares it; its path. The caller is in the world. No
  // descriptor of it stays open: a thousand of them would slow down every fork and exec that is
  // measured.
  [[nodiscard]] std::string MakeContainer();

 private:
  UniqueFd mounts_;
  std::optional<test::FreshState> state_;
  std::optional<test::Node> host_;
  int containers_ = 0;
};

// After many containers were made: the kernel is still at work on their namespaces for seconds, and
// says nowhere when it has done.
void AwaitQuiet();

}  // namespace nomad_bridge::bench
