// Another firewall that really runs on the node of a test: "docker" (its daemon, with an empty
// bridge of its own), "ufw", "firewalld", or "none".
//
// State   The firewall has its own /etc and /var/log files, which are removed with it.
// Errors  std::invalid_argument if there is no such firewall.
#pragma once

#include <list>

#include "tests/support/mounted.h"
#include "tests/support/node.h"
#include "tests/support/soon.h"

namespace nomad_bridge::test {

class RunningFirewall {
 public:
  RunningFirewall(const Node& host, const std::string& name) : name_(name) {
    if (name == "docker") {
      StartDocker(host);
    } else if (name == "ufw") {
      StartUfw(host);
    } else if (name == "firewalld") {
      StartFirewalld(host);
    } else if (name != "none") {
      throw std::invalid_argument(
          Cat("no firewall '", name, "': allowed: docker, ufw, firewalld, none"));
    }
  }

  // Open the firewall as its operator would, with its own commands: LetIn() for services of the
  // node itself, LetBridge() for traffic that one bridge forwards.
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
    // It writes a key there.
    Mount({"-t", "tmpfs", "tmpfs"}, "/etc/docker");
    processes_.push_back(Process::Start({.argv = {"dockerd",
                                                  "--data-root=/run/docker-data",
                                                  "--exec-root=/run/docker-exec",
                                                  "--pidfile=/run/docker.pid",
                                                  "--host=unix:///run/docker.sock"}}));
    EXPECT_TRUE(Soon([&] {
      return host.Run({"docker", "--host=unix:///run/docker.sock", "version"}).exit_code == 0;
    }));
  }

  void StartUfw(const Node& host) {
    // `ufw default` replaces a file in /etc/default.
    for (const char* const name : {"ufw", "default"}) {
      host.Must({"cp", "-a", Cat("/etc/", name), Cat("/run/", name)});
      Mount({"--bind", Cat("/run/", name)}, Cat("/etc/", name));
    }
    host.Must({"ufw", "--force", "enable"});
  }

  void StartFirewalld(const Node& host) {
    Mount({"-t", "tmpfs", "tmpfs"}, "/etc/firewalld");
    Mount({"-t", "tmpfs", "tmpfs"}, "/var/log");
    EnsureDirectory("/run/dbus");
    processes_.push_back(
        Process::Start({.argv = {"dbus-daemon", "--system", "--nofork", "--nopidfile"}}));
    EXPECT_TRUE(Soon([] { return fs::exists("/run/dbus/system_bus_socket"); }));
    processes_.push_back(Process::Start({.argv = {"firewalld", "--nofork", "--nopid"}}));
    EXPECT_TRUE(Soon([&] { return host.Run({"firewall-cmd", "--state"}).exit_code == 0; }));
  }

  void Mount(const std::vector<std::string>& what, const std::string& path) {
    mounts_.emplace_back(what, path);
  }

  std::string name_;
  std::list<Mounted> mounts_;  // before the processes that write there, which end first
  std::vector<Process> processes_;
};

}  // namespace nomad_bridge::test
