// Each reference name by itself: what it prints, returns and leaves behind.
#include "tests/support/world.h"

namespace nomad_bridge::test {
namespace {

class ReferenceName : public World {
 protected:
  // A list of one plugin.
  static Network Only(json plugin, const std::string& version = "1.0.0") {
    return ByOurs(ListOf({std::move(plugin)}, "net", version));
  }
  static json Bridge(const json& more = json::object()) {
    json plugin = {{"type", "bridge"},
                   {"bridge", "br7"},
                   {"isGateway", true},
                   {"ipam", {{"type", "host-local"}, {"subnet", "10.7.0.0/24"}}}};
    plugin.update(more);
    return plugin;
  }
  Attached Container() { return As("c1", container()); }
};

class EveryName : public ReferenceName, public ::testing::WithParamInterface<const char*> {};

TEST_P(EveryName, PrintsTheLineThatNomadReads) {
  const Command command{.argv = {Cat(OurDirectory(), "/", GetParam())},
                        .inherits_environment = false};
  EXPECT_THAT(Execute(command),
              Exits(0, Out(""), Err(StartsWith(Cat("CNI ", GetParam(), " plugin v2.0.0\n")))));
}

TEST_P(EveryName, AnswersVersionAndStatus) {
  const Network network = Only({{"type", GetParam()}}, "1.1.0");
  EXPECT_EQ(RunEntry("VERSION", network, 0, Container(), nullptr).json.at("cniVersion"), "1.1.0");
  MustRunEntry("STATUS", network, 0, Container(), nullptr);
}

TEST_P(EveryName, DelWithoutAnAttachmentLeavesNothing) {
  container().Must({"ip", "link", "set", "lo", "up"});
  const Snapshot before = TakeSnapshot().Of({"host ", "outside ", "file "});
  const Network network = Only({{"type", GetParam()}});
  for (int i = 0; i < 2; ++i) {
    MustRunEntry("DEL", network, 0, Container(), nullptr);
  }
  EXPECT_TRUE(Unchanged(before, TakeSnapshot().Of({"host ", "outside ", "file "})));
}

TEST_P(EveryName, RefusesTheHostsOwnNamespace) {
  Command command = PluginCommand("ADD",
                                  R"({"cniVersion":"1.0.0","name":"net","type":"x","prevResult":{},
            "ipam":{"type":"host-local","subnet":"10.7.0.0/24"}})",
                                  {{"CNI_NETNS", "/proc/self/ns/net"}},
                                  GetParam());
  EXPECT_THAT(Execute(command), Fails(8));
}

INSTANTIATE_TEST_SUITE_P(
    PluginTypeNames,
    EveryName,
    ::testing::Values("bridge", "host-local", "firewall", "portmap", "loopback"));

// ---- bridge

TEST_F(ReferenceName, BridgeMakesNoRulesUnlessConfigured) {
  const json result = MustAdd(Only(Bridge()), Container()).result;
  EXPECT_EQ(host().Must({"nft", "list", "ruleset"}), "");
  EXPECT_TRUE(Ping(container(), "10.7.0.1"));
  EXPECT_EQ(AddressesIn(result).at(0), "10.7.0.2/24");
  EXPECT_FALSE(result.contains("routes")) << "no default gateway unless asked for";
}

TEST_F(ReferenceName, BridgeMasqueradesIfAskedTo) {
  MustAdd(Only(Bridge({{"ipMasq", true}, {"isDefaultGateway", true}})), Container());
  const Server page = Server::Start(outside(), Protocol::kTcp, "0.0.0.0", 80, "page");
  EXPECT_EQ(Ask(container(), {.to = kOutsideIp4, .port = 80}), (Reply{"page", kHostIp4}));
  EXPECT_NE(host().Run({"nft", "list", "table", "ip", "filter"}).exit_code, 0)
      << "static rules are the firewall's";
}

TEST_F(ReferenceName, BridgeDropsPrevResultAsTheReferenceDoes) {
  const json before = {{"cniVersion", "1.0.0"}, {"interfaces", {{{"name", "x"}}}}};
  const Outcome add = MustRunEntry("ADD", Only(Bridge()), 0, Container(), before);
  EXPECT_EQ(add.json.at("interfaces").size(), 3U);
  EXPECT_EQ(add.json.at("interfaces").at(0).at("name"), "br7");
}

TEST_F(ReferenceName, BridgeWithoutIpamIsABareLink) {
  json plugin = Bridge();
  plugin.erase("ipam");
  plugin.erase("isGateway");
  const Network network = Only(plugin);
  const Snapshot before = TakeSnapshot();

  const Attached attached = MustAdd(network, Container());

  EXPECT_FALSE(attached.result.contains("ips"));
  EXPECT_EQ(attached.result.at("interfaces").at(2).at("name"), "eth0");
  EXPECT_EQ(container().Json({"ip", "-j", "link", "show", "eth0"}).at(0).at("operstate"), "UP");
  MustCheckIn(network, attached);
  MustDelFrom(network, attached);
  host().Must({"ip", "link", "delete", "br7"});
  EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
}

TEST_F(ReferenceName, BridgeOfAnOldVersionNeedsAnAddress) {
  json plugin = Bridge();
  plugin.erase("ipam");
  Attached attached = Container();
  EXPECT_THAT(AddTo(Only(plugin, "0.2.0"), attached),
              MsgAndDetails(HasSubstr("cannot convert: no valid IP addresses")));
  EXPECT_EQ(container().Run({"ip", "link", "show", "eth0"}).exit_code, 1) << "and all is undone";
}

// ---- host-local

TEST_F(ReferenceName, HostLocalAnswersAddressesRoutesAndDns) {
  host().Must({"sh", "-c", "echo nameserver 192.0.2.53 > /run/resolv.conf"});
  const Network network = Only({{"type", "host-local"},
                                {"ipam",
                                 {{"type", "host-local"},
                                  {"subnet", "10.7.0.0/24"},
                                  {"resolvConf", "/run/resolv.conf"},
                                  {"routes", {{{"dst", "0.0.0.0/0"}}}}}}});

  const Attached attached = MustAdd(network, Container());

  EXPECT_EQ(
      attached.result,
      json::parse(R"({"cniVersion":"1.0.0","ips":[{"address":"10.7.0.2/24","gateway":"10.7.0.1"}],
                            "routes":[{"dst":"0.0.0.0/0"}],"dns":{"nameservers":["192.0.2.53"]}})"));
  EXPECT_EQ(FindFile("/var/lib/cni/networks/net/10.7.0.2").value_or(""), "c1\r\neth0");
  MustCheckIn(network, attached);
  MustDelFrom(network, attached);
  EXPECT_FALSE(FindFile("/var/lib/cni/networks/net/10.7.0.2").has_value());
  EXPECT_THAT(CheckIn(network, attached),
              MsgAndDetails(HasSubstr("Failed to find address added by container c1")));
}

TEST_F(ReferenceName, HostLocalGivesTheSameAddressAgainAndAStaleOneWhenFull) {
  const Network network =
      Only({{"type", "host-local"}, {"ipam", {{"type", "host-local"}, {"subnet", "10.7.0.0/30"}}}});
  Node& doomed = AddContainer("doomed");
  const Attached first = MustAdd(network, As("first", doomed));
  EXPECT_EQ(MustAdd(network, first).result, first.result);
  Attached second = Container();
  EXPECT_EQ(ErrorCode(AddTo(network, second)), 101);

  doomed.Kill();

  MustAdd(network, second);
}

// ---- firewall, portmap

TEST_F(ReferenceName, RulesNeedAPrevResult) {
  for (const char* const name : {"firewall", "portmap"}) {
    EXPECT_THAT(RunEntry("ADD", Only({{"type", name}}), 0, Container(), nullptr),
                Fails(7, MsgAndDetails(HasSubstr("prevResult"))));
  }
}

// Policies select by labels: a mistake must not take them away. The reference never looks at them.
TEST_F(ReferenceName, OnlyFirewallRefusesUntrustedLabels) {
  const json before =
      json::parse(R"({"cniVersion":"1.0.0","interfaces":[],"ips":[{"address":"10.7.0.9/24"}]})");
  for (const char* const args :
       {"IgnoreUnknown=true;NOMAD_NAMESPACE=dev;nomad_namespace=prod", "NOMAD_NAMESPACE=dev;x"}) {
    Attached container = Container();
    container.args = args;
    EXPECT_THAT(RunEntry("ADD", Only({{"type", "firewall"}}), 0, container, before),
                Fails(4, Msg(HasSubstr("CNI_ARGS"))));
    EXPECT_THAT(RunEntry("DEL", Only({{"type", "firewall"}}), 0, container, before), Exits(0));
    MustRunEntry("ADD", Only({{"type", "portmap"}}), 0, container, before);
    MustRunEntry("DEL", Only({{"type", "portmap"}}), 0, container, before);
  }
}

TEST_F(ReferenceName, RulesPassOnPrevResultWithUnknownFields) {
  const json before = json::parse(
      R"({"cniVersion":"1.0.0","interfaces":[{"name":"x","mac":"02:00:00:00:00:01","mtu":1400,"socketPath":"/s"}],
          "ips":[{"address":"10.7.0.9/24"}],"routes":[{"dst":"0.0.0.0/0","mtu":1400}],"more":{"a":[1]}})");
  for (const char* const name : {"firewall", "portmap", "loopback"}) {
    SCOPED_TRACE(name);
    const Outcome add = MustRunEntry("ADD", Only({{"type", name}}), 0, Container(), before);
    if (std::string(name) != "loopback") {
      EXPECT_EQ(add.json, before);
    }
    EXPECT_EQ(add.json.at("ips"), before.at("ips"));
  }
}

TEST_F(ReferenceName, RulesAreRefusedOnceTheInterfaceHasBeenRemoved) {
  const Network network = ByOurs(ListOf({Bridge(), {{"type", "firewall"}}, PortmapEntry()}));
  Attached attached = Container();
  attached.port_mappings = {Port(8080, 80)};
  const json result = MustRunEntry("ADD", network, 0, attached, nullptr).json;
  MustRunEntry("DEL", network, 0, attached, nullptr);
  for (const std::size_t index : {1U, 2U}) {
    EXPECT_THAT(
        RunEntry("ADD", network, index, attached, result),
        Fails(103, Msg("interface 'eth0' of container 'c1' has been removed since its ADD")));
  }
  EXPECT_EQ(host().Must({"nft", "list", "ruleset"}), "");
  EXPECT_THAT(Entries("/run/nomad-bridge/net"), IsEmpty());
}

TEST_F(ReferenceName, PortmapWithoutPortsTouchesNothing) {
  const Snapshot before = TakeSnapshot();
  const json result = {{"cniVersion", "1.0.0"}, {"ips", {{{"address", "10.7.0.9/24"}}}}};
  const Network network = Only(PortmapEntry());
  MustRunEntry("ADD", network, 0, Container(), result);
  EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
  MustRunEntry("CHECK", network, 0, Container(), result);
}

TEST_F(ReferenceName, PortmapLeavesOutAPortOfAFamilyTheContainerLacks) {
  const Network network = ByOurs(ListOf({Bridge(), PortmapEntry()}));
  Attached attached = Container();
  attached.port_mappings = {Port(8080, 80), Port(9090, 80, "tcp", kHostIp6)};

  EXPECT_THAT(AddTo(network, attached), Exits(0, Err(HasSubstr("not publishing tcp port 9090"))));

  EXPECT_THAT(host().Must({"nft", "list", "map", "inet", "nomad-bridge", "port4"}),
              HasSubstr("8080"));
  MustCheckIn(network, attached);
  attached.port_mappings.erase(0);
  MustCheckIn(network, attached);
}

// /var/run for /run, or the path of an earlier boot.
TEST_F(ReferenceName, RulesFindTheInterfaceByNameNotByPath) {
  const json before = json::parse(
      R"({"cniVersion":"1.0.0","interfaces":[{"name":"veth7"},{"name":"eth0","sandbox":"/var/run/netns/container"}],
          "ips":[{"interface":1,"address":"10.7.0.9/24"}]})");
  Attached attached = Container();
  attached.port_mappings = {Port(8080, 80)};
  const Network network = ByOurs(ListOf({PortmapEntry(), {{"type", "firewall"}}}));
  for (const std::size_t entry : {0U, 1U}) {
    MustRunEntry("ADD", network, entry, attached, before);
  }
  const std::string table = host().Must({"nft", "list", "table", "inet", "nomad-bridge"});
  EXPECT_THAT(table, HasSubstr("tcp . 8080"));
  EXPECT_THAT(table, HasSubstr("10.7.0.9 comment"));
}

// The reference host-local does not look at ipam.type: another IPAM plugin may run it.
TEST_F(ReferenceName, HostLocalIgnoresTheTypeThatTheConfigNames) {
  const std::string directory = OurDirectory();
  WriteProgram(Cat(directory, "/wrapper"), Cat("#!/bin/sh\nexec ", directory, "/host-local\n"));
  const Network network =
      Only({{"type", "host-local"}, {"ipam", {{"type", "wrapper"}, {"subnet", "10.6.0.0/24"}}}});
  const Attached attached = MustAdd(network, Container());
  EXPECT_EQ(AddressesIn(attached.result).at(0), "10.6.0.2/24");
  MustCheckIn(network, attached);
  MustDelFrom(network, attached);
  EXPECT_FALSE(FindFile("/var/lib/cni/networks/net/10.6.0.2").has_value());
}

TEST_F(ReferenceName, AnInterfaceNameIsUtf8) {
  Attached attached = Container();
  attached.ifname = "\xff\xfe";
  EXPECT_EQ(ErrorCode(AddTo(Only(Bridge()), attached)), 4);
}

// Wall clocks are set, also while containers live.
TEST_F(ReferenceName, ALivingContainerKeepsALeaseThatLooksOlderThanTheBoot) {
  const Network network =
      Only(Bridge({{"ipam", {{"type", "host-local"}, {"subnet", "10.7.0.0/30"}}}}));
  MustAdd(network, Container());
  host().Must({"touch", "-d", "-30 days", "/var/lib/cni/networks/net/10.7.0.2"});
  Attached second = As("c2", AddContainer("second"));
  EXPECT_EQ(ErrorCode(AddTo(network, second)), 101);
  EXPECT_TRUE(FindFile("/var/lib/cni/networks/net/10.7.0.2").has_value());
}

// ---- loopback

TEST_F(ReferenceName, LoopbackBringsLoUpAndReportsItsAddresses) {
  const Network network = Only({{"type", "loopback"}});

  const Attached attached = MustAdd(network, Container());

  EXPECT_EQ(
      attached.result,
      json::parse(R"({"cniVersion":"1.0.0","interfaces":[{"name":"lo","mac":"00:00:00:00:00:00",
                "sandbox":"/run/netns/container"}],"ips":[{"interface":0,"address":"127.0.0.1/8"},
                {"interface":0,"address":"::1/128"}]})"));
  MustCheckIn(network, attached);
  container().Must({"ip", "link", "set", "lo", "down"});
  EXPECT_THAT(MsgAndDetails(CheckIn(network, attached)), HasSubstr("'lo' is down"));
  MustDelFrom(network, attached);
}

// CNI_NETNS may lead to another container by then, whose process has the number of one that ended.
TEST_F(ReferenceName, LoopbackLeavesLoUpAtItsDel) {
  const Network network = Only({{"type", "loopback"}});
  const Attached attached = MustAdd(network, Container());
  MustDelFrom(network, attached);
  EXPECT_THAT(container().Must({"ip", "link", "show", "lo"}), HasSubstr("LOOPBACK,UP"));
  MustCheckIn(network, attached);
}

TEST_F(ReferenceName, LoopbackRefusesLoWithAForeignAddress) {
  container().Must({"ip", "address", "add", "10.7.0.9/24", "dev", "lo"});
  Attached attached = Container();
  EXPECT_THAT(AddTo(Only({{"type", "loopback"}}), attached),
              MsgAndDetails(HasSubstr("10.7.0.9/24")));
}

}  // namespace
}  // namespace nomad_bridge::test
