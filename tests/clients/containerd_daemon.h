// containerd and what it starts, with its files in /run. All ends with the object.
#pragma once

#include "tests/support/process.h"

namespace nomad_bridge::test {

constexpr const char* kSocket = "/run/containerd.sock";
// A program for `ctr run --runc-binary`, which StartContainerd() writes.
constexpr const char* kNoCgroups = "/run/crun-without-cgroups";

// Starts the daemon, and returns when it answers.
[[nodiscard]] inline Process StartContainerd() {
  WriteProgram(kNoCgroups, "#!/bin/sh\nexec crun --cgroup-manager=disabled \"$@\"\n");
  constexpr const char* kConfig = "/run/containerd.toml";
  std::ofstream(kConfig) << R"(version = 2
root = "/run/containerd-root"
state = "/run/containerd-state"
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.internal.v1.opt"]
[grpc]
address = ")" << kSocket << "\"\n";
  Process daemon =
      Process::Start(Command{.argv = {"containerd", "--config", kConfig}, .variables = {}});
  while (Execute({"ctr", "--address", kSocket, "version"}).exit_code != 0) {
  }
  return daemon;
}

}  // namespace nomad_bridge::test
