// A whole little internet for one test: a host, an outside machine that reaches it, and containers.
//
//      outside                       host                               containers
//      198.51.100.2/24 ── uplink ──  198.51.100.1/24      (what the     empty but for lo (down),
//      2001:db8:100::2/64            2001:db8:100::1/64   plugin makes) until an ADD attaches them
//
// Both ends have a default route through the other. There is no forwarding, no rule and no bridge.
//
// Where    The test itself runs inside the host. Containers are under /run/netns/<name>.
// State    /run, /var/run/cni and /var/lib/cni are empty at the start of every test, and removed
//          after it.
// Lives    Nothing survives a test: no process, namespace or mount.
// Beside   With NOMAD_BRIDGE_FIREWALL=docker, ufw or firewalld that firewall runs on the host
//          before a test begins, and allows access to the node's own services.
//          NOMAD_BRIDGE_BRIDGE_NF=0 or 1 sets bridge-nf-call-iptables and -ip6tables there
//          (tests/beside-firewalls).
#pragma once

#include "tests/support/config.h"
#include "tests/support/fixture.h"
#include "tests/support/isolation.h"
#include "tests/support/killing.h"
#include "tests/support/named.h"
#include "tests/support/node.h"
#include "tests/support/process.h"
#include "tests/support/running_firewall.h"
#include "tests/support/runtime.h"
#include "tests/support/snapshot.h"
#include "tests/support/soon.h"
#include "tests/support/sweep.h"
#include "tests/support/test.h"
#include "tests/support/traffic.h"

namespace nomad_bridge::test {

constexpr const char* kHostIp4 = "198.51.100.1";
constexpr const char* kHostIp6 = "2001:db8:100::1";
constexpr const char* kOutsideIp4 = "198.51.100.2";
constexpr const char* kOutsideIp6 = "2001:db8:100::2";
// Addresses of bridge "nomad" with DualStack().
constexpr const char* kBridgeIp4 = "172.26.64.1";
constexpr const char* kBridgeIp6 = "fd00:26::1";

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
  // Adds a container with an empty namespace of its own.
  [[nodiscard]] Node& AddContainer(const std::string& name);
  // Removes the container's path and its namespace, with every veth pair that leads into it. Waits
  // until the kernel has done so. The node must not be used again.
  void KillContainer(Node& container);

  // Runs the binary under test in the host, as a runtime would. Its environment is
  // CNI_COMMAND=`verb`, CNI_CONTAINERID=alloc-1, CNI_NETNS of the first container, CNI_IFNAME=eth0,
  // CNI_PATH and PATH; `variables` are added, or replace these (nullopt removes one). `name` is the
  // name by which the binary is called.
  [[nodiscard]] Outcome RunPlugin(const std::string& verb,
                                  const std::string& input,
                                  const Variables& variables = {},
                                  const std::string& name = "nomad-bridge");
  [[nodiscard]] Outcome RunPlugin(const std::string& verb,
                                  const char* input,
                                  const Variables& variables = {});
  [[nodiscard]] Outcome RunPlugin(const std::string& verb,
                                  const json& config,
                                  const Variables& variables = {});
  // Like RunPlugin(), but does not wait.
  [[nodiscard]] Process StartPlugin(const std::string& verb,
                                    const json& config,
                                    const Variables& variables = {});
  // Returns the command that RunPlugin() runs, for a test that changes it.
  [[nodiscard]] Command PluginCommand(const std::string& verb,
                                      const std::string& input,
                                      Variables variables = {},
                                      const std::string& name = "nomad-bridge");

  // Run commands that must succeed; throw with what was printed if they fail. Attach() returns
  // ADD's result, Check() passes `result` as prevResult.
  // NOLINTNEXTLINE(modernize-use-nodiscard): most callers ignore the output
  Outcome MustRun(const std::string& verb, const json& config, const Variables& variables = {});
  json Attach(const json& config, const Variables& variables = {});
  void Detach(const json& config, const Variables& variables = {});
  Outcome MustCheck(const json& config, const json& result, const Variables& variables = {});
  // An ADD that must be refused with this code and leave everything as it was.
  Outcome MustRefuse(int code, const json& config, const Variables& variables = {});
  // A CHECK that may fail.
  [[nodiscard]] Outcome Check(const json& config,
                              const json& result,
                              const Variables& variables = {});

  // Runs an ADD and its DEL, so that everything that stays by design (bridge, table, static rules,
  // the container's lo being up) exists already, and a Snapshot shows only what is left behind.
  void UseOnce(const json& config, const Variables& variables = {});
  // Like UseOnce(), with both families and a port, for a container of its own.
  void WarmUp();

  // Another attachment, for a plugin (its variables) or a list of plugins (runtime.h). As() has no
  // ports.
  [[nodiscard]] static Attached As(const std::string& container_id,
                                   const Node& container,
                                   const std::string& args = "");
  [[nodiscard]] static Attached WithPorts(const std::string& container_id,
                                          const Node& container,
                                          const std::vector<json>& ports,
                                          const std::string& args = "");

  // The variables of GC and STATUS, which have no container.
  static inline const Variables kNoContainer = {{"CNI_CONTAINERID", std::nullopt},
                                                {"CNI_NETNS", std::nullopt},
                                                {"CNI_IFNAME", std::nullopt}};

  // Servers that answer `text` for as long as the test runs.
  void Serve(const Node& node,
             Protocol protocol,
             const std::vector<std::string>& addresses,
             std::uint16_t port,
             const std::string& text);
  // Expects that the outside reaches a page that `node` serves, on this port of the host.
  void ExpectPublished(const Node& node, std::uint16_t host_port = 8080);
  // Drops forwarded packets by the policy of iptables' chain, as Docker and ufw do.
  void DropForwarded();
  // "docker", "ufw", "firewalld" or "none", which runs until the test ends.
  void StartFirewall(const std::string& name);
  // Makes the running firewall, if there is one, let traffic of `bridge` pass.
  void OpenFirewall(const std::string& bridge);
  // bridge-nf-call-iptables and -ip6tables.
  void SetBridgeNf(const std::string& value);
  // Returns whether `call` gets no answer. Waits less long than for an expected answer.
  [[nodiscard]] static bool IsSilent(const Node& from, Call call);

  // Return the state as other programs read it. LinkOn() returns `ip -d -j address show` of a link,
  // null if it is missing.
  [[nodiscard]] static json LinkOn(const Node& node, const std::string& name);
  [[nodiscard]] static bool HasInterface(const Node& node, const std::string& name);
  // "172.26.64.2/20": all addresses except link-local ones, in the kernel's order.
  [[nodiscard]] static std::vector<std::string> AddressesOn(const Node& node,
                                                            const std::string& name);
  // Unicast routes to `destination` ("default", "10.0.0.0/8") in any table, as numbers.
  [[nodiscard]] static json RoutesTo(const Node& node, const std::string& destination);
  // The host's ports of `bridge`, and the name of the only port of bridge "nomad".
  [[nodiscard]] json PortsOf(const std::string& bridge);
  [[nodiscard]] std::string OnlyPort();
  // Our table as nft shows it.
  [[nodiscard]] std::string ListTable();
  // The elements of a set or map of our table, as nft -j shows them.
  [[nodiscard]] json Elements(const std::string& set);
  // The lines of `iptables -S` (or ip6tables) that contain `part`.
  [[nodiscard]] std::vector<std::string> RulesWith(const std::string& part,
                                                   const std::string& program = "iptables");
  // Of network "nomad": the record's path; who holds which address; a lease's content.
  [[nodiscard]] static std::string RecordOf(const std::string& container_id);
  [[nodiscard]] static bool HasRecord(const std::string& container_id);
  [[nodiscard]] static json ReadRecord(const std::string& container_id);
  static void WriteRecord(const std::string& container_id, const json& record);
  // Removes the time of the ADD from the record: a record that CHECK rebuilds does not have it.
  static void ForgetAge(const std::string& container_id);
  [[nodiscard]] static std::map<std::string, std::string> Leases(
      const std::string& directory = kLeases);
  [[nodiscard]] static std::set<std::string> Leased(const std::string& directory = kLeases);
  [[nodiscard]] static std::string Lease(const std::string& address);

  // Host, outside, every living container, /run/nomad-bridge, /var/run/cni and /var/lib/cni.
  [[nodiscard]] Snapshot TakeSnapshot();
  // Like TakeSnapshot(), without the containers, whose side belongs to themselves.
  [[nodiscard]] Snapshot TakeHostSnapshot();

 private:
  FreshState state_;  // first: everything below lives on it
  std::unique_ptr<Node> host_;
  std::unique_ptr<Node> outside_;
  std::vector<std::unique_ptr<Node>> containers_;
  std::vector<Server> servers_;
  UniqueFd home_;
  std::optional<RunningFirewall> firewall_;
};

}  // namespace nomad_bridge::test
