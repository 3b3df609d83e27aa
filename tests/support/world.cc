#include "tests/support/world.h"

#include <fcntl.h>
#include <sched.h>

namespace nomad_bridge::test {
namespace {

// Has only names that a test runs: in PATH, our bridge would hide bridge(8).
constexpr const char* kBinDirectory = "/run/cni-bin";

// Sets up one end of the cable between host and outside, and lo. Uses one process of ip(8) for
// several commands, because some thousand cases make a world each.
void SetUpUplink(const Node& node, const char* ip4, const char* ip6) {
  node.SetSysctl("net/ipv6/conf/uplink/accept_dad", "0");
  node.SetSysctl("net/ipv6/conf/uplink/accept_ra", "0");
  node.Must({"ip", "-batch", "-"},
            Format("link set lo up\n"
                   "address add {}/24 dev uplink\n"
                   "address add {}/64 dev uplink nodad\n"
                   "link set uplink up\n",
                   ip4,
                   ip6));
}

void RouteAllTo(const Node& node, const char* ip4, const char* ip6) {
  node.Must({"ip", "-batch", "-"},
            Format("route add default via {}\nroute add ::/0 via {}\n", ip4, ip6));
}

}  // namespace

World::World() : home_(::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC)) {
  host_ = std::make_unique<Node>("host", /*with_loopback=*/false);
  outside_ = std::make_unique<Node>("outside", /*with_loopback=*/false);
  containers_.push_back(std::make_unique<Node>("container", /*with_loopback=*/false));
  // Each end has an index of its own, so that the kernel reports carrier at once. It delays link
  // events by up to a second if both ends have the same index, and until then neither end has IPv6.
  // The MACs are fixed, because random MACs, and the link-local addresses made of them, would be in
  // every snapshot.
  host().Must(
      Words("ip link add uplink index 70 address 02:00:00:00:01:01 type veth"
            " peer name uplink address 02:00:00:00:01:02 netns outside"));
  SetUpUplink(host(), kHostIp4, kHostIp6);
  SetUpUplink(outside(), kOutsideIp4, kOutsideIp6);
  RouteAllTo(host(), kOutsideIp4, kOutsideIp6);
  RouteAllTo(outside(), kHostIp4, kHostIp6);
  host().Enter();
  if (const char* const name = std::getenv("NOMAD_BRIDGE_FIREWALL")) {
    StartFirewall(name);
    firewall_->LetIn(host());
  }
  if (const char* const is_called = std::getenv("NOMAD_BRIDGE_BRIDGE_NF")) {
    SetBridgeNf(is_called);
  }
}

World::~World() {
  // A namespace is destroyed when no process is in it, so leave first.
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
  for (const json& link : container.Json({"ip", "-j", "link", "show"})) {
    peers.insert(link.value("link_index", 0));
  }
  container.Kill();
  const bool is_dead = Soon([&] {
    const json links = host().Json({"ip", "-j", "link", "show"});
    return std::none_of(links.begin(), links.end(), [&peers](const json& link) {
      return peers.contains(link.at("ifindex").get<int>());
    });
  });
  if (!is_dead) {
    throw std::runtime_error(Cat("the namespace of ", container.name(), " does not die"));
  }
}

Attached World::As(const std::string& container_id,
                   const Node& container,
                   const std::string& args) {
  return {.container_id = container_id, .netns = container.path(), .args = args};
}

Attached World::WithPorts(const std::string& container_id,
                          const Node& container,
                          const std::vector<json>& ports,
                          const std::string& args) {
  return {.container_id = container_id,
          .netns = container.path(),
          .port_mappings = ports,
          .args = args};
}

Command World::PluginCommand(const std::string& verb,
                             const std::string& input,
                             Variables variables,
                             const std::string& name) {
  EnsureDirectory(kBinDirectory);
  const std::string program = Cat(kBinDirectory, '/', name);
  if (!fs::is_symlink(program)) {
    fs::create_symlink(BinaryUnderTest(), program);
  }
  variables.insert({{"CNI_CONTAINERID", "alloc-1"},
                    {"CNI_NETNS", container().path()},
                    {"CNI_IFNAME", "eth0"},
                    {"CNI_PATH", kBinDirectory}});
  return CniCommand(program, verb, input, std::move(variables));
}

Outcome World::RunPlugin(const std::string& verb,
                         const std::string& input,
                         const Variables& variables,
                         const std::string& name) {
  return Execute(PluginCommand(verb, input, variables, name));
}

Outcome World::RunPlugin(const std::string& verb, const char* input, const Variables& variables) {
  return RunPlugin(verb, std::string(input), variables);
}

Outcome World::RunPlugin(const std::string& verb, const json& config, const Variables& variables) {
  return RunPlugin(verb, config.dump(), variables);
}

Process World::StartPlugin(const std::string& verb,
                           const json& config,
                           const Variables& variables) {
  return Process::Start(PluginCommand(verb, config.dump(), variables));
}

Outcome World::MustRun(const std::string& verb, const json& config, const Variables& variables) {
  Outcome outcome = RunPlugin(verb, config, variables);
  if (outcome.exit_code != 0) {
    throw std::runtime_error(Cat(verb, " failed: ", outcome));
  }
  return outcome;
}

json World::Attach(const json& config, const Variables& variables) {
  return MustRun("ADD", config, variables).json;
}

void World::Detach(const json& config, const Variables& variables) {
  MustRun("DEL", config, variables);
}

Outcome World::MustCheck(const json& config, const json& result, const Variables& variables) {
  return MustRun("CHECK", WithResult(config, result), variables);
}

Outcome World::MustRefuse(int code, const json& config, const Variables& variables) {
  const Snapshot before = TakeSnapshot();
  Outcome add = RunPlugin("ADD", config, variables);
  EXPECT_EQ(add.exit_code, 1) << add;
  EXPECT_EQ(ErrorCode(add), code) << add;
  EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
  return add;
}

Outcome World::Check(const json& config, const json& result, const Variables& variables) {
  return RunPlugin("CHECK", WithResult(config, result), variables);
}

void World::UseOnce(const json& config, const Variables& variables) {
  Attach(config, variables);
  Detach(config, variables);
}

void World::WarmUp() {
  container().Must({"ip", "link", "set", "lo", "up"});
  Node& early = AddContainer("early");
  UseOnce(Publish({Port(7, 7)}, DualStack()), As("early", early));
  KillContainer(early);
}

void World::Serve(const Node& node,
                  Protocol protocol,
                  const std::vector<std::string>& addresses,
                  std::uint16_t port,
                  const std::string& text) {
  for (const std::string& address : addresses) {
    servers_.push_back(Server::Start(node, protocol, address, port, text));
  }
}

void World::ExpectPublished(const Node& node, std::uint16_t host_port) {
  const Server page = Server::Start(node, Protocol::kTcp, "0.0.0.0", 80, node.name());
  EXPECT_EQ(TcpText(outside(), kHostIp4, host_port), node.name());
}

void World::DropForwarded() {
  host().Must({"iptables", "-P", "FORWARD", "DROP"});
  host().Must({"ip6tables", "-P", "FORWARD", "DROP"});
}

void World::StartFirewall(const std::string& name) {
  firewall_.emplace(host(), name);
}

void World::OpenFirewall(const std::string& bridge) {
  if (firewall_) {
    firewall_->LetBridge(host(), bridge);
  }
}

void World::SetBridgeNf(const std::string& value) {
  for (const char* const key : {"iptables", "ip6tables"}) {
    host().SetSysctl(Cat("net/bridge/bridge-nf-call-", key), value);
  }
}

bool World::IsSilent(const Node& from, Call call) {
  call.patience = std::chrono::milliseconds(250);
  return !Ask(from, call).has_value();
}

json World::LinkOn(const Node& node, const std::string& name) {
  const Outcome shown = node.Run({"ip", "-d", "-j", "address", "show", "dev", name});
  // An empty array if the link went while ip was asking for its addresses.
  return shown.exit_code == 0 && !shown.json.empty() ? shown.json.at(0) : json();
}

bool World::HasInterface(const Node& node, const std::string& name) {
  return !LinkOn(node, name).is_null();
}

std::vector<std::string> World::AddressesOn(const Node& node, const std::string& name) {
  std::vector<std::string> addresses;
  const json link = LinkOn(node, name);
  for (const json& address : link.at("addr_info")) {
    if (address.at("scope") != "link") {
      addresses.push_back(
          Cat(address.at("local").get<std::string>(), "/", address.at("prefixlen").get<int>()));
    }
  }
  return addresses;
}

json World::RoutesTo(const Node& node, const std::string& destination) {
  const bool is_ipv6 = destination.find(':') != std::string::npos;
  json found = json::array();
  for (json& route :
       node.Json({"ip", "-j", "-N", is_ipv6 ? "-6" : "-4", "route", "show", "table", "all"})) {
    if (route.at("dst") == destination && route.value("type", "1") == "1") {
      found.push_back(std::move(route));
    }
  }
  return found;
}

json World::PortsOf(const std::string& bridge) {
  return host().Json({"ip", "-d", "-j", "link", "show", "master", bridge});
}

std::string World::OnlyPort() {
  const json ports = PortsOf("nomad");
  if (ports.size() != 1) {
    throw std::runtime_error(Cat("bridge 'nomad' has ", ports.size(), " ports, not one"));
  }
  return ports.at(0).at("ifname");
}

std::string World::ListTable() {
  return WithoutHash(host().Must({"nft", "list", "table", "inet", "nomad-bridge"}));
}

json World::Elements(const std::string& set) {
  const std::string kind = set.starts_with("port") || set.starts_with("hostip") ? "map" : "set";
  const json listed = host().Json({"nft", "-j", "list", kind, "inet", kTable, set});
  for (const json& entry : listed.at("nftables")) {
    if (entry.contains(kind)) {
      return entry.at(kind).value("elem", json::array());
    }
  }
  return nullptr;
}

std::vector<std::string> World::RulesWith(const std::string& part, const std::string& program) {
  std::vector<std::string> found;
  for (const std::string& line : Lines(host().Must({program, "-S"}))) {
    if (line.find(part) != std::string::npos) {
      found.push_back(line);
    }
  }
  return found;
}

std::string World::RecordOf(const std::string& container_id) {
  return Cat(kRecords, "/", container_id, "@eth0.json");
}

bool World::HasRecord(const std::string& container_id) {
  return FindFile(RecordOf(container_id)).has_value();
}

json World::ReadRecord(const std::string& container_id) {
  return json::parse(FindFile(RecordOf(container_id)).value());
}

void World::WriteRecord(const std::string& container_id, const json& record) {
  ReplaceFile(RecordOf(container_id), record.dump());
}

void World::ForgetAge(const std::string& container_id) {
  json record = ReadRecord(container_id);
  record["created"] = 0;
  WriteRecord(container_id, record);
}

std::map<std::string, std::string> World::Leases(const std::string& directory) {
  std::map<std::string, std::string> leases;
  for (const std::string& name : Entries(directory)) {
    if (name.find_first_of(".:") != std::string::npos && !name.starts_with("last_")) {
      const std::string text = FindFile(Cat(directory, "/", name)).value_or("");
      leases[name] = text.substr(0, text.find('\r'));
    }
  }
  return leases;
}

std::set<std::string> World::Leased(const std::string& directory) {
  std::set<std::string> leased;
  for (const auto& [address, owner] : Leases(directory)) {
    leased.insert(address);
  }
  return leased;
}

std::string World::Lease(const std::string& address) {
  return FindFile(Cat(kLeases, "/", address)).value_or("(no lease)");
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
  snapshot.AddDirectory("/run/nomad-bridge");
  snapshot.AddDirectory("/run/cni");
  if (!fs::is_symlink("/var/run")) {
    snapshot.AddDirectory("/var/run/cni");
  }
  snapshot.AddDirectory("/var/lib/cni");
  return snapshot;
}

}  // namespace nomad_bridge::test
