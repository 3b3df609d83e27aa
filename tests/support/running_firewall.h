// Another firewall that really runs on the node of a test: "docker" (its daemon, with an empty
// bridge of its own), "ufw" or "firewalld"; "none".
#pragma once

#include "tests/support/node.h"
#include "tests/support/soon.h"

namespace nomad_bridge::test {

class RunningFirewall {
 public:
  RunningFirewall(const Node& host, const std::string& name) : name_(name) {
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

  // What its operator opens, in its own language: services of the node itself, and what one bridge
  // forwards.
  void LetIn(const Node& host) const {
    if (name_ == "ufw") {
      host.Must(Words("ufw allow from any"));
    } else if (name_ == "firewalld") {
      host.Must(Words("firewall-cmd --add-port=1-65535/tcp --add-port=1-65535/udp"));
    }
  }
  void LetBridge(const Node& host, const std::string& bridge) const {
    if (name_ == "docker") {
      host.Must(Words(Format("iptables -I DOCKER-USER -i {} -o {} -j ACCEPT", bridge, bridge)));
    } else if (name_ == "ufw") {
      host.Must(Words(Format("ufw route allow in on {} out on {}", bridge, bridge)));
    } else if (name_ == "firewalld") {
      host.Must(Words(Cat("firewall-cmd --zone=trusted --add-interface=", bridge)));
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

  std::string name_;
  std::vector<Process> processes_;
};

}  // namespace nomad_bridge::test
