// What keeps podman away from the machine's cgroups, journal and locks, for a containers.conf.
#pragma once

namespace nomad_bridge::test {

constexpr const char* kPodmanSettings = R"([containers]
cgroups = "disabled"
log_driver = "none"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "none"
lock_type = "file"
runtime = "crun"
runtime_supports_nocgroup = ["crun"]
[network]
)";

}  // namespace nomad_bridge::test
