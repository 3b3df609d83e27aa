// cnitool: libcni, as every runtime in Go uses it.

#include "tests/clients/client_world.h"

namespace nomad_bridge::test {
namespace {

class Cnitool : public ClientWorld {
 protected:
  static void UseList(const json& list) { WriteFile("/run/lists/list.conflist", list.dump()); }

  [[nodiscard]] Command Invocation(const std::string& verb, const json& ports = DefaultPorts()) {
    return {.argv = {NOMAD_BRIDGE_CNITOOL, verb, "nomad", container().path()},
            .variables = {{"CNI_PATH", kPlugins},
                          {"NETCONFPATH", "/run/lists"},
                          {"CAP_ARGS", json{{"portMappings", ports}}.dump()},
                          {"PATH", "/usr/sbin:/usr/bin:/sbin:/bin"}},
            .inherits_environment = false};
  }
  json Add() { return json::parse(Must(Invocation("add"))); }

  [[nodiscard]] static json DefaultPorts() {
    return {{{"hostPort", 8080}, {"containerPort", 80}, {"protocol", "tcp"}}};
  }
  [[nodiscard]] Server ServePage() {
    return Server::Start(container(), Protocol::kTcp, "0.0.0.0", 80, "page");
  }
};

TEST_F(Cnitool, AddsChecksAndDeletesEveryList) {
  for (const char* const name : {"nomad_bridge",
                                 "nomad_bridge_dual_stack",
                                 "nomad_builtin_bridge",
                                 "nomad_builtin_bridge_dual_stack"}) {
    UseList(Conflist(name));
    Add();
    Must(Invocation("del"));
    const Snapshot before = TakeHostSnapshot();

    Add();
    {
      const Server server = ServePage();
      EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "page") << name;
    }
    Must(Invocation("check"));
    Must(Invocation("del"));
    EXPECT_TRUE(Unchanged(before, TakeHostSnapshot())) << name;
    Must(Invocation("del"));
  }
}

TEST_F(Cnitool, CheckNamesWhatIsMissing) {
  UseList(Conflist("nomad_builtin_bridge"));
  Add();
  container().Must({"ip", "route", "del", "default"});
  EXPECT_THAT(Execute(Invocation("check")), Exits(Ne(0), Err(HasSubstr("0.0.0.0/0"))));
}

TEST_F(Cnitool, GcAndStatusWorkForAListWithVersion110) {
  json list = Conflist("nomad_builtin_bridge");
  list["cniVersion"] = "1.1.0";
  UseList(list);
  Must(Invocation("status"));
  Add();
  Must(Invocation("del"));
  const Snapshot before = TakeHostSnapshot();
  Add();

  // It names no attachment as valid, so libcni deletes those it knows of, and then runs GC.
  Must(Invocation("gc"));

  EXPECT_TRUE(Unchanged(before, TakeHostSnapshot()));
}

TEST_F(Cnitool, AForeignPluginKeepsItsPlaceInTheChain) {
  json list = Conflist("nomad_builtin_bridge");
  list["plugins"].push_back(
      {{"type", "tuning"}, {"sysctl", {{"net.ipv4.conf.IFNAME.arp_filter", "1"}}}});
  UseList(list);
  Command add = Invocation("add");
  add.variables["CNI_PATH"] = Cat(kPlugins, ':', kReferenceDirectory);

  const json result = json::parse(Must(add));

  EXPECT_EQ(result.at("interfaces").at(0).at("name"), "nomad");
  EXPECT_EQ(container().Sysctl("net/ipv4/conf/eth0/arp_filter"), "1");
  const Server server = ServePage();
  EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "page");
  Command del = Invocation("del");
  del.variables["CNI_PATH"] = Cat(kPlugins, ':', kReferenceDirectory);
  Must(del);
}

}  // namespace
}  // namespace nomad_bridge::test
