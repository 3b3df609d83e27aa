// The same lists by the reference plugins and by ours, one after the other in the same world:
// results compared as JSON (generated names, MACs and order aside), then who reaches whom. What
// differs on purpose is in docs/differences.md.
#include "tests/support/world.h"

namespace nomad_bridge::test {
namespace {

struct Case : Named {
  json bridge;              // its keys beside type and name
  json firewall = nullptr;  // null: not in the list
  json portmap = nullptr;   // null: not in the list
  std::string version = "1.0.0";
  bool alone = false;  // there is one address only
};

json Ipam(const char* text) {
  return json::parse(text);
}

std::vector<Case> Cases() {
  const json v4 = {{"ipam", Ipam(R"({"type":"host-local","subnet":"10.7.0.0/24",
                                     "routes":[{"dst":"0.0.0.0/0"}]})")}};
  const auto with = [](json keys, const json& more) {
    keys.update(more);
    return keys;
  };
  const json v4_gateway = with(v4, {{"isGateway", true}, {"ipMasq", true}});
  const json both = {{"isGateway", true}, {"ipMasq", true}, {"ipam", Ipam(R"({"type":"host-local",
        "ranges":[[{"subnet":"10.7.0.0/24","rangeStart":"10.7.0.20"}],[{"subnet":"fd00:7::/64"}]],
        "routes":[{"dst":"0.0.0.0/0"},{"dst":"::/0"}]})")}};
  const json default_gateway = {
      {"isDefaultGateway", true},
      {"ipMasq", true},
      {"hairpinMode", true},
      {"ipam", Ipam(R"({"type":"host-local","subnet":"10.7.0.0/24","gateway":"10.7.0.254"})")}};
  const json ports = {{"snat", true}};
  return {
      {"BareLink", json::object()},
      {"AddressesOnly", v4},
      {"Gateway", v4_gateway},
      {"GatewayOf040", v4_gateway, json::object(), ports, "0.4.0"},
      {"GatewayOf031", v4_gateway, nullptr, ports, "0.3.1"},
      {"GatewayOf020", v4_gateway, nullptr, nullptr, "0.2.0"},
      {"DualStack", both, json::object(), ports},
      {"DefaultGateway", default_gateway, json::object(), ports},
      {"Promiscuous", with(v4_gateway, {{"promiscMode", true}}), nullptr, ports},
      {"SmallMtu", with(v4_gateway, {{"mtu", 1300}})},
      {"NoSnat", v4_gateway, json::object(), {{"snat", false}}},
      {"Dns",
       with(v4_gateway, {{"dns", {{"nameservers", {"192.0.2.53"}}, {"search", {"example.org"}}}}})},
      {"StaticIpam",
       {{"isGateway", true},
        {"ipam", Ipam(R"({"type":"static","addresses":[{"address":"10.7.0.9/24"}],
                                        "routes":[{"dst":"0.0.0.0/0","gw":"10.7.0.1"}]})")}},
       nullptr,
       nullptr,
       "1.0.0",
       true},
      {"SameBridgeOnly", v4_gateway, {{"ingressPolicy", "same-bridge"}}, ports},
  };
}

class OursAndTheReference : public World, public ::testing::WithParamInterface<Case> {
 protected:
  static Network NetworkOf(const Case& each, const std::string& path) {
    json bridge = {{"type", "bridge"}, {"bridge", "br7"}};
    bridge.update(each.bridge);
    std::vector<json> plugins = {bridge};
    if (!each.firewall.is_null()) {
      plugins.push_back({{"type", "firewall"}});
      plugins.back().update(each.firewall);
    }
    if (!each.portmap.is_null()) {
      plugins.push_back(PortmapEntry());
      plugins.back().update(each.portmap);
    }
    return {.list = ListOf(plugins, "net", each.version), .path = path};
  }

  // What is generated is left out: MACs, generated names; dns that is empty, which version 1.1.1
  // of the plugins still prints for 1.0.0.
  static json Comparable(json result) {
    if (result.contains("dns") && result.at("dns").empty()) {
      result.erase("dns");
    }
    for (json& interface : result["interfaces"]) {
      interface.erase("mac");
      const std::string name = interface.at("name");
      interface["name"] = name.starts_with("veth") ? "veth" : name;
    }
    return result;
  }

  static std::string Reach(const Node& from, const std::string& to, std::uint16_t port) {
    const std::optional<Reply> reply = Ask(from, {.to = to, .port = port});
    return reply ? Cat(reply->text, " seen as ", reply->seen_as) : "nothing";
  }

  // Results, exit codes and traffic of one life of two containers.
  std::map<std::string, std::string> Live(const std::string& path) {
    const Network network = NetworkOf(GetParam(), path);
    Node& a = AddContainer(Cat("a", ++lives_));
    Node& b = AddContainer(Cat("b", lives_));
    Attached first = WithPorts("a", a, {Port(8080, 80)});
    Attached second = As("b", b);
    std::map<std::string, std::string> facts;
    facts["add a"] = Cat(AddTo(network, first).exit_code);
    if (!GetParam().alone) {
      facts["add b"] = Cat(AddTo(network, second).exit_code);
    }
    json result = Comparable(first.result);
    for (json& interface : result["interfaces"]) {
      interface.erase("sandbox");  // named after the life
    }
    facts["result"] = result.dump(2);
    facts["mtu"] = LinkOn(a, "eth0").at("mtu").dump();
    facts["up"] = LinkOn(a, "eth0").at("operstate").dump();
    facts["promiscuous"] = LinkOn(host(), "br7").at("promiscuity").dump();
    if (result.contains("ips")) {
      Traffic(a, b, result, facts);
    }
    facts["del b"] = Cat(DelFrom(network, second).exit_code);
    facts["del a"] = Cat(DelFrom(network, first).exit_code);
    facts["interface left"] = Cat(a.Run({"ip", "link", "show", "eth0"}).exit_code);
    KillContainer(a);
    KillContainer(b);
    // The next life begins on a bare machine.
    host().Must({"ip", "link", "delete", "br7"});
    host().Must({"nft", "flush", "ruleset"});
    host().Must({"rm", "-rf", "/var/lib/cni/networks"});
    host().SetSysctl("net/ipv4/ip_forward", "0");
    host().SetSysctl("net/ipv6/conf/all/forwarding", "0");
    return facts;
  }

  void Traffic(Node& a, Node& b, const json& result, std::map<std::string, std::string>& facts) {
    const std::string address = AddressOf(result);
    const Server page = Server::Start(a, Protocol::kTcp, "0.0.0.0", 80, "page");
    const Server abroad = Server::Start(outside(), Protocol::kTcp, "0.0.0.0", 80, "abroad");
    facts["neighbour"] = Reach(b, address, 80);
    facts["host"] = Reach(host(), address, 80);
    facts["out"] = Reach(a, kOutsideIp4, 80);
    facts["out, IPv6"] = Ping(a, kOutsideIp6) ? "yes" : "no";
    facts["published, outside"] = Reach(outside(), kHostIp4, 8080);
    facts["published, host"] = Reach(host(), kHostIp4, 8080);
    facts["published, localhost"] = Reach(host(), "127.0.0.1", 8080);
    facts["published, neighbour"] = Reach(b, kHostIp4, 8080);
  }

 private:
  int lives_ = 0;
};

TEST_P(OursAndTheReference, MakeTheSameNetwork) {
  const std::map<std::string, std::string> reference = Live(kReferenceDirectory);
  const std::map<std::string, std::string> ours =
      Live(Cat(OurDirectory(), ':', kReferenceDirectory));  // static is theirs
  EXPECT_EQ(ours.size(), reference.size());
  for (const auto& [fact, value] : reference) {
    EXPECT_EQ(ours.at(fact), value) << fact;
  }
}

INSTANTIATE_TEST_SUITE_P(Lists, OursAndTheReference, ::testing::ValuesIn(Cases()), kNameOf);

}  // namespace
}  // namespace nomad_bridge::test
