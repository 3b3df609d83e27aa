// CHECK: the container's side is compared and named, the host's side is repaired.
#include "tests/support/mounted.h"
#include "tests/support/world.h"

namespace nomad_bridge::test {
namespace {

class CheckCommand : public World {
 protected:
  // An attachment in both families with a published port, and what CHECK gets to see of it.
  void SetUp() override {
    config_ = Publish({Port(8080, 80)}, DualStack());
    config_["ipam"]["routes"] = {{{"dst", "0.0.0.0/0"}},
                                 {{"dst", "::/0"}},
                                 {{"dst", "10.44.0.0/16"}, {"gw", "172.26.64.1"}}};
    result_ = Attach(config_);
  }

  Outcome Check() { return World::Check(config_, result_); }
  Outcome MustCheck() { return World::MustCheck(config_, result_); }

  json config_;
  json result_;
};

TEST_F(CheckCommand, IsSilentAndChangesNothingRightAfterAdd) {
  const Snapshot before = TakeSnapshot();
  EXPECT_THAT(MustCheck(), AllOf(Out(""), Err(""))) << "nothing was repaired";
  EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
}

TEST_F(CheckCommand, NeedsPrevResult) {
  EXPECT_THAT(RunPlugin("CHECK", config_), Fails(7, Msg(HasSubstr("prevResult"))));
}

TEST_F(CheckCommand, PrevResultMayHoldMoreThanOurs) {
  result_["interfaces"].push_back({{"name", "tun7"}, {"sandbox", container().path()}});
  result_["ips"].push_back({{"address", "10.3.3.3/24"}, {"interface", 3}});
  EXPECT_EQ(Check().exit_code, 0) << Check();
}

// A plugin behind us may have made both.
TEST_F(CheckCommand, ARouteMayLeadOutOfAnotherInterface) {
  container().Must({"ip", "link", "add", "vpn", "type", "veth", "peer", "name", "vpn-end"});
  container().Must({"ip", "address", "add", "10.77.0.2/24", "dev", "vpn"});
  container().Must({"ip", "link", "set", "vpn", "up"});
  container().Must({"ip", "link", "set", "vpn-end", "up"});
  container().Must({"ip", "route", "add", "10.99.0.0/24", "via", "10.77.0.1"});
  result_["routes"].push_back({{"dst", "10.99.0.0/24"}, {"gw", "10.77.0.1"}});
  EXPECT_EQ(Check().exit_code, 0) << Check();
  container().Must({"ip", "link", "delete", "vpn"});
  EXPECT_EQ(ErrorCode(Check()), 103);
}

TEST_F(CheckCommand, AnotherBridgeInTheConfigIsNamedAndNotTouched) {
  host().Must({"ip", "link", "add", "other", "type", "bridge"});
  host().Must({"ip", "address", "add", "192.168.77.1/24", "dev", "other"});
  const Snapshot before = TakeSnapshot();
  config_["bridge"] = "other";
  EXPECT_THAT(Check(), Fails(103, Details(HasSubstr("'other'"))));
  EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
}

TEST_F(CheckCommand, NeedsNoDiskSpaceForAHealthyAttachment) {
  host().Must({"mount", "-o", "remount,size=64k", "/run"});
  host().Must({"sh", "-c", "cat /dev/zero > /run/fill 2>/dev/null || true"});
  MustCheck();
}

TEST_F(CheckCommand, ReadsLeasesOnAReadOnlyDisk) {
  fs::create_directories("/run/leases");
  const Mounted disk({"-t", "tmpfs", "tmpfs"}, "/run/leases");
  const json config = Config(R"({"name": "second", "ipam": {"dataDir": "/run/leases"}})");
  const json result = Attach(config, {{"CNI_IFNAME", "eth1"}});
  host().Must(Words("mount -o remount,ro /run/leases"));
  EXPECT_THAT(RunPlugin("CHECK", WithResult(config, result), {{"CNI_IFNAME", "eth1"}}), Exits(0));
}

TEST_F(CheckCommand, NeedsNoResolvConf) {
  std::ofstream("/run/resolv.conf") << "nameserver 203.0.113.53\n";
  const json config = Config(R"({"name": "second", "ipam": {"resolvConf": "/run/resolv.conf"}})");
  const json result = Attach(config, {{"CNI_IFNAME", "eth1"}});
  fs::remove("/run/resolv.conf");
  EXPECT_THAT(RunPlugin("CHECK", WithResult(config, result), {{"CNI_IFNAME", "eth1"}}), Exits(0));
}

TEST_F(CheckCommand, FailsForAnAttachmentThatWasNeverMade) {
  EXPECT_THAT(RunPlugin("CHECK", WithResult(config_, result_), {{"CNI_CONTAINERID", "never-seen"}}),
              Fails(103, Msg(HasSubstr("'never-seen'"))));
}

TEST_F(CheckCommand, FailsInAnotherNamespaceThanAtAdd) {
  // A host that comes back with docker: the pause container has a new namespace, the result is the
  // old one.
  Node& other = AddContainer("other");
  EXPECT_THAT(RunPlugin("CHECK", WithResult(config_, result_), {{"CNI_NETNS", other.path()}}),
              Fails(103));
}

// ---- the container's side: named, never touched

struct ContainerDamage : Named {
  std::vector<std::vector<std::string>> commands;  // run in the container
  std::vector<const char*> expected;
};

std::vector<ContainerDamage> ContainerDamages() {
  return {
      {"LinkMissing", {{"ip", "link", "delete", "eth0"}}, {"'eth0' is missing"}},
      {"LinkDown", {{"ip", "link", "set", "eth0", "down"}}, {"'eth0' is down"}},
      {"LoopbackDown", {{"ip", "link", "set", "lo", "down"}}, {"'lo' is down"}},
      {"MacChanged",
       {{"ip", "link", "set", "eth0", "address", "02:00:00:00:00:99"}},
       {"02:00:00:00:00:99"}},
      {"Address4Missing", {{"ip", "-4", "address", "flush", "dev", "eth0"}}, {"172.26.64."}},
      {"PrefixChanged",
       {{"sh",
         "-ec",
         "address=$(ip -4 -o address show eth0 | awk '{ print $4 }'); "
         "ip address add ${address%/*}/32 dev eth0; ip address delete $address dev eth0"}},
       {"'eth0' has lost 172.26.64.2/20"}},
      {"Address6Missing",
       {{"ip", "-6", "address", "flush", "dev", "eth0", "scope", "global"}},
       {"fd00:26::"}},
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

class CheckOfDamagedContainer : public CheckCommand,
                                public ::testing::WithParamInterface<ContainerDamage> {};

INSTANTIATE_TEST_SUITE_P(Check,
                         CheckOfDamagedContainer,
                         ::testing::ValuesIn(ContainerDamages()),
                         kNameOf);

TEST_P(CheckOfDamagedContainer, NamesTheDamageAndDoesNotTouchIt) {
  for (const std::vector<std::string>& command : GetParam().commands) {
    container().Must(command);
  }
  const Snapshot before = TakeSnapshot().Of({"container "});

  const Outcome check = Check();

  EXPECT_EQ(check.exit_code, 1);
  ASSERT_TRUE(check.json.is_object()) << check;
  EXPECT_EQ(ErrorCode(check), 103) << check;
  for (const char* words : GetParam().expected) {
    EXPECT_THAT(Details(check), HasSubstr(words));
  }
  EXPECT_TRUE(Unchanged(before, TakeSnapshot().Of({"container "})))
      << "the container's side belongs to itself";
}

// ---- the host's side: repaired and logged; each damage: fixtures/damages.txt

TEST_F(CheckCommand, PrintsNothingOnStdoutWhenItRepairs) {
  const Snapshot before = TakeSnapshot();
  host().Shell("nft flush set inet nomad-bridge alloc4; iptables -F; iptables -X");
  EXPECT_THAT(MustCheck(), AllOf(Out(""), Err(HasSubstr("repaired"))));
  EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
}

}  // namespace
}  // namespace nomad_bridge::test
