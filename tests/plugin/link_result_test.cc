// The result: in every version's shape, true to the kernel, with prevResult passed through.
#include "tests/support/world.h"

namespace nomad_bridge::test {
namespace {

class Result : public World {
 protected:
  std::string MacOf(const Node& node, const std::string& name) {
    return LinkOn(node, name).at("address");
  }
  // The three interfaces as the kernel has them.
  json Interfaces(bool with_mtu) {
    const std::string veth = PortsOf("nomad").at(0).at("ifname");
    json interfaces = {
        {{"name", "nomad"}, {"mac", MacOf(host(), "nomad")}},
        {{"name", veth}, {"mac", MacOf(host(), veth)}},
        {{"name", "eth0"}, {"mac", MacOf(container(), "eth0")}, {"sandbox", container().path()}}};
    if (with_mtu) {
      interfaces[0]["mtu"] = LinkOn(host(), "nomad").at("mtu");
      interfaces[1]["mtu"] = LinkOn(host(), veth).at("mtu");
      interfaces[2]["mtu"] = LinkOn(container(), "eth0").at("mtu");
    }
    return interfaces;
  }
  static json InVersion(const std::string& version, const char* more = "{}") {
    json config = DualStack(more);
    config["cniVersion"] = version;
    return config;
  }
};

class ResultBefore030 : public Result, public ::testing::WithParamInterface<const char*> {};

TEST_P(ResultBefore030, HasOneAddressPerFamily) {
  const json result = Attach(InVersion(GetParam()));

  json expected = json::parse(R"({
      "ip4": {"ip": "172.26.64.2/20", "gateway": "172.26.64.1",
              "routes": [{"dst": "0.0.0.0/0", "gw": "172.26.64.1"}]},
      "ip6": {"ip": "fd00:26::2/64", "gateway": "fd00:26::1",
              "routes": [{"dst": "::/0", "gw": "fd00:26::1"}]},
      "dns": {}})");
  expected["cniVersion"] = GetParam();
  EXPECT_EQ(result, expected);
  EXPECT_THAT(AddressesOn(container(), "eth0"),
              UnorderedElementsAre("172.26.64.2/20", "fd00:26::2/64"));
}

INSTANTIATE_TEST_SUITE_P(Versions, ResultBefore030, ::testing::Values("0.1.0", "0.2.0"));

class ResultSince030 : public Result, public ::testing::WithParamInterface<const char*> {};

TEST_P(ResultSince030, IsTrueToTheKernel) {
  const std::string version = GetParam();
  const bool has_version = version < "1.0.0";

  const json result = Attach(InVersion(version, R"({"mtu": 1400})"));

  json ips = json::parse(R"([
      {"interface": 2, "address": "172.26.64.2/20", "gateway": "172.26.64.1"},
      {"interface": 2, "address": "fd00:26::2/64", "gateway": "fd00:26::1"}])");
  json expected = {{"cniVersion", version}};
  if (has_version) {
    ips[0]["version"] = "4";
    ips[1]["version"] = "6";
    expected["dns"] = json::object();
  }
  expected["interfaces"] = Interfaces(version == "1.1.0");
  expected["ips"] = ips;
  expected["routes"] = json::parse(
      R"([{"dst": "0.0.0.0/0", "gw": "172.26.64.1"}, {"dst": "::/0", "gw": "fd00:26::1"}])");
  EXPECT_EQ(result, expected);
}

INSTANTIATE_TEST_SUITE_P(Versions,
                         ResultSince030,
                         ::testing::Values("0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"));

// ---- prevResult

TEST_F(Result, IncludesPrevResultWithIndicesMoved) {
  const json config = Config(R"({"prevResult": {
      "cniVersion": "1.1.0",
      "interfaces": [{"name": "lo", "mac": "00:00:00:00:00:00", "sandbox": "/x"},
                     {"name": "net1", "mac": "02:00:00:00:00:09", "mtu": 9000, "sandbox": "/x",
                      "socketPath": "/s", "pciID": "0000:00:1f.0"}],
      "ips": [{"interface": 0, "address": "127.0.0.1/8"},
              {"interface": 1, "address": "10.0.0.9/24", "gateway": "10.0.0.1"},
              {"address": "10.0.0.10/24"}],
      "routes": [{"dst": "10.8.0.0/16", "gw": "10.0.0.1", "mtu": 1200, "table": 7, "scope": 0}],
      "dns": {"nameservers": ["192.0.2.53"]}}})");

  const json result = Attach(config);

  json interfaces = Interfaces(true);
  interfaces.push_back({{"name", "lo"}, {"mac", "00:00:00:00:00:00"}, {"sandbox", "/x"}});
  interfaces.push_back({{"name", "net1"},
                        {"mac", "02:00:00:00:00:09"},
                        {"mtu", 9000},
                        {"sandbox", "/x"},
                        {"socketPath", "/s"},
                        {"pciID", "0000:00:1f.0"}});
  EXPECT_EQ(result.at("interfaces"), interfaces);
  EXPECT_EQ(result.at("ips"), json::parse(R"([
      {"interface": 2, "address": "172.26.64.2/20", "gateway": "172.26.64.1"},
      {"interface": 3, "address": "127.0.0.1/8"},
      {"interface": 4, "address": "10.0.0.9/24", "gateway": "10.0.0.1"},
      {"address": "10.0.0.10/24"}])"));
  EXPECT_EQ(result.at("routes"), json::parse(R"([
      {"dst": "0.0.0.0/0", "gw": "172.26.64.1"},
      {"dst": "10.8.0.0/16", "gw": "10.0.0.1", "mtu": 1200, "table": 7, "scope": 0}])"));
  EXPECT_EQ(At(result, "/dns/nameservers/0"), "192.0.2.53");
  // It is passed on, not done: that was the other plugin's work.
  EXPECT_EQ(AddressesOn(container(), "eth0"), std::vector<std::string>{"172.26.64.2/20"});
  EXPECT_EQ(RoutesTo(container(), "10.8.0.0/16"), json::array());
}

TEST_F(Result, PassesCheckWithPrevResult) {
  const json config = Config(R"({"prevResult": {
      "cniVersion": "1.1.0", "interfaces": [{"name": "lo", "sandbox": "/x"}],
      "ips": [{"interface": 0, "address": "127.0.0.1/8"}]}})");
  MustCheck(config, Attach(config));
}

TEST_F(Result, RefusesPrevResultWithAnInvalidIndex) {
  for (const int index : {1, -1, 99}) {
    EXPECT_THAT(
        MustRefuse(7,
                   Config({{"prevResult",
                            {{"cniVersion", "1.1.0"},
                             {"interfaces", {{{"name", "lo"}}}},
                             {"ips", {{{"address", "127.0.0.1/8"}, {"interface", index}}}}}}})),
        Msg(HasSubstr("prevResult.ips[0].interface")));
  }
}

}  // namespace
}  // namespace nomad_bridge::test
