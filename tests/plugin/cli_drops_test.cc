// What sourceCheck, inbound and ingressPolicy drop: list marks the allocation, inspect says what
// was dropped, doctor warns, metrics counts. Probes of ours change nothing of it.
#include "tests/plugin/metrics_world.h"
#include "tests/support/soon.h"

namespace nomad_bridge::test {
namespace {

constexpr const char* kOwnIp4 = "172.26.64.200";  // of no allocation
constexpr const char* kOwnIp6 = "fd00:26::200";

class Drops : public Metrics {
 protected:
  void SetUp() override { host().Must(Words("ip link set lo up")); }

  // Attaches `web`, in the container, and `api`, in a neighbour.
  void AttachTwo(const json& rules = json::object()) {
    const json config = Publish({Port(8080, 80)}, DualStack(rules));
    AttachBilling(config);
    Attach(DualStack(rules), As("api", neighbour_, NomadArgs("api", "api-0")));
  }

  // A datagram of `node` from `source` to `to`, which nobody answers.
  static void Send(const Node& node, const std::string& source, const std::string& to) {
    static_cast<void>(Ask(node,
                          {.protocol = Protocol::kUdp,
                           .to = to,
                           .port = 9000,
                           .from = source,
                           .patience = std::chrono::milliseconds(50)}));
  }
  // keepalived and the like give themselves such an address.
  void AddOwnAddress(const std::string& address) {
    const bool is_ipv4 = address.find(':') == address.npos;
    container().Must(
        Words(Cat("ip address add ", address, is_ipv4 ? "/20" : "/64 nodad", " dev eth0")));
  }

  [[nodiscard]] json DropsOf(const std::string& job) {
    return JsonOf(Cat("list job=", job, " -json")).at("attachments").at(0).at("drops");
  }
  [[nodiscard]] json JsonOf(const std::string& line) { return json::parse(Run(Words(line)).out); }
  [[nodiscard]] std::uint64_t Counted(const std::string& reason) {
    return Samples().at(Cat("nomad_bridge_dropped_packets_total{reason=\"", reason, "\"}"));
  }
  // The finding of doctor; null if there is none.
  [[nodiscard]] json Warning() {
    const json document = JsonOf("doctor drops -json");
    for (const json& finding : document.at("checks")) {
      if (finding.at("verdict") == "warn") {
        return finding;
      }
    }
    return nullptr;
  }
  void ExpectNothing() {
    EXPECT_EQ(DropsOf("billing"), json::array());
    EXPECT_EQ(Warning(), nullptr);
    for (const char* const reason : {"sourceCheck", "inbound", "ingressPolicy"}) {
      EXPECT_EQ(Counted(reason), 0U) << reason;
    }
  }
  // The kernel would ask again, and be counted.
  static void ExpectNoLookup(const Node& node) {
    for (const char* const family : {"-4", "-6"}) {
      EXPECT_EQ(node.Must(Words(Cat("ip ", family, " neigh show nud incomplete"))), "")
          << node.name();
    }
  }

  Node& neighbour_ = AddContainer("neighbour");
};

TEST_F(Drops, AreNoneOfHonestTraffic) {
  AttachTwo();
  Serve(container(), Protocol::kTcp, {"172.26.64.2", "fd00:26::2"}, 80, "web");
  EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "web");
  EXPECT_EQ(TcpText(neighbour_, "172.26.64.2", 80), "web");
  EXPECT_EQ(TcpText(neighbour_, "fd00:26::2", 80), "web");
  ExpectNothing();
}

class DropsOfFamily : public Drops, public ::testing::WithParamInterface<bool> {
 protected:
  [[nodiscard]] static const char* Of(const char* ip4, const char* ip6) {
    return GetParam() ? ip4 : ip6;
  }
};
INSTANTIATE_TEST_SUITE_P(Families, DropsOfFamily, ::testing::Bool(), [](const auto& each) {
  return each.param ? "Ipv4" : "Ipv6";
});

TEST_P(DropsOfFamily, AreThoseOfAnAddressThatTheAllocationGaveItself) {
  AttachTwo();
  AddOwnAddress(Of(kOwnIp4, kOwnIp6));
  Send(container(), Of(kOwnIp4, kOwnIp6), Of("172.26.64.3", "fd00:26::3"));
  const json drops = DropsOf("billing");
  ASSERT_EQ(drops.size(), 1U) << drops;
  EXPECT_EQ(drops[0].at("key"), "sourceCheck");
  EXPECT_GE(drops[0].at("packets"), 1);
  EXPECT_THAT(drops[0].at("what").get<std::string>(),
              AllOf(HasSubstr(Cat(" from ", Of(kOwnIp4, kOwnIp6), ", the last ")),
                    HasSubstr("; the allocation has 172.26.64.2, fd00:26::2")));
  EXPECT_THAT(drops[0].at("advice").get<std::string>(), HasSubstr("\"sourceCheck\": false"));
  EXPECT_EQ(DropsOf("api"), json::array());
  EXPECT_THAT(RunLine("list job=billing").out, HasSubstr("ok, drops"));
  EXPECT_THAT(RunLine("list job=api").out, Not(HasSubstr("drops")));
  EXPECT_THAT(RunLine("inspect billing").out,
              ::testing::ContainsRegex("Dropped +sourceCheck has dropped "));
  EXPECT_THAT(Warning().at("what").get<std::string>(), HasSubstr("sourceCheck has dropped "));
  EXPECT_THAT(host().Must(Words("nft list counter bridge nomad-bridge sourceCheck")),
              ::testing::ContainsRegex("packets [1-9]"));
  EXPECT_GE(Counted("sourceCheck"), 1U);
  EXPECT_EQ(Counted("inbound") + Counted("ingressPolicy"), 0U);
}

TEST_P(DropsOfFamily, AreThoseFromOutsideToAPortThatIsNotPublished) {
  AttachTwo();
  Send(outside(), "", Of("172.26.64.2", "fd00:26::2"));
  const json drops = DropsOf("billing");
  ASSERT_EQ(drops.size(), 1U) << drops;
  EXPECT_EQ(drops[0].at("key"), "inbound");
  EXPECT_THAT(drops[0].at("what").get<std::string>(),
              StartsWith(Cat("inbound has dropped 1 packet from ", Of(kOutsideIp4, kOutsideIp6))));
  EXPECT_EQ(DropsOf("api"), json::array());
  EXPECT_EQ(Counted("inbound"), 1U);
  EXPECT_NE(Warning(), nullptr);
}

TEST_P(DropsOfFamily, AreThoseBetweenTwoNetworks) {
  AttachBilling(DualStack({{"ingressPolicy", "same-bridge"}}));
  Attach(Config(R"({"name": "other", "bridge": "other0", "ingressPolicy": "same-bridge",
             "ipam": {"ranges": [[{"subnet": "10.97.0.0/24"}], [{"subnet": "fd00:97::/64"}]]}})"),
         As("api", neighbour_, NomadArgs("api", "api-0")));
  Send(neighbour_, "", Of("172.26.64.2", "fd00:26::2"));
  EXPECT_THAT(DropsOf("billing").at(0).at("what").get<std::string>(),
              AllOf(StartsWith("ingressPolicy has dropped 1 packet from 'api-0' ("),
                    HasSubstr("the last ")));
  EXPECT_THAT(DropsOf("api").at(0).at("what").get<std::string>(),
              StartsWith("ingressPolicy has dropped 1 packet to "));
  EXPECT_EQ(Counted("ingressPolicy"), 1U);
}

class DropsOfPorts : public Drops,
                     public ::testing::WithParamInterface<std::tuple<bool, const char*>> {
 protected:
  [[nodiscard]] static const char* Of(const char* ip4, const char* ip6) {
    return std::get<0>(GetParam()) ? ip4 : ip6;
  }
};
INSTANTIATE_TEST_SUITE_P(FamiliesAndBridgeNf,
                         DropsOfPorts,
                         ::testing::Combine(::testing::Bool(), ::testing::Values("0", "1")),
                         [](const auto& each) {
                           return Cat(std::get<0>(each.param) ? "Ipv4" : "Ipv6",
                                      "BridgeNf",
                                      std::get<1>(each.param));
                         });

// A bridge floods lookups of neighbours to all ports. Only those for the port's own address count.
TEST_P(DropsOfPorts, AreThoseBetweenTwoIsolatedPorts) {
  SetBridgeNf(std::get<1>(GetParam()));
  const json isolated = {{"ingressPolicy", "isolated"}};
  AttachTwo(isolated);
  Attach(DualStack(isolated), As("third", AddContainer("third"), NomadArgs("third", "third-0")));
  EXPECT_TRUE(Ping(container(), Of(kBridgeIp4, kBridgeIp6)));
  ExpectNothing();
  Send(neighbour_, "", Of("172.26.64.2", "fd00:26::2"));
  EXPECT_TRUE(Soon([&] { return DropsOf("billing").size() == 1; }));
  EXPECT_THAT(DropsOf("billing").at(0).at("what").get<std::string>(),
              ::testing::ContainsRegex("^ingressPolicy has dropped [1-9] packets? from 'api-0' "));
  EXPECT_THAT(DropsOf("api").at(0).at("what").get<std::string>(),
              ::testing::ContainsRegex("^ingressPolicy has dropped [1-9] packets? to "));
  EXPECT_EQ(DropsOf("third"), json::array());
  EXPECT_GE(Counted("ingressPolicy"), 1U);
}

TEST_F(Drops, AreNotThoseOfProbes) {
  AttachTwo({{"ingressPolicy", "isolated"}});
  Serve(container(), Protocol::kTcp, {"172.26.64.2", "fd00:26::2"}, 80, "web");
  for (const char* const question : {"inspect api -to 172.26.64.2:80",
                                     "inspect api -to [fd00:26::2]:80",
                                     "inspect billing -from 192.0.2.77 -to 172.26.64.2:80"}) {
    EXPECT_THAT(RunLine(question), Exits(1)) << question;
    ExpectNoLookup(neighbour_);
  }
  ExpectNothing();
}

// With promiscMode the answer comes from the allocation itself. The neighbour's kernel resets it.
TEST_F(Drops, AreNotThoseOfANeighbourWhoIsAskedForAPublishedPort) {
  AttachTwo({{"ingressPolicy", "isolated"}, {"promiscMode", true}});
  Serve(container(), Protocol::kTcp, {"::"}, 80, "web");
  static_cast<void>(Output("inspect 8080"));
  ExpectNoLookup(container());
  ExpectNoLookup(neighbour_);
  ExpectNothing();
}

TEST_F(Drops, EndWithTheirHour) {
  AttachTwo();
  AddOwnAddress(kOwnIp4);
  Send(container(), kOwnIp4, "172.26.64.3");
  ASSERT_EQ(DropsOf("billing").size(), 1U);
  host().Must(Words("nft flush set bridge nomad-bridge source_drops_from4"));
  EXPECT_EQ(DropsOf("billing"), json::array());
  EXPECT_GE(Counted("sourceCheck"), 1U) << "a counter does not fall";
}

TEST_F(Drops, AreNotThoseOfAnEarlierHolderOfTheAddress) {
  const json config =
      Config({{"ipam", {{"rangeStart", "172.26.64.2"}, {"rangeEnd", "172.26.64.2"}}}});
  AttachBilling(config);
  Send(outside(), "", "172.26.64.2");
  ASSERT_EQ(DropsOf("billing").size(), 1U);
  DetachBilling(config);
  EXPECT_TRUE(Soon([&] {
    AttachBilling(config);
    const bool has_none = DropsOf("billing").empty();
    DetachBilling(config);
    return has_none;
  })) << "they were older than the attachment after a second";
}

// Then the port and its MAC are noted.
TEST_F(Drops, AreCountedWhenTheSetIsFull) {
  AttachTwo();
  constexpr const char* kFlood = R"(
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
for i in range(5000):
    source = bytes([10, 9, i >> 8, i & 255])
    header = bytes([0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0]) + source + bytes([172, 26, 64, 1])
    s.sendto(header + bytes([0, 9, 0, 9, 0, 8, 0, 0]), ('172.26.64.1', 0))
)";
  container().Must({"python3", "-c", kFlood});
  const json drops = DropsOf("billing");
  ASSERT_EQ(drops.size(), 1U) << drops;
  EXPECT_THAT(drops[0].at("what").get<std::string>(), HasSubstr(" (and 4096 more), the last "));
  EXPECT_GE(Counted("sourceCheck"), 5000U);
}

}  // namespace
}  // namespace nomad_bridge::test
