// CHECK: the container's side is compared and named, the host's side is put right.
#include <filesystem>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/text.h"
#include "tests/support/plugin_world.h"

namespace nomad_bridge::test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class CheckTest : public PluginWorld {
 protected:
  // An attachment in both families with a published port, and what CHECK gets to see of it.
  void AttachForCheck() {
    config_ = Publishing(Config(), 8080, 80);
    config_["ipam"]["ranges"] = {{{{"subnet", "172.26.64.0/20"}}}, {{{"subnet", "fd00:64::/64"}}}};
    config_["ipam"]["routes"] = {{{"dst", "0.0.0.0/0"}},
                                 {{"dst", "::/0"}},
                                 {{"dst", "10.44.0.0/16"}, {"gw", "172.26.64.1"}}};
    result_ = Attach(config_);
  }

  Outcome Check() { return RunPlugin("CHECK", WithPrevResult(config_, result_)); }

  json config_;
  json result_;
};

TEST_F(CheckTest, RightAfterAddIsSilentAndChangesNothing) {
  AttachForCheck();
  const Snapshot before = TakeSnapshot();
  const Outcome check = Check();
  EXPECT_EQ(check.exit_code, 0) << check;
  EXPECT_EQ(check.out, "");
  EXPECT_EQ(check.err, "") << "nothing was repaired";
  EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
}

TEST_F(CheckTest, NeedsPrevResult) {
  AttachForCheck();
  const Outcome check = RunPlugin("CHECK", config_);
  EXPECT_EQ(check.json.at("code"), 7) << check;
  EXPECT_THAT(check.json.at("msg").get<std::string>(), HasSubstr("prevResult"));
}

TEST_F(CheckTest, PrevResultMayHoldMoreThanOurs) {
  AttachForCheck();
  result_["interfaces"].push_back({{"name", "tun7"}, {"sandbox", container().path()}});
  result_["ips"].push_back({{"address", "10.3.3.3/24"}, {"interface", 3}});
  EXPECT_EQ(Check().exit_code, 0) << Check();
}

// A plugin behind us may have made both.
TEST_F(CheckTest, ARouteMayLeadOutOfAnotherInterface) {
  AttachForCheck();
  container().Must({"ip", "link", "add", "vpn", "type", "veth", "peer", "name", "vpn-end"});
  container().Must({"ip", "address", "add", "10.77.0.2/24", "dev", "vpn"});
  container().Must({"ip", "link", "set", "vpn", "up"});
  container().Must({"ip", "link", "set", "vpn-end", "up"});
  container().Must({"ip", "route", "add", "10.99.0.0/24", "via", "10.77.0.1"});
  result_["routes"].push_back({{"dst", "10.99.0.0/24"}, {"gw", "10.77.0.1"}});
  EXPECT_EQ(Check().exit_code, 0) << Check();
  container().Must({"ip", "link", "delete", "vpn"});
  EXPECT_EQ(Check().json.value("code", 0), 103);
}

TEST_F(CheckTest, AnotherBridgeInTheConfigIsNamedAndNotTouched) {
  AttachForCheck();
  host().Must({"ip", "link", "add", "other", "type", "bridge"});
  host().Must({"ip", "address", "add", "192.168.77.1/24", "dev", "other"});
  const Snapshot before = TakeSnapshot();
  config_["bridge"] = "other";
  const Outcome check = Check();
  EXPECT_EQ(check.json.value("code", 0), 103) << check;
  EXPECT_THAT(check.json.value("details", ""), HasSubstr("'other'"));
  EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
}

TEST_F(CheckTest, OfAHealthyAttachmentNeedsNoRoomOnTheDisk) {
  AttachForCheck();
  host().Must({"mount", "-o", "remount,size=64k", "/run"});
  host().Must({"sh", "-c", "cat /dev/zero > /run/fill 2>/dev/null || true"});
  const Outcome check = Check();
  EXPECT_EQ(check.exit_code, 0) << check;
}

TEST_F(CheckTest, OfAnAttachmentNeverMade) {
  AttachForCheck();
  const Outcome check =
      RunPlugin("CHECK", WithPrevResult(config_, result_), {{"CNI_CONTAINERID", "never-seen"}});
  EXPECT_EQ(check.json.at("code"), 103) << check;
  EXPECT_THAT(check.json.at("msg").get<std::string>(), HasSubstr("'never-seen'"));
}

TEST_F(CheckTest, InAnotherNamespaceThanAtAdd) {
  // A host that comes back with docker: the pause container has a new namespace, the result is the
  // old one.
  AttachForCheck();
  Node& other = AddContainer("other");
  const Outcome check =
      RunPlugin("CHECK", WithPrevResult(config_, result_), {{"CNI_NETNS", other.path()}});
  EXPECT_EQ(check.json.at("code"), 103) << check;
}

// ---- the container's side: named, never touched

struct GuestFault {
  const char* name;
  std::vector<std::vector<std::string>> commands;  // run in the container
  std::vector<const char*> says;
};

void PrintTo(const GuestFault& fault, std::ostream* out) {
  *out << fault.name;
}

std::vector<GuestFault> GuestFaults() {
  return {
      {"LinkMissing", {{"ip", "link", "delete", "eth0"}}, {"'eth0' is missing"}},
      {"LinkDown", {{"ip", "link", "set", "eth0", "down"}}, {"'eth0' is down"}},
      {"LoopbackDown", {{"ip", "link", "set", "lo", "down"}}, {"'lo' is down"}},
      {"MacChanged",
       {{"ip", "link", "set", "eth0", "address", "02:00:00:00:00:99"}},
       {"02:00:00:00:00:99"}},
      {"Address4Missing", {{"ip", "-4", "address", "flush", "dev", "eth0"}}, {"172.26.64."}},
      {"Address6Missing",
       {{"ip", "-6", "address", "flush", "dev", "eth0", "scope", "global"}},
       {"fd00:64::"}},
      {"DefaultRouteMissing", {{"ip", "route", "delete", "default"}}, {"0.0.0.0/0"}},
      {"DefaultRoute6Missing", {{"ip", "-6", "route", "delete", "default"}}, {"::/0"}},
      {"RouteMissing", {{"ip", "route", "delete", "10.44.0.0/16"}}, {"10.44.0.0/16"}},
      {"RouteElsewhere",
       {{"ip", "route", "replace", "10.44.0.0/16", "via", "172.26.64.99"}},
       {"10.44.0.0/16 via 172.26.64.1"}},
      {"SeveralAtOnce",
       {{"ip", "link", "set", "eth0", "address", "02:00:00:00:00:99"},
        {"ip", "route", "delete", "10.44.0.0/16"},
        {"ip", "-6", "route", "delete", "default"}},
       {"02:00:00:00:00:99", "10.44.0.0/16", "::/0"}},
  };
}

class CheckGuest : public CheckTest, public ::testing::WithParamInterface<GuestFault> {};

INSTANTIATE_TEST_SUITE_P(Check,
                         CheckGuest,
                         ::testing::ValuesIn(GuestFaults()),
                         [](const auto& fault) { return fault.param.name; });

TEST_P(CheckGuest, IsNamedAndNotTouched) {
  AttachForCheck();
  for (const std::vector<std::string>& command : GetParam().commands) {
    container().Must(command);
  }
  const Snapshot before = TakeSnapshot().Of({"guest "});

  const Outcome check = Check();

  EXPECT_EQ(check.exit_code, 1);
  ASSERT_TRUE(check.json.is_object()) << check;
  EXPECT_EQ(check.json.at("code"), 103) << check;
  for (const char* words : GetParam().says) {
    EXPECT_THAT(check.json.value("details", ""), HasSubstr(words));
  }
  EXPECT_TRUE(Unchanged(before, TakeSnapshot().Of({"guest "})))
      << "the container's side belongs to the guest";
}

// ---- the host's side: mended, and said so; with repairOnCheck off only said

struct HostFault {
  const char* name;
  // Run by a shell in the host; $port is the host end of the attachment.
  const char* damage;
};

void PrintTo(const HostFault& fault, std::ostream* out) {
  *out << fault.name;
}

constexpr std::array kHostFaults = {
    HostFault{"RulesetFlushed", "nft flush ruleset"},
    HostFault{"TableDeleted", "nft delete table inet nomad-bridge"},
    HostFault{"ElementsFlushed", "nft flush set inet nomad-bridge alloc4"},
    HostFault{"PortElementGone", "nft flush map inet nomad-bridge port4"},
    HostFault{"ChainFlushed", "nft flush chain inet nomad-bridge postrouting"},
    HostFault{"IptablesFlushed", "iptables -F && iptables -X"},
    HostFault{"BridgeDeleted", "ip link delete nomad"},
    HostFault{"BridgeDown", "ip link set nomad down"},
    HostFault{"GatewayGone", "ip -4 address flush dev nomad"},
    HostFault{"PortOutOfBridge", "ip link set $port nomaster"},
    HostFault{"PortDown", "ip link set $port down"},
    HostFault{"HairpinOff", "bridge link set dev $port hairpin off"},
    HostFault{"LeasesGone", "rm /run/cni/nomad/172.* /run/cni/nomad/fd00*"},
    HostFault{"ForwardingOff", "echo 0 > /proc/sys/net/ipv4/ip_forward"},
};

class CheckHost : public CheckTest, public ::testing::WithParamInterface<HostFault> {
 protected:
  void Damage() { host().Must({"sh", "-c", Cat("port=", OnlyPort(), "; ", GetParam().damage)}); }
};

INSTANTIATE_TEST_SUITE_P(Check, CheckHost, ::testing::ValuesIn(kHostFaults), [](const auto& fault) {
  return fault.param.name;
});

TEST_P(CheckHost, IsMendedAndSaid) {
  AttachForCheck();
  const Server server = Server::Start(container(), Protocol::kTcp, "0.0.0.0", 80, "page");
  const Snapshot before = TakeSnapshot();
  Damage();
  ASSERT_FALSE(Unchanged(before, TakeSnapshot())) << "the damage does nothing";

  const Outcome check = Check();

  EXPECT_EQ(check.exit_code, 0) << check;
  EXPECT_EQ(check.out, "");
  EXPECT_THAT(check.err, HasSubstr("repaired"));
  EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
  EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "page");
}

TEST_P(CheckHost, IsOnlySaidWhereRepairIsOff) {
  AttachForCheck();
  Damage();
  const Snapshot before = TakeSnapshot();
  config_["repairOnCheck"] = false;

  const Outcome check = Check();

  EXPECT_EQ(check.exit_code, 1);
  EXPECT_EQ(check.json.value("code", 0), 103) << check;
  EXPECT_NE(check.json.value("details", ""), "");
  EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
}

}  // namespace
}  // namespace nomad_bridge::test
