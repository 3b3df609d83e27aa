// cnitool: libcni, as every runtime in Go uses it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "tests/clients/client_world.h"

namespace nomad_bridge::test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class CnitoolTest : public ClientWorld {
 protected:
  [[nodiscard]] static json List(const std::string& name) {
    return json::parse(ReadFixture(Cat("conf/", name, ".conflist")));
  }
  static void UseList(const json& list) { WriteFile("/run/lists/list.conflist", list.dump()); }

  [[nodiscard]] Command Cnitool(const std::string& verb, const json& ports = DefaultPorts()) {
    return {.argv = {NOMAD_BRIDGE_CNITOOL, verb, "nomad", container().path()},
            .variables = {{"CNI_PATH", kPlugins},
                          {"NETCONFPATH", "/run/lists"},
                          {"CAP_ARGS", json{{"portMappings", ports}}.dump()},
                          {"PATH", "/usr/sbin:/usr/bin:/sbin:/bin"}},
            .inherits_environment = false};
  }
  json Add() { return json::parse(Must(Cnitool("add"))); }

  [[nodiscard]] static json DefaultPorts() {
    return {{{"hostPort", 8080}, {"containerPort", 80}, {"protocol", "tcp"}}};
  }
  [[nodiscard]] Server ServeInGuest() {
    return Server::Start(container(), Protocol::kTcp, "0.0.0.0", 80, "guest");
  }
};

TEST_F(CnitoolTest, AddsChecksAndDeletesEveryList) {
  for (const char* const name : {"nomad_bridge",
                                 "nomad_bridge_dual_stack",
                                 "nomad_builtin_bridge",
                                 "nomad_builtin_bridge_dual_stack"}) {
    UseList(List(name));
    Add();
    Must(Cnitool("del"));
    const Snapshot before = TakeHostSnapshot();

    Add();
    {
      const Server server = ServeInGuest();
      EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "guest") << name;
    }
    Must(Cnitool("check"));
    Must(Cnitool("del"));
    EXPECT_TRUE(Unchanged(before, TakeHostSnapshot())) << name;
    Must(Cnitool("del"));
  }
}

TEST_F(CnitoolTest, NomadsOwnListMakesTheSameNetworkAsNomadBridgeAlone) {
  json alone = List("nomad_bridge");
  alone["cniVersion"] = "0.4.0";
  // What Nomad's list says otherwise than we do when nothing is said.
  alone["plugins"][0]["hairpinMode"] = false;
  alone["plugins"][0]["ipam"]["routes"] = {{{"dst", "0.0.0.0/0"}}};
  const auto made_by = [&](const json& list) {
    UseList(list);
    const json result = Add();
    {
      const Server server = ServeInGuest();
      EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "guest") << list;
      EXPECT_EQ(TcpText(host(), "127.0.0.1", 8080), "guest") << list;
    }
    const Snapshot network = TakeSnapshot().Of({"host ", "outside ", "guest "});
    Must(Cnitool("del"));
    // The next one is to get the same address.
    host().Must({"rm", "-r", "/var/run/cni/nomad"});
    container().Must({"ip", "link", "set", "lo", "down"});
    return std::pair(result, network);
  };

  const auto [one_result, one_network] = made_by(alone);
  const auto [five_result, five_network] = made_by(List("nomad_builtin_bridge"));

  EXPECT_TRUE(Unchanged(one_network, five_network));
  EXPECT_EQ(one_result, five_result);
}

TEST_F(CnitoolTest, CheckSaysWhatHasGone) {
  UseList(List("nomad_builtin_bridge"));
  Add();
  container().Must({"ip", "route", "del", "default"});
  const Outcome check = Execute(Cnitool("check"));
  EXPECT_NE(check.exit_code, 0);
  EXPECT_THAT(check.err, HasSubstr("0.0.0.0/0"));
}

TEST_F(CnitoolTest, GcAndStatusOfAListThatHasThem) {
  json list = List("nomad_builtin_bridge");
  list["cniVersion"] = "1.1.0";
  UseList(list);
  Must(Cnitool("status"));
  Add();
  Must(Cnitool("del"));
  const Snapshot before = TakeHostSnapshot();
  Add();

  // It names no attachment as valid, so libcni deletes those it knows of, and then says GC.
  Must(Cnitool("gc"));

  EXPECT_TRUE(Unchanged(before, TakeHostSnapshot()));
}

TEST_F(CnitoolTest, AStrangersPluginGetsItsPlaceInTheChain) {
  json list = List("nomad_builtin_bridge");
  list["plugins"].push_back(
      {{"type", "tuning"}, {"sysctl", {{"net.ipv4.conf.IFNAME.arp_filter", "1"}}}});
  UseList(list);
  Command add = Cnitool("add");
  add.variables["CNI_PATH"] = Cat(kPlugins, ':', kReference);

  const json result = json::parse(Must(add));

  EXPECT_EQ(result.at("interfaces").at(0).at("name"), "nomad");
  EXPECT_EQ(container().Sysctl("net/ipv4/conf/eth0/arp_filter"), "1");
  const Server server = ServeInGuest();
  EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "guest");
  Command del = Cnitool("del");
  del.variables["CNI_PATH"] = Cat(kPlugins, ':', kReference);
  Must(del);
}

}  // namespace
}  // namespace nomad_bridge::test
