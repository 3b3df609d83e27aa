// A command that is killed, or refused a request, at every point in turn.
#pragma once

#include "tests/support/world.h"

namespace nomad_bridge::test {

// A sweep is cut into three cases, so that none takes long: the first kills at calls 1, 4, 7 ...
constexpr int kSlices = 3;

inline auto Slices() {
  return ::testing::Range(1, kSlices + 1);
}

class SweepWorld : public World {
 protected:
  struct Victim {
    std::string verb;
    json config;
    std::function<void()> prepare = [] {};  // before every run
  };

  // What an attachment can leave behind: on the host, in the files, and its interface in the first
  // container.
  [[nodiscard]] Snapshot TakeBriefSnapshot() {
    Snapshot snapshot;
    snapshot.AddNode(host());
    snapshot.AddDirectory("/run/nomad-bridge");
    snapshot.AddDirectory(kLeases);
    return snapshot;
  }

  void ExpectNothingSince(const Snapshot& before) {
    EXPECT_TRUE(Unchanged(before, TakeBriefSnapshot()));
    EXPECT_FALSE(HasInterface(container(), "eth0"));
  }
};

}  // namespace nomad_bridge::test
