// The binary is replaced on a node at work by the one under test, and that one by the former again:
// 50 allocations, each with a connection into it and one out of it, which are used all the while.
//
// NOMAD_BRIDGE_EARLIER  the former binary; tests/with-earlier builds one
#include "tests/support/world.h"

namespace nomad_bridge::test {
namespace {

constexpr int kAllocations = 50;

class EarlierRelease : public World {
 protected:
  struct Allocation {
    json config;
    Variables variables;
    json result;
    Connection in;
    Connection out;
  };

  EarlierRelease() {
    PutInPlace(Earlier());
    Serve(outside(), Protocol::kTcp, {"0.0.0.0"}, 9000, "outside");
    for (int n = 0; n < kAllocations; ++n) {
      Node& node = AddContainer(Cat("alloc-", n));
      nodes_.push_back(&node);
      Serve(node, Protocol::kTcp, {"0.0.0.0"}, 80, node.name());
      const auto port = static_cast<std::uint16_t>(10000 + n);
      json config = Publish({Port(port, 80), Port(port, 53, "udp")});
      const Variables variables = As(node.name(), node, NomadArgs("web", node.name()));
      json result = Attach(config, variables);
      allocations_.push_back(
          {.config = std::move(config),
           .variables = variables,
           .result = std::move(result),
           .in = Connection::Open(outside(), {.to = kHostIp4, .port = port}).value(),
           .out = Connection::Open(node, {.to = kOutsideIp4, .port = 9000}).value()});
    }
    retransmitted_ = Retransmitted();
  }

  [[nodiscard]] static std::string Earlier() {
    const char* const binary = std::getenv("NOMAD_BRIDGE_EARLIER");
    return binary != nullptr ? binary
                             : throw std::runtime_error("NOMAD_BRIDGE_EARLIER names no binary");
  }

  // As an upgrade does it: the name leads to the one or to the other.
  void PutInPlace(const std::string& binary) {
    const std::string path = PluginCommand("VERSION", "{}").argv.front();
    fs::create_symlink(binary, path + ".new");
    fs::rename(path + ".new", path);
  }

  // By all whose connections are used: a packet that was lost is sent again.
  [[nodiscard]] int Retransmitted() {
    int segments = 0;
    nodes_.push_back(&outside());
    for (const Node* const node : nodes_) {
      segments +=
          At(node->Json({"nstat", "-jasz", "TcpRetransSegs"}), "/kernel/TcpRetransSegs").get<int>();
    }
    nodes_.pop_back();
    return segments;
  }

  void UseConnections(Allocation& allocation) {
    EXPECT_TRUE(allocation.in.Echoes("in\n")) << allocation.config;
    EXPECT_TRUE(allocation.out.Echoes("out\n")) << allocation.config;
  }

  // An ADD of one more, while others' connections are used before each of its system calls.
  void AddUnderTraffic(const std::string& id) {
    std::size_t turn = 0;
    const Killing add =
        RunObserved(PluginCommand("ADD", Config().dump(), As(id, AddContainer(id))),
                    [&] { UseConnections(allocations_[turn++ % allocations_.size()]); });
    std::ranges::for_each(allocations_, [this](Allocation& each) { UseConnections(each); });
    EXPECT_EQ(add.outcome.exit_code, 0) << add.outcome;
    EXPECT_GT(turn, allocations_.size());
    EXPECT_EQ(Retransmitted(), retransmitted_) << "a packet was lost";
  }

  void CheckAll() {
    for (const Allocation& each : allocations_) {
      MustCheck(each.config, each.result, each.variables);
    }
  }

  [[nodiscard]] Snapshot Rules() { return TakeHostSnapshot().Of({"host nft"}); }

  std::vector<const Node*> nodes_;
  std::vector<Allocation> allocations_;
  int retransmitted_ = 0;
};

// What the former binary has attached is judged by the policies that this one applies.
TEST_F(EarlierRelease, LeavesWhatPoliciesAreAbout) {
  PutInPlace(BinaryUnderTest());
  EnsureDirectory("/run/policy.d");
  ReplaceFile("/run/policy.d/a.json",
              R"({"version": 1, "policies": [{"name": "a", "to": {"namespace": "*"},
                  "allow": [{"from": ["outside"]}]}]})");
  Command apply = PluginCommand("", "", {{"CNI_COMMAND", std::nullopt}});
  apply.argv.insert(apply.argv.end(), {"policy", "apply", "/run/policy.d"});
  EXPECT_THAT(Execute(apply), Exits(0));
  for (Allocation& each : allocations_) {
    UseConnections(each);
    const auto port =
        At(each.config, "/runtimeConfig/portMappings/0/HostPort").get<std::uint16_t>();
    EXPECT_NE(TcpText(outside(), kHostIp4, port), "");
  }
  EXPECT_TRUE(IsSilent(*nodes_[1], {.to = AddressOf(allocations_.front().result), .port = 80}));
  CheckAll();
  for (const Allocation& each : allocations_) {
    MustRun("DEL", each.config, each.variables);
  }
  const json map = host().Json(Words("nft -j list map inet nomad-bridge in4"));
  EXPECT_EQ(At(map, "/nftables/1/map/elem"), json());
}

TEST_F(EarlierRelease, IsReplacedAndComesBackUnderTraffic) {
  PutInPlace(BinaryUnderTest());
  AddUnderTraffic("first");
  CheckAll();
  const Snapshot converged = Rules();
  // Whatever is made anew is as it is now: nothing of the former is left.
  host().Must({"nft", "flush", "ruleset"});
  CheckAll();
  EXPECT_TRUE(Unchanged(converged, Rules()));

  PutInPlace(Earlier());
  AddUnderTraffic("second");
  CheckAll();
  MustRun("DEL", Config(), As("first", container()));

  PutInPlace(BinaryUnderTest());
  AddUnderTraffic("third");
  CheckAll();
  MustRun("DEL", Config(), As("second", container()));
  MustRun("DEL", Config(), As("third", container()));
  for (const Allocation& each : allocations_) {
    EXPECT_EQ(TcpText(outside(),
                      kHostIp4,
                      each.config.at("/runtimeConfig/portMappings/0/HostPort"_json_pointer)),
              each.variables.at("CNI_CONTAINERID").value());
    Detach(each.config, each.variables);
  }
  EXPECT_THAT(host().Must(Words("nft list ruleset")), Not(HasSubstr("comment \"veth")));
  EXPECT_EQ(PortsOf("nomad"), json::array());
  EXPECT_THAT(Entries(kRecords), IsEmpty());
  EXPECT_THAT(Leased(), IsEmpty());
}

}  // namespace
}  // namespace nomad_bridge::test
