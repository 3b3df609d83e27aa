// Ours and the reference plugins in one list: each does its part on what the other has made.
#include <algorithm>
#include <filesystem>

#include "tests/support/runtime_world.h"

namespace nomad_bridge::test {
namespace {

struct Mix {
  std::string name;
  // Which of the plugins are ours; the others are the reference's.
  std::vector<std::string> ours;
  std::string version = "1.0.0";
  json interface_plugin = {{"type", "bridge"},
                           {"bridge", "br7"},
                           {"isGateway", true},
                           {"ipMasq", true}};
  const char* policy = "open";  // the firewall's ingressPolicy
};

std::ostream& operator<<(std::ostream& stream, const Mix& mix) {
  return stream << mix.name;
}

class MixedWorld : public RuntimeWorld {
 protected:
  // A directory with ours where they are asked for, and the reference's for all others.
  static std::string MixedFolder(const std::vector<std::string>& ours) {
    EnsureDirectory("/run/mixed");
    for (const std::string& name : ours) {
      std::filesystem::create_symlink(Cat(OurFolder(), '/', name), Cat("/run/mixed/", name));
    }
    return Cat("/run/mixed:", kReferenceFolder);
  }

  static Network MixOf(const Mix& mix) {
    json interface = mix.interface_plugin;
    interface["ipam"] = {{"type", "host-local"},
                         {"ranges", {{{{"subnet", "10.7.0.0/24"}}}, {{{"subnet", "fd00:7::/64"}}}}},
                         {"routes", {{{"dst", "0.0.0.0/0"}}, {{"dst", "::/0"}}}}};
    return {.list = {{"cniVersion", mix.version},
                     {"name", "net"},
                     {"plugins",
                      {interface,
                       {{"type", "firewall"}, {"ingressPolicy", mix.policy}},
                       {{"type", "portmap"}, {"capabilities", {{"portMappings", true}}}}}}},
            .path = MixedFolder(mix.ours)};
  }

  static bool Contains(const std::vector<std::string>& names, const char* name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  }

  Attached Container(const std::string& id, const Node& node, int port) {
    return {.container_id = id, .container = &node, .port_mappings = {Port(port, 80, "tcp")}};
  }
};

class MixedList : public MixedWorld, public ::testing::WithParamInterface<Mix> {};

TEST_P(MixedList, CarriesTrafficAndGoesWithoutATrace) {
  // The reference firewall does not let in what its portmap publishes.
  if (Contains(GetParam().ours, "firewall") && Contains(GetParam().ours, "portmap")) {
    host().Must({"iptables", "-P", "FORWARD", "DROP"});
    host().Must({"ip6tables", "-P", "FORWARD", "DROP"});
  }
  const Network network = MixOf(GetParam());
  Node& early = AddContainer("early");
  Attached first = Container("first", early, 7);
  const Outcome first_add = AddTo(network, first);
  ASSERT_EQ(first_add.exit_code, 0) << first_add;
  MustDelFrom(network, first);
  KillContainer(early);
  const Snapshot before = TakeSnapshot();

  Attached attached = Container("c1", container(), 8080);
  const Outcome add = AddTo(network, attached);
  ASSERT_EQ(add.exit_code, 0) << add;

  const Server page = Server::Start(container(), Protocol::kTcp, "0.0.0.0", 80, "page");
  EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "page");
  EXPECT_EQ(TcpText(host(), "127.0.0.1", 8080), "page");
  EXPECT_TRUE(Ping(container(), kOutsideIp4));
  EXPECT_TRUE(Ping(container(), kOutsideIp6));
  MustDelFrom(network, attached);
  EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
}

// Moved over to ours while it lives, by whichever plugins it was made.
TEST_P(MixedList, IsCheckedAndRemovedByOurs) {
  Network network = MixOf(GetParam());
  if (network.list.at("plugins").at(0).at("type") != "bridge") {
    network.list["plugins"][0]["type"] = "bridge";
    network.list["plugins"][0].update({{"bridge", "br7"}, {"isGateway", true}});
  }
  Network ours = network;
  ours.path = OurFolder();
  Node& early = AddContainer("early");
  Attached first = Container("first", early, 7);
  ASSERT_EQ(AddTo(network, first).exit_code, 0);
  MustDelFrom(network, first);
  KillContainer(early);
  const Snapshot before = TakeSnapshot();
  Attached attached = Container("c1", container(), 8080);
  ASSERT_EQ(AddTo(network, attached).exit_code, 0);
  if (GetParam().version != "0.2.0") {
    MustCheckIn(ours, attached);
  }

  MustDelFrom(ours, attached);
  EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
}

class BehindTheirPtp : public MixedWorld {
 protected:
  // Our firewall and portmap behind the reference ptp.
  static Network Ptp(const char* policy = "open") {
    return MixOf({.name = "ptp",
                  .ours = {"firewall", "portmap"},
                  .interface_plugin = {{"type", "ptp"}, {"ipMasq", true}},
                  .policy = policy});
  }
};

TEST_F(BehindTheirPtp, IngressPolicyHoldsBetweenItsLinks) {
  const Network network = Ptp("same-bridge");
  Node& other = AddContainer("other");
  Attached first = Container("c1", container(), 8080);
  Attached second = Container("c2", other, 9090);
  ASSERT_EQ(AddTo(network, first).exit_code, 0);
  ASSERT_EQ(AddTo(network, second).exit_code, 0);
  EXPECT_FALSE(Ping(container(), AddressOf(second.result)));
  EXPECT_TRUE(Ping(container(), kOutsideIp4));
  MustDelFrom(network, second);
  const std::string table = host().Must({"nft", "list", "table", "inet", "nomad-bridge"});
  EXPECT_THAT(table, Not(HasSubstr("id=c2")));
}

// The path of a namespace is a name, and may go before the container does.
TEST_F(BehindTheirPtp, AContainerLivesAsLongAsItsLinkLeadsSomewhere) {
  const Network network = Ptp();
  Node& living = AddContainer("living");
  Attached first = Container("c1", living, 8080);
  ASSERT_EQ(AddTo(network, first).exit_code, 0);
  std::optional<Process> inside;
  living.Do([&] {
    inside.emplace(Process::Start({.argv = {"sleep", "60"}, .input = "", .variables = {}}));
  });
  living.Kill();
  Attached second = Container("c2", container(), 8080);
  const Outcome add = AddTo(network, second);
  EXPECT_EQ(ErrorCode(add), 102) << add;
}

std::vector<Mix> Mixes() {
  const json ptp = {{"type", "ptp"}, {"ipMasq", true}};
  return {{"OurRulesBehindTheirBridge", {"firewall", "portmap"}},
          {"OurRulesAndLeasesBehindTheirBridge", {"host-local", "firewall", "portmap"}},
          {"OurLeasesOnly", {"host-local"}},
          {"TheirRulesBehindOurBridge", {"bridge"}},
          {"OurPortsOnly", {"portmap"}},
          {"OurFirewallOnly", {"firewall"}},
          {"OurRulesBehindTheirPtp", {"firewall", "portmap"}, "1.0.0", ptp},
          {"OurLeasesUnderTheirPtp", {"host-local"}, "1.0.0", ptp},
          // A result without interfaces: their location follows from the node's routes.
          {"OurRulesBehindTheirOldBridge", {"firewall", "portmap"}, "0.2.0"},
          {"OurRulesBehindTheirOldPtp", {"firewall", "portmap"}, "0.2.0", ptp}};
}

INSTANTIATE_TEST_SUITE_P(Mixes, MixedList, ::testing::ValuesIn(Mixes()), kNameOf);

}  // namespace
}  // namespace nomad_bridge::test
