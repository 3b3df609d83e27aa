// Another firewall that really runs on the node of a test: "docker" (its daemon, with an empty
// bridge of its own), "ufw" or "firewalld"; "none".
#pragma once

#include "tests/support/node.h"
#include "tests/support/soon.h"

namespace nomad_bridge::test {

class RunningFirewall {
 public:
  RunningFirewall(const Node& host, const std::string& name) {
    if (name == "docker") {
      StartDocker(host);
    } else if (name == "ufw") {
      host.Must({"cp", "-a", "/etc/ufw", "/run/ufw"});
      host.Must({"mount", "--bind", "/run/ufw", "/etc/ufw"});
      host.Must({"ufw", "--force", "enable"});
    } else if (name == "firewalld") {
      StartFirewalld(host);
    }
  }

 private:
  void StartDocker(const Node& host) {
    processes_.push_back(Process::Start({.argv = {"dockerd",
                                                  "--data-root=/run/docker-data",
                                                  "--exec-root=/run/docker-exec",
                                                  "--pidfile=/run/docker.pid",
                                                  "--host=unix:///run/docker.sock"}}));
    EXPECT_TRUE(Soon([&] {
      return host.Run({"docker", "--host=unix:///run/docker.sock", "version"}).exit_code == 0;
    }));
  }

  void StartFirewalld(const Node& host) {
    host.Must({"mount", "-t", "tmpfs", "tmpfs", "/etc/firewalld"});
    host.Must({"mount", "-t", "tmpfs", "tmpfs", "/var/log"});
    EnsureDirectory("/run/dbus");
    processes_.push_back(
        Process::Start({.argv = {"dbus-daemon", "--system", "--nofork", "--nopidfile"}}));
    EXPECT_TRUE(Soon([] { return fs::exists("/run/dbus/system_bus_socket"); }));
    processes_.push_back(Process::Start({.argv = {"firewalld", "--nofork", "--nopid"}}));
    EXPECT_TRUE(Soon([&] { return host.Run({"firewall-cmd", "--state"}).exit_code == 0; }));
  }

  std::vector<Process> processes_;
};

}  // namespace nomad_bridge::test
