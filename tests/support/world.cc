#include "tests/support/world.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <stdexcept>

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "tests/support/soon.h"

namespace nomad_bridge::test {
namespace {

constexpr const char* kBinFolder = "/run/cni-bin";

// One end of the cable between host and outside.
void SetUpUplink(const Node& node, const char* ip4, const char* ip6, const char* mac) {
  // Fixed, because a random MAC, and the link-local address made of it, would be in every snapshot.
  node.Must({"ip", "link", "set", "uplink", "address", mac});
  node.SetSysctl("net/ipv6/conf/uplink/accept_dad", "0");
  node.SetSysctl("net/ipv6/conf/uplink/accept_ra", "0");
  node.Must({"ip", "address", "add", Cat(ip4, "/24"), "dev", "uplink"});
  node.Must({"ip", "address", "add", Cat(ip6, "/64"), "dev", "uplink", "nodad"});
  node.Must({"ip", "link", "set", "uplink", "up"});
}

void RouteAllTo(const Node& node, const char* ip4, const char* ip6) {
  node.Must({"ip", "route", "add", "default", "via", ip4});
  node.Must({"ip", "-6", "route", "add", "default", "via", ip6});
}

}  // namespace

World::World() : home_(::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC)) {
  host_ = std::make_unique<Node>("host");
  outside_ = std::make_unique<Node>("outside");
  containers_.push_back(std::make_unique<Node>("guest", /*with_loopback=*/false));
  // An index of its own for each end: the kernel then tells of carrier at once, and not up to a
  // second late (it is in no hurry with links whose peer has their own index). Until then neither
  // end speaks IPv6.
  host().Must({"ip",
               "link",
               "add",
               "uplink",
               "index",
               "70",
               "type",
               "veth",
               "peer",
               "name",
               "uplink",
               "netns",
               "outside"});
  SetUpUplink(host(), kHostIp4, kHostIp6, "02:00:00:00:01:01");
  SetUpUplink(outside(), kOutsideIp4, kOutsideIp6, "02:00:00:00:01:02");
  RouteAllTo(host(), kOutsideIp4, kOutsideIp6);
  RouteAllTo(outside(), kHostIp4, kHostIp6);
  host().Enter();
}

World::~World() {
  // Namespaces die when nobody is in them, so leave first.
  if (::setns(home_.get(), CLONE_NEWNET) != 0) {
    std::abort();
  }
}

Node& World::AddContainer(const std::string& name) {
  containers_.push_back(std::make_unique<Node>(name, /*with_loopback=*/false));
  return *containers_.back();
}

void World::KillContainer(Node& container) {
  std::set<int> peers;  // indices in the host
  for (const nlohmann::json& link : container.Json({"ip", "-j", "link", "show"})) {
    peers.insert(link.value("link_index", 0));
  }
  container.Kill();
  const bool is_dead = Soon([&] {
    const nlohmann::json links = host().Json({"ip", "-j", "link", "show"});
    return std::none_of(links.begin(), links.end(), [&peers](const nlohmann::json& link) {
      return peers.contains(link.at("ifindex").get<int>());
    });
  });
  if (!is_dead) {
    throw std::runtime_error(Cat("the namespace of ", container.name(), " does not die"));
  }
}

std::string World::Binary() {
  const char* named = std::getenv("NOMAD_BRIDGE_BINARY");
  return named != nullptr ? named : NOMAD_BRIDGE_BINARY;
}

Variables World::As(const std::string& container_id, const Node& container) {
  return {{"CNI_CONTAINERID", container_id}, {"CNI_NETNS", container.path()}};
}

Command World::PluginCommand(const std::string& verb,
                             const std::string& config,
                             const Variables& variables,
                             const std::string& name) {
  EnsureFolder(kBinFolder);
  const std::string path = Cat(kBinFolder, "/", name);
  if (::symlink(Binary().c_str(), path.c_str()) != 0 && errno != EEXIST) {
    throw ErrnoError(Code::kIo, Cat("cannot link ", path));
  }
  Command command{.argv = {path},
                  .input = config,
                  .variables = {{"CNI_COMMAND", verb},
                                {"CNI_CONTAINERID", "alloc-1"},
                                {"CNI_NETNS", container().path()},
                                {"CNI_IFNAME", "eth0"},
                                {"CNI_PATH", kBinFolder},
                                {"PATH", "/usr/sbin:/usr/bin:/sbin:/bin"}},
                  .inherits_environment = false};
  for (const auto& [variable, value] : variables) {
    command.variables[variable] = value;
  }
  return command;
}

Outcome World::RunPlugin(const std::string& verb,
                         const std::string& config,
                         const Variables& variables,
                         const std::string& name) {
  return Execute(PluginCommand(verb, config, variables, name));
}

Process World::StartPlugin(const std::string& verb,
                           const std::string& config,
                           const Variables& variables) {
  return Process::Start(PluginCommand(verb, config, variables, "nomad-bridge"));
}

Killing World::RunPluginKilledAt(int nth,
                                 const std::string& verb,
                                 const std::string& config,
                                 const Variables& variables) {
  return RunKilledAt(PluginCommand(verb, config, variables, "nomad-bridge"), nth);
}

Snapshot World::TakeSnapshot() {
  Snapshot snapshot = TakeHostSnapshot();
  for (const std::unique_ptr<Node>& container : containers_) {
    if (container->IsAlive()) {
      snapshot.AddNode(*container);
    }
  }
  return snapshot;
}

Snapshot World::TakeHostSnapshot() {
  Snapshot snapshot;
  snapshot.AddNode(host());
  snapshot.AddNode(outside());
  snapshot.AddFolder("/run/nomad-bridge");
  snapshot.AddFolder("/run/cni");
  if (!std::filesystem::is_symlink("/var/run")) {
    snapshot.AddFolder("/var/run/cni");
  }
  snapshot.AddFolder("/var/lib/cni");
  return snapshot;
}

}  // namespace nomad_bridge::test
