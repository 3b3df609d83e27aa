// DEL: exit 0 and nothing left, in whatever state the attachment is.
#include <cstdio>

#include "tests/support/mounted.h"
#include "tests/support/world.h"

namespace nomad_bridge::test {
namespace {

constexpr const char* kRecord = "/run/nomad-bridge/nomad/alloc-1@eth0.json";

class DelCommand : public World {
 protected:
  // As Nomad attaches: labels, and every port for tcp and udp.
  json AttachAsNomad() { return Attach(Published(), Labelled()); }

  static json Published() { return Publish({Port(8080, 80), Port(8080, 80, "udp")}); }
  static Variables Labelled() { return {{"CNI_ARGS", NomadArgs("billing", "alloc-1")}}; }
};

// ---- one ADD, then a DEL under every circumstance

struct Circumstance {
  const char* name;
  // What happens between ADD and DEL.
  std::function<void(Node& container)> happens = [](Node&) {};
  Variables variables = {};
  json config = Config();
};

void PrintTo(const Circumstance& circumstance, std::ostream* out) {
  *out << circumstance.name;
}

void ForgetRecord(Node&) {
  fs::remove(kRecord);
}

void MoveRecordToAnotherBoot() {
  json record = json::parse(FindFile(kRecord).value_or(""));
  record.at("origin").at("boot_id") = "00000000-0000-0000-0000-000000000000";
  std::ofstream(kRecord) << record;
}

std::vector<Circumstance> Circumstances() {
  const auto with = [](const char* key, const json& value) { return Config({{key, value}}); };
  return {
      {.name = "NothingSpecial"},
      {.name = "NamespaceGone", .happens = [](Node& container) { container.Kill(); }},
      {.name = "NamespaceEmpty", .variables = {{"CNI_NETNS", ""}}},
      {.name = "NamespaceUnset", .variables = {{"CNI_NETNS", std::nullopt}}},
      {.name = "NamespaceIsAPlainFile", .variables = {{"CNI_NETNS", "/etc/hostname"}}},
      {.name = "NamespaceElsewhere", .variables = {{"CNI_NETNS", "/run/netns/outside"}}},
      {.name = "ContainerLinkGone",
       .happens =
           [](Node& container) {
             container.Must({"ip", "link", "delete", "eth0"});
           }},
      {.name = "ContainerLinkRenamed",
       .happens =
           [](Node& container) {
             container.Must({"ip", "link", "set", "eth0", "down"});
             container.Must({"ip", "link", "set", "eth0", "name", "moved"});
           }},
      {.name = "BrokenArgs", .variables = {{"CNI_ARGS", "IP=;;=x;no value"}}},
      {.name = "PrevResultOfAnotherShape",
       .config = with("prevResult", {{"cniVersion", "0.2.0"}, {"ip4", 7}})},
      {.name = "PrevResultIsAString", .config = with("prevResult", "lost")},
      {.name = "PortMappingsBroken",
       .config = with("runtimeConfig", {{"portMappings", {{{"HostPort", 99999}}}}})},
      {.name = "RangesBroken", .config = with("ipam", {{"ranges", 5}})},
      {.name = "RecordLost", .happens = ForgetRecord},
      {.name = "RecordAndNamespaceLost",
       .happens =
           [](Node& container) {
             container.Kill();
             ForgetRecord(container);
           }},
      {.name = "RecordIsRubbish",
       .happens = [](Node&) { std::ofstream(kRecord) << "{\"half\": "; }},
      {.name = "RecordIsEmpty", .happens = [](Node&) { std::ofstream(kRecord) << ""; }},
      {.name = "LeaseGone",
       .happens =
           [](Node&) {
             for (const std::string& file : Entries("/run/cni/nomad")) {
               if (file.starts_with("172.")) {
                 fs::remove(Cat("/run/cni/nomad/", file));
               }
             }
           }},
      {.name = "DataDirGone", .happens = [](Node&) { fs::remove_all("/run/cni"); }},
  };
}

class DelInAnyCase : public DelCommand, public ::testing::WithParamInterface<Circumstance> {};

INSTANTIATE_TEST_SUITE_P(Del, DelInAnyCase, ::testing::ValuesIn(Circumstances()), kNameOf);

TEST_P(DelInAnyCase, SucceedsTwiceAndLeavesNothing) {
  const Circumstance& circumstance = GetParam();
  WarmUp();
  const Snapshot before = TakeHostSnapshot();
  AttachAsNomad();
  circumstance.happens(container());

  for (const char* time : {"first", "second"}) {
    EXPECT_THAT(RunPlugin("DEL", circumstance.config, circumstance.variables), Exits(0, Out("")))
        << time;
  }

  // The container may have died, or been changed by the circumstance.
  EXPECT_TRUE(Unchanged(before, TakeHostSnapshot()));
  if (container().IsAlive()) {
    EXPECT_EQ(container().Json({"ip", "-j", "link", "show"}).size(), 1U) << "only lo";
  }
}

TEST_F(DelCommand, LeavesEverythingAsBefore) {
  WarmUp();
  const Snapshot before = TakeSnapshot();
  const json result = AttachAsNomad();
  Detach(WithResult(Published(), result));
  EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
}

TEST_F(DelCommand, SucceedsForAContainerNeverSeen) {
  const Snapshot before = TakeSnapshot();
  Detach(Config());
  EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
}

TEST_F(DelCommand, CleansUpAfterARebootThatKeptTheFiles) {
  // Where /run or the data dir is no tmpfs, records and leases outlive the kernel's state.
  WarmUp();
  const Snapshot before = TakeHostSnapshot();
  AttachAsNomad();
  MoveRecordToAnotherBoot();

  EXPECT_EQ(RunPlugin("DEL", Config()).exit_code, 0);

  EXPECT_TRUE(Unchanged(before, TakeHostSnapshot()));
}

// ---- what cannot be removed is reported, and the rest is done

// A file that is mounted on itself can be read, but not unlinked.
TEST_F(DelCommand, GoesOnPastAnErrorAndCanBeRepeated) {
  WarmUp();
  const Snapshot before = TakeHostSnapshot();
  const std::string address = AddressOf(AttachAsNomad());
  {
    const std::string lease = Cat(kLeases, '/', address);
    const Mounted stuck({"--bind", lease}, lease);

    EXPECT_THAT(RunPlugin("DEL", Config()),
                Fails(104,
                      Msg(HasSubstr("'alloc-1'")),
                      Details(HasSubstr(address)),
                      Out(Not(HasSubstr("not found")))));

    EXPECT_TRUE(Unchanged(before.Of({"host "}), TakeHostSnapshot().Of({"host "})))
        << "link and rules must be gone";
  }

  EXPECT_EQ(RunPlugin("DEL", Config()).exit_code, 0);
  EXPECT_TRUE(Unchanged(before, TakeHostSnapshot()));
}

TEST_F(DelCommand, ReportsAllErrorsTogether) {
  const json config = DualStack();
  const json result = Attach(config);
  const std::string lease4 = Cat(kLeases, '/', AddressOf(result, 4));
  const std::string lease6 = Cat(kLeases, '/', AddressOf(result, 6));
  const Mounted stuck4({"--bind", lease4}, lease4);
  const Mounted stuck6({"--bind", lease6}, lease6);

  ASSERT_THAT(
      RunPlugin("DEL", config),
      Exits(1, Details(AllOf(HasSubstr(AddressOf(result, 4)), HasSubstr(AddressOf(result, 6))))));
}

TEST_F(DelCommand, NeedsNoRoomOnTheDisk) {
  WarmUp();
  const Snapshot before = TakeHostSnapshot();
  AttachAsNomad();
  host().Must({"mount", "-o", "remount,size=64k", "/run"});
  host().Must({"sh", "-c", "cat /dev/zero > /run/fill 2>/dev/null || true"});
  Detach(Published());
  fs::remove("/run/fill");
  EXPECT_TRUE(Unchanged(before, TakeHostSnapshot()));
}

// The config may have changed since ADD. What we leased is released; an IPAM plugin that ADD did
// not run is not run now.
TEST_F(DelCommand, IgnoresAnIpamTypeThatChangedSinceAdd) {
  WarmUp();
  const Snapshot before = TakeHostSnapshot();
  for (const char* const type : {"whereabouts", "a/b", "bridge", "nomad-bridge"}) {
    SCOPED_TRACE(type);
    AttachAsNomad();
    json config = Published();
    config["ipam"] = {{"type", type}};
    Detach(config, {{"CNI_PATH", "/run"}});
    EXPECT_TRUE(Unchanged(before, TakeHostSnapshot()));
  }
}

// Of two plugins the one that gave the address, with today's config only if that names it.
TEST_F(DelCommand, AsksTheIpamPluginThatAddAsked) {
  fs::create_directories("/run/ipam");
  for (const std::string name : {"first", "second"}) {
    WriteProgram(Cat("/run/ipam/", name),
                 Cat(R"(#!/bin/sh
echo "$CNI_COMMAND" >>/run/ipam/log.)",
                     name,
                     R"(
[ "$CNI_COMMAND" != ADD ] || echo '{"cniVersion":"1.0.0","ips":[{"address":"10.5.0.2/24"}]}'
)"));
  }
  const Variables where = {{"CNI_PATH", "/run/ipam"}};
  const json config = Config({{"ipam", {{"type", "first"}}}});
  const json result = Attach(config, where);
  json changed = config;
  changed["ipam"]["type"] = "second";

  EXPECT_THAT(RunPlugin("CHECK", WithResult(changed, result), where), Exits(0));
  Detach(changed, where);

  EXPECT_EQ(FindFile("/run/ipam/log.first"), "ADD\nCHECK\nDEL\n");
  EXPECT_EQ(FindFile("/run/ipam/log.second"), std::nullopt);
}

// go-cni takes an error with these words for success.
TEST_F(DelCommand, NeverPrintsNotFoundEvenIfAnIpamPluginDoes) {
  fs::create_directories("/run/ipam");
  WriteProgram("/run/ipam/failing", R"(#!/bin/sh
[ "$CNI_COMMAND" != ADD ] || { echo '{"cniVersion":"1.0.0","ips":[{"address":"10.5.0.2/24"}]}'; exit 0; }
echo '{"code": 999, "msg": "lease store: key not found"}'
exit 1
)");
  const json config = Config({{"ipam", {{"type", "failing"}}}});
  const Variables where = {{"CNI_PATH", "/run/ipam"}};
  Attach(config, where);
  EXPECT_THAT(RunPlugin("DEL", config, where),
              Fails(104, Out(AllOf(HasSubstr("lease store"), Not(HasSubstr("not found"))))));
}

TEST_F(DelCommand, RefusesTheHostsNamespaceAndKeepsTheAttachment) {
  AttachAsNomad();
  const Snapshot before = TakeSnapshot();
  EXPECT_EQ(RunPlugin("DEL", Config(), {{"CNI_NETNS", host().path()}}).json.at("code"), 8);
  EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
}

// As /proc/<pid>/ns/net of a process of the host that has got the container's id since.
TEST_F(DelCommand, RemovesAllIfItsNamespacePathNowLeadsToTheHost) {
  WarmUp();
  const Snapshot before = TakeHostSnapshot();
  AttachAsNomad();
  {
    const Mounted reused({"--bind", host().path()}, container().path());
    Detach(Published());
  }
  EXPECT_TRUE(Unchanged(before, TakeHostSnapshot()));
}

TEST_F(DelCommand, TouchesOnlyItsOwnNetworkContainerAndInterface) {
  AttachAsNomad();
  const Snapshot before = TakeSnapshot();
  Detach(Config({{"name", "other"}}));
  Detach(Config(), {{"CNI_IFNAME", "eth1"}});
  Detach(Config(), {{"CNI_CONTAINERID", "alloc-11"}});
  Detach(Config(), {{"CNI_CONTAINERID", "alloc"}});
  EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
}

}  // namespace
}  // namespace nomad_bridge::test
