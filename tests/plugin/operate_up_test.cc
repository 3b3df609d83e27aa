// nomad-bridge up: what the allocations of a network share is there before the first of them.
#include "tests/plugin/cli_world.h"
#include "tests/support/mounted.h"

namespace nomad_bridge::test {
namespace {

class Up : public CliWorld {
 protected:
  static constexpr const char* kConfigs = "/run/configs";

  // A file with the plugins of one list.
  static std::string Write(const std::string& name, const std::vector<json>& plugins) {
    fs::create_directories(kConfigs);
    std::string path = Cat(kConfigs, '/', name);
    json list = {{"cniVersion", "1.1.0"}, {"name", plugins.front().at("name")}};
    for (json plugin : plugins) {
      plugin.erase("name");
      plugin.erase("cniVersion");
      list["plugins"].push_back(std::move(plugin));
    }
    std::ofstream(path) << list;
    return path;
  }
};

TEST_F(Up, LetsAServiceBindToTheBridgesAddressBeforeTheFirstAllocation) {
  const std::string path = Write("nomad.conflist", {DualStack()});
  EXPECT_EQ(Output(Cat("up ", path)),
            Cat("network 'nomad' is up: nomad ", kBridgeIp4, "/20 ", kBridgeIp6, "/64\n"));
  Serve(host(), Protocol::kTcp, {kBridgeIp4, kBridgeIp6}, 53, "early");
  Attach(DualStack());
  EXPECT_EQ(TcpText(container(), kBridgeIp4, 53), "early");
  EXPECT_EQ(TcpText(container(), kBridgeIp6, 53), "early");
}

TEST_F(Up, CreatesWhatTheFirstAllocationWouldCreate) {
  const json config = DualStack();
  UseOnce(config);
  host().Shell(
      "ip link delete nomad; nft flush ruleset; "
      "sysctl -qw net.ipv4.ip_forward=0 net.ipv6.conf.all.forwarding=0");
  EXPECT_THAT(RunLine(Cat("up ", Write("nomad.conflist", {config}))).out, HasSubstr("is up"));
  EXPECT_EQ(host().Sysctl("net/ipv4/ip_forward"), "1");
  EXPECT_EQ(host().Sysctl("net/ipv6/conf/all/forwarding"), "1");
  EXPECT_EQ(AddressesOn(host(), "nomad"),
            (std::vector<std::string>{Cat(kBridgeIp4, "/20"), Cat(kBridgeIp6, "/64")}));
  EXPECT_THAT(RulesWith("nomad-bridge: accepted"), SizeIs(1));
  EXPECT_THAT(RulesWith("nomad-bridge: accepted", "ip6tables"), SizeIs(1));
  EXPECT_THAT(host().Must({"nft", "list", "tables"}),
              AllOf(HasSubstr("inet nomad-bridge"), HasSubstr("bridge nomad-bridge")));
}

// Made before the network service makes it, the node's own bridge would be ours for ever.
TEST_F(Up, DoesNotCreateABridgeWithoutAGateway) {
  const std::string path =
      Write("lan.conflist", {Config({{"name", "lan"}, {"bridge", "br0"}, {"isGateway", false}})});
  const std::string left_out =
      "network 'lan' is left out: the bridge 'br0' gets no gateway of ours\n";
  EXPECT_THAT(RunLine(Cat("up ", path)),
              Exits(0, Out(left_out), Err(HasSubstr("bridge 'br0' of network 'lan' is missing"))));
  EXPECT_FALSE(HasInterface(host(), "br0"));

  host().Must(Words("ip link add br0 type bridge"));
  EXPECT_EQ(Output(Cat("up ", path)), left_out);
}

TEST_F(Up, SaysInADryRunWhatItWouldCreate) {
  json portmap = PortmapEntry();
  portmap["name"] = "nomad";
  const std::string path = Write("nomad.conflist", {DualStack(), portmap});
  const Snapshot before = TakeSnapshot();
  EXPECT_THAT(RunLine(Cat("up -n ", path)),
              Exits(1,
                    Out(AllOf(HasSubstr("network 'nomad': bridge 'nomad' is missing\n"),
                              Not(HasSubstr("bridge ''"))))));
  EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
  EXPECT_THAT(Output(Cat("up ", path)), HasSubstr("is up"));
  EXPECT_THAT(Output(Cat("up -n ", path)), HasSubstr("network 'nomad' is up: nomad "));
}

TEST_F(Up, RefusesAPathThatIsNoConfig) {
  std::ofstream("/run/README") << "{}";
  for (const char* const path : {"/nowhere", "/nowhere/nomad.conflist", "/run/README"}) {
    EXPECT_THAT(RunLine(Cat("up ", path)),
                Exits(2, Err(HasSubstr(Cat("'", path, "' is no directory, and no file ")))));
  }
}

TEST_F(Up, SaysTheSameInJson) {
  Write("10-nomad.conflist", {DualStack()});
  Write("20-lan.conflist", {Config({{"name", "lan"}, {"bridge", "br0"}, {"isGateway", false}})});
  host().Must(Words("ip link add br0 type bridge"));
  std::ofstream(Cat(kConfigs, "/30-broken.conflist")) << "{";
  const Outcome look = RunLine(Cat("up -json -n ", kConfigs));
  EXPECT_EQ(look.exit_code, 1);
  EXPECT_EQ(look.json.at("dryRun"), true);
  EXPECT_EQ(At(look.json, "/networks/0/state"), "to make");
  EXPECT_THAT(At(look.json, "/networks/0/missing"), Contains("bridge 'nomad' is missing"));

  const Outcome outcome = RunLine(Cat("up -json ", kConfigs));
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(At(outcome.json, "/networks/0"),
            (json{{"network", "nomad"},
                  {"file", "/run/configs/10-nomad.conflist"},
                  {"state", "up"},
                  {"bridge", "nomad"},
                  {"addresses", {Cat(kBridgeIp4, "/20"), Cat(kBridgeIp6, "/64")}},
                  {"missing", json::array()}}));
  EXPECT_EQ(At(outcome.json, "/networks/1/state"), "left out");
  EXPECT_EQ(At(outcome.json, "/failed/0/file"), "/run/configs/30-broken.conflist");
  EXPECT_EQ(outcome.json.at("warnings"), json::array());

  host().Nft("table inet mine { chain f { type filter hook forward priority 10; policy drop; }; }");
  const json drop = At(RunLine(Cat("up -json ", kConfigs)).json, "/warnings/0");
  EXPECT_EQ(drop.at("what"), "chain f of table inet mine (policy drop) comes after ours and drops");
}

TEST_F(Up, MayBeRepeated) {
  const std::string path = Write("nomad.conflist", {DualStack()});
  EXPECT_EQ(RunLine(Cat("up ", path)).exit_code, 0);
  Attach(Publish({Port(8080, 80)}, DualStack()));
  Serve(container(), Protocol::kTcp, {"0.0.0.0"}, 80, "page");
  const Snapshot before = TakeHostSnapshot();
  EXPECT_EQ(RunLine(Cat("up ", path)).exit_code, 0);
  EXPECT_TRUE(Unchanged(before, TakeHostSnapshot()));
  EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "page");
}

TEST_F(Up, BringsUpEveryNetworkOfADirectoryAndSkipsBadOnes) {
  Write("10-nomad.conflist", {Config()});
  Write("20-bad.conflist", {Config(R"({"name": "bad", "bridge": "br-bad", "mtu": 1})")});
  std::ofstream(Cat(kConfigs, "/30-broken.conflist")) << "{";
  Write("40-foreign.conflist", {json{{"name", "foreign"}, {"type", "macvlan"}}});
  Write("50-chained.conflist",
        {Config(R"({"name": "other", "type": "bridge", "bridge": "br-other", "isGateway": true,
                    "ipam": {"type": "host-local", "subnet": "10.8.0.0/24"}})"),
         json{{"name", "other"}, {"type", "portmap"}}});
  std::ofstream(Cat(kConfigs, "/README")) << "not a config";

  EXPECT_THAT(RunLine(Cat("up ", kConfigs)),
              Exits(1,
                    Out("network 'nomad' is up: nomad 172.26.64.1/20\n"
                        "network 'other' is up: br-other 10.8.0.1/24\n"),
                    Err(AllOf(HasSubstr("/run/configs/20-bad.conflist"),
                              HasSubstr("invalid 'mtu': 1"),
                              HasSubstr("/run/configs/30-broken.conflist")))));

  EXPECT_FALSE(HasInterface(host(), "br-bad"));
}

// podman's lists, say, are of plugins that have the other names that we go by. One with a mistake
// may be its runtime's to repair, or ours.
class SharedDirectory : public Up, public ::testing::WithParamInterface<const char*> {
 protected:
  SharedDirectory() {
    fs::create_directories("/run/etc/cni/net.d");
    fs::create_directories("/run/etc/nomad.d");
    std::ofstream("/run/etc/nomad.d/client.hcl") << GetParam();
    Put("10-podman.conflist",
        {{"name", "podman"},
         {"plugins",
          {{{"type", "bridge"},
            {"bridge", "cni-podman0"},
            {"isGateway", true},
            {"ipam", {{"type", "host-local"}, {"subnet", "10.88.0.0/16"}}}},
           PortmapEntry()}}});
    Put("20-ours.conflist", {{"name", "nomad"}, {"plugins", {{{"type", "nomad-bridge"}}}}});
    std::ofstream("/run/etc/cni/net.d/30-theirs.conf") << R"({"name": "half)";
  }
  static void Put(const std::string& name, json list) {
    list["cniVersion"] = "1.0.0";
    std::ofstream(Cat("/run/etc/cni/net.d/", name)) << list;
  }

  Mounted opt_{{"-t", "tmpfs", "tmpfs"}, "/opt"};
};

TEST_P(SharedDirectory, IsSearchedOnlyForListsWithOurType) {
  const Mounted etc({"--bind", "/run/etc"}, "/etc");
  for (const char* const line : {"up", "up /etc/cni/net.d"}) {
    EXPECT_THAT(RunLine(line), Exits(0, Out("network 'nomad' is up: nomad 172.26.64.1/20\n")));
  }
  const auto warns = HasSubstr("no network is configured in /opt/cni/config, where Nomad looks");
  const bool is_for_nomad = !std::string_view(GetParam()).empty();
  EXPECT_NE(::testing::Value(RunLine("up").err, warns), is_for_nomad);
  const Variables without_names = {{"CNI_PATH", std::nullopt}};
  EXPECT_NE(::testing::Value(Run(Words("doctor conflist.valid"), without_names).out, warns),
            is_for_nomad);
  EXPECT_FALSE(HasInterface(host(), "cni-podman0"));
  host().Must(Words("ip link add cni-podman0 type bridge"));
  EXPECT_THAT(RunLine("down podman"), Exits(1, Err(HasSubstr("no network config names"))));
  EXPECT_TRUE(HasInterface(host(), "cni-podman0"));
  EXPECT_THAT(RunLine("doctor").out, Not(AnyOf(HasSubstr("podman"), HasSubstr("30-theirs"))));

  std::ofstream("/run/etc/cni/net.d/40-ours.conflist")
      << R"({"plugins": [{"type": "nomad-bridge"})";
  EXPECT_THAT(RunLine("up"), Exits(1, Err(HasSubstr("what '/etc/cni/net.d/40-ours.conflist'"))));
  EXPECT_THAT(RunLine("doctor").out, HasSubstr("config check /etc/cni/net.d/40-ours.conflist"));
}

INSTANTIATE_TEST_SUITE_P(OfNomad,
                         SharedDirectory,
                         ::testing::Values("", "client { cni_config_dir = \"/etc/cni/net.d/\" }"),
                         [](const auto& each) { return each.index == 0 ? "Unset" : "Set"; });

// The unit is enabled before the first conflist is written.
TEST_F(Up, IsFineWithoutAnyConfig) {
  fs::create_directories("/run/empty");
  EXPECT_THAT(RunLine("up /run/empty"), Exits(0, Err(HasSubstr("no network config yet"))));
  const Mounted opt({"-t", "tmpfs", "tmpfs"}, "/opt");
  const Mounted etc({"-t", "tmpfs", "tmpfs"}, "/etc");
  const auto says_so = HasSubstr("no network is configured");
  EXPECT_THAT(RunLine("up"), Exits(0, Err(says_so)));
  EXPECT_THAT(Run(Words("doctor conflist.valid"), {{"CNI_PATH", std::nullopt}}),
              Exits(0, Out(says_so)));
  // With the reference plugins' names, Nomad's own mode needs none.
  fs::create_directories("/opt/cni/bin");
  for (const char* const name : {"nomad-bridge", "bridge"}) {
    fs::create_symlink(BinaryUnderTest(), Cat("/opt/cni/bin/", name));
  }
  EXPECT_THAT(Run(Words("doctor conflist.valid"), {{"CNI_PATH", std::nullopt}}),
              Exits(0, Out(Not(says_so))));
}

}  // namespace
}  // namespace nomad_bridge::test
