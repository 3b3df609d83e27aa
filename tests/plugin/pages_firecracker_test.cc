// docs/recipes.md, "Firecracker": its commands, and traffic through the tap. With
// NOMAD_BRIDGE_TC_REDIRECT_TAP, by the file of that name; else by the stand-in.
#include "tests/plugin/pages_world.h"
#include "tests/support/carrier.h"
#include "tests/support/tc_redirect_tap.h"

namespace nomad_bridge::test {
namespace {

// What the page installs with Go.
constexpr const char* kGo = R"(#!/bin/sh
[ "$1" = install ] && cp /run/tc-redirect-tap "$GOBIN/tc-redirect-tap"
)";

constexpr const char* kMachine = "5f3c1a2b-0000-4000-8000-000000000001";

// Runs no machine: the test does.
constexpr const char* kFirecracker = R"(#!/bin/sh
[ "$1 $2" = "--no-api --config-file" ] && cp "$3" /run/vm.json && exec sleep 1000
)";

class Firecracker : public TypedPage {
 protected:
  Firecracker() : TypedPage("docs/recipes.md", "Firecracker") {
    InstallPlugin();
    WriteProgram("/run/bin/go", kGo);
    WriteProgram("/run/bin/firecracker", kFirecracker);
#ifdef NOMAD_BRIDGE_TC_REDIRECT_TAP
    fs::copy_file(NOMAD_BRIDGE_TC_REDIRECT_TAP, "/run/tc-redirect-tap");
#else
    WriteProgram("/run/tc-redirect-tap", kTcRedirectTap);
#endif
  }

  // As firecracker would start it with this config.
  void StartMachine(const json& config, const std::string& netns) {
    machine_.Must(Words("ip tuntap add eth0 mode tap vnet_hdr"));
    const json& link = config.at("/network-interfaces/0"_json_pointer);
    machine_.Must({"ip", "link", "set", "eth0", "address", link.at("guest_mac")});
    carrier_.emplace(Process::Start({.argv = {"python3",
                                              "-c",
                                              kCarrier,
                                              netns,
                                              link.at("host_dev_name"),
                                              machine_.path(),
                                              "eth0"}}));
    machine_.Must(Words("ip link set eth0 up"));
    // ip=ADDRESS::GATEWAY:MASK::INTERFACE:off
    const std::string kernel = config.at("/boot-source/boot_args"_json_pointer);
    std::smatch found;
    ASSERT_TRUE(std::regex_search(
        kernel, found, std::regex(" ip=([0-9.]+)::([0-9.]+):255.255.240.0::eth0:off")));
    machine_.Must({"ip", "address", "add", Cat(found[1].str(), "/20"), "dev", "eth0"});
    ASSERT_TRUE(Soon([&] { return LinkOn(machine_, "eth0").at("operstate") == "UP"; }));
    machine_.Must({"ip", "route", "add", "default", "via", found[2].str()});
    Serve(machine_, Protocol::kTcp, {"0.0.0.0"}, 80, "machine");
  }

  // That every frame which `from` receives leaves by `to`.
  static void ExpectRedirected(const Node& where, const std::string& from, const std::string& to) {
    const json filters = where.Json({"tc", "-j", "filter", "show", "dev", from, "ingress"});
    const auto action = "/options/actions/0"_json_pointer;
    const auto is_action = [&](const json& filter) { return filter.contains(action); };
    ASSERT_EQ(std::ranges::count_if(filters, is_action), 1) << filters;
    const json& filter = *std::ranges::find_if(filters, is_action);
    EXPECT_EQ(At(filter, "/options/match/mask"), "0");
    EXPECT_EQ(At(filter, "/options/actions/0/kind"), "mirred");
    EXPECT_EQ(At(filter, "/options/actions/0/mirred_action"), "redirect");
    EXPECT_EQ(At(filter, "/options/actions/0/direction"), "egress");
    EXPECT_EQ(At(filter, "/options/actions/0/to_dev"), to);
  }
  static void ExpectTap(const Node& where, const std::string& name) {
    const json tap = where.Json({"ip", "-j", "-d", "link", "show", name}).at(0);
    EXPECT_EQ(At(tap, "/linkinfo/info_data/type"), "tap");
    EXPECT_EQ(At(tap, "/linkinfo/info_data/vnet_hdr"), true);
    EXPECT_EQ(At(tap, "/linkinfo/info_data/persist"), true);
    EXPECT_THAT(tap.at("flags"), Contains("UP"));
    ExpectRedirected(where, "eth0", name);
    ExpectRedirected(where, name, "eth0");
  }

 private:
  Node& machine_ = AddContainer("machine");
  std::optional<Process> carrier_;
};

TEST_F(Firecracker, HasTheAllocationsAddressAndPort) {
  Type();
  ASSERT_TRUE(Soon([] { return fs::exists("/run/vm.json"); }));
  const std::string id = Must(InShell("nomad-bridge list -q job=microvm"));
  const std::string netns = Cat("/var/run/netns/", id.substr(0, id.find('\n')));
  StartMachine(json::parse(FindFile("/run/vm.json").value()), netns);

  EXPECT_TRUE(Soon([&] { return TcpText(outside(), kHostIp4, 20000) == "machine"; }));
  const std::string seen = Type().out;

  for (const char* const part : {"tun type tap",
                                 "Redirect to device tap0",
                                 "Redirect to device eth0",
                                 "tcp 20000  uplink ✓",
                                 "udp 20000  uplink ✓",
                                 "the frames of 'eth0' go to tap 'tap0'"}) {
    EXPECT_THAT(seen, HasSubstr(part));
  }
  EXPECT_THAT(seen, Not(HasSubstr("✗")));
  ExpectAllTyped();
}

// The list without the page: each verb, and what lies in the container.
TEST_F(Firecracker, ChainIsCheckedAndLeavesNothing) {
  Type();
  Must(InShell("nomad job stop -purge microvm"));
  const Network network{.list = Example("firecracker"), .path = "/opt/cni/bin"};
  const Attached machine =
      MustAdd(network,
              WithPorts(kMachine,
                        container(),
                        {Port(8080, 80)},
                        Cat("IgnoreUnknown=true;TC_REDIRECT_TAP_NAME=vm0;TC_REDIRECT_TAP_UID=0;",
                            "TC_REDIRECT_TAP_GID=0;",
                            NomadArgs("microvm", kMachine))));

  ExpectTap(container(), "vm0");
  const json& interfaces = machine.result.at("interfaces");
  EXPECT_EQ(At(interfaces, "/3/name"), "vm0");
  EXPECT_EQ(At(interfaces, "/4/sandbox"), kMachine);
  EXPECT_EQ(At(interfaces, "/4/mac"), At(interfaces, "/2/mac"));
  MustCheckIn(network, machine);
  MustDelFrom(network, machine);
  EXPECT_FALSE(HasInterface(container(), "eth0"));
  EXPECT_FALSE(HasInterface(container(), "vm0"));
}

}  // namespace
}  // namespace nomad_bridge::test
