// A whole little internet for one test: a host, an outside machine that reaches it, and containers.
//
//      outside                       host                               container, guest2, ...
//      198.51.100.2/24 ── uplink ──  198.51.100.1/24      (what the     empty but for lo (down),
//      2001:db8:100::2/64            2001:db8:100::1/64   plugin makes) until an ADD attaches them
//
// Both ends have a default route through the other. No forwarding, no rules, no bridge: a bare
// machine.
//
// Where    The test itself runs inside the host; containers are under /run/netns/<name>.
// State    /run and /var/run/cni and /var/lib/cni are empty at the start of every test and gone
//          after it.
// Lives    Nothing survives a test: processes, namespaces, mounts.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/fixture.h"
#include "tests/support/isolation.h"
#include "tests/support/killing.h"
#include "tests/support/node.h"
#include "tests/support/process.h"
#include "tests/support/snapshot.h"
#include "tests/support/traffic.h"

namespace nomad_bridge::test {

constexpr const char* kHostIp4 = "198.51.100.1";
constexpr const char* kHostIp6 = "2001:db8:100::1";
constexpr const char* kOutsideIp4 = "198.51.100.2";
constexpr const char* kOutsideIp6 = "2001:db8:100::2";

class World : public ::testing::Test {
 protected:
  World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  ~World() override;

  [[nodiscard]] Node& host() { return *host_; }
  [[nodiscard]] Node& outside() { return *outside_; }
  // The first container.
  [[nodiscard]] Node& container() { return *containers_.front(); }
  // One more, with an empty namespace of its own.
  [[nodiscard]] Node& AddContainer(const std::string& name);
  // Its path goes and its namespace dies, with every veth pair that led into it: that takes the
  // kernel a moment, which is waited for. The node must not be used again.
  void KillContainer(Node& container);

  // The file under test: what was built, or what the variable NOMAD_BRIDGE_BINARY names.
  [[nodiscard]] static std::string Binary();

  // The built binary, run in the host as a runtime would: CNI_COMMAND=`verb`,
  // CNI_CONTAINERID=alloc-1, CNI_NETNS the first container's, CNI_IFNAME=eth0, CNI_PATH, PATH and
  // nothing else; `variables` go on top (nullopt takes one away). `name` is what the binary is
  // called under.
  [[nodiscard]] Outcome RunPlugin(const std::string& verb,
                                  const std::string& config,
                                  const Variables& variables = {},
                                  const std::string& name = "nomad-bridge");
  // The same, not waited for, and killed at the N-th system call (killing.h).
  [[nodiscard]] Process StartPlugin(const std::string& verb,
                                    const std::string& config,
                                    const Variables& variables = {});
  [[nodiscard]] Killing RunPluginKilledAt(int nth,
                                          const std::string& verb,
                                          const std::string& config,
                                          const Variables& variables = {});

  // What RunPlugin() runs, to be changed before it is.
  [[nodiscard]] Command PluginCommand(const std::string& verb,
                                      const std::string& config,
                                      const Variables& variables = {},
                                      const std::string& name = "nomad-bridge");

  // The variables that speak of another attachment: container id and namespace.
  [[nodiscard]] static Variables As(const std::string& container_id, const Node& container);

  // Host, outside, every living container, /run/nomad-bridge, /var/run/cni and /var/lib/cni.
  [[nodiscard]] Snapshot TakeSnapshot();
  // The same without the containers, whose side belongs to themselves.
  [[nodiscard]] Snapshot TakeHostSnapshot();

 private:
  FreshState state_;  // first: everything below lives on it
  std::unique_ptr<Node> host_;
  std::unique_ptr<Node> outside_;
  std::vector<std::unique_ptr<Node>> containers_;
  UniqueFd home_;
};

}  // namespace nomad_bridge::test
