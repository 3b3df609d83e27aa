// Kills a command, or refuses one of its requests, at each point in turn.
#pragma once

#include "tests/plugin/policy_world.h"

namespace nomad_bridge::test {

class SweepWorld : public PolicyWorld {
 protected:
  struct Victim {
    std::string verb;
    json config;
    std::function<void()> prepare = [] {};  // before every run
  };

  // Attaches before a run of a sweep: hundreds of times, from the same state. The first time by the
  // binary under test, then by NOMAD_BRIDGE_UNSANITIZED if there is one, the same without
  // sanitizers: they have seen this ADD. What follows a run starts from another state each time,
  // and is left to the binary under test.
  void AttachForRun(const json& config) {
    Command command = PluginCommand("ADD", config.dump());
    const char* const unsanitized = Unsanitized();
    if (unsanitized != nullptr && !attached_.insert(config.dump()).second) {
      command.argv.front() = unsanitized;
    }
    Succeeded(Execute(command));
  }

  // Null if there is none.
  [[nodiscard]] static const char* Unsanitized() { return std::getenv("NOMAD_BRIDGE_UNSANITIZED"); }

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

 private:
  std::set<std::string> attached_;  // configs
};

}  // namespace nomad_bridge::test
