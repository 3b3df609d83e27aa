#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "plugin/state/record_json.h"

namespace nomad_bridge {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;

const state::Origin kHere{.boot_id = "f1f2", .netns = {4, 4026531840}};

// Every field has another value than a fresh record has.
state::Record FullRecord() {
  return {
      .id = {"nomad", "alloc-1", "eth0"},
      .parts = {cni::Part::kLink, cni::Part::kPorts},
      .labels = {{"NOMAD_JOB_ID", "billing"}, {"colour", "blue"}},
      .netns_path = "/run/netns/alloc-1",
      .netns = {5, 4026532000},
      .del_progress = state::DelProgress::kStarted,
      .link = {.bridge = "nomad",
               .gateway_ifname = "nomad.100",
               .foreign_host_ifnames = {"vethf0"},
               .port = {.hairpin = true,
                        .isolated = true,
                        .locked = true,
                        .vlans = rtnl::PortVlans{.untagged = 100,
                                                 .tagged = {{.first = 200, .last = 300}},
                                                 .keep_default = true}},
               .mac = Mac::Parse("02:00:00:00:00:07"),
               .gateways = {Cidr::Parse("10.0.0.1/24").value()}},
      .ipam = {.addresses = {Cidr::Parse("10.0.0.2/24").value(), Cidr::Parse("fd00::2/64").value()},
               .data_dir = "/var/run/cni",
               .leases = {Cidr::Parse("10.0.0.2/24").value()},
               .delegated = cni::DelegatedIpam{.type = "dhcp",
                                               .cni_path = "/opt/cni/bin",
                                               .args = "A=1",
                                               .config = "{\"name\":\"nomad\"}"}},
      .rules = {.ip_masq = true,
                .snat = true,
                .masq_all = true,
                .forward_hook = {.admin_chain = "MINE", .accept_mark_bit = 3, .ipv6 = true},
                .ingress = firewall::Ingress::kIsolated,
                .firewalld_zone = "trusted",
                .ports = {{.protocol = portmap::Protocol::kUdp,
                           .host_ip = Ip::Parse("192.0.2.7"),
                           .host_port = 8080,
                           .container_ip = Ip::Parse("10.0.0.2").value(),
                           .container_port = 80}}}};
}

state::StoredRecord Reread(const state::Record& record) {
  return state::ParseRecord(state::FormatRecord(record, kHere));
}

TEST(RecordJson, KeepsTheIdentity) {
  const state::Record written = FullRecord();
  const state::Record read = Reread(written).record;
  EXPECT_EQ(read.id, written.id);
  EXPECT_EQ(read.parts, written.parts);
  EXPECT_EQ(read.labels, written.labels);
  EXPECT_EQ(read.netns_path, written.netns_path);
  EXPECT_EQ(read.netns, written.netns);
  EXPECT_EQ(read.del_progress, written.del_progress);
}

TEST(RecordJson, KeepsTheLink) {
  const state::Record::Link written = FullRecord().link;
  const state::Record::Link read = Reread(FullRecord()).record.link;
  EXPECT_EQ(read.bridge, written.bridge);
  EXPECT_EQ(read.gateway_ifname, written.gateway_ifname);
  EXPECT_EQ(read.foreign_host_ifnames, written.foreign_host_ifnames);
  EXPECT_TRUE(read.port.hairpin);
  EXPECT_TRUE(read.port.isolated);
  EXPECT_TRUE(read.port.locked);
  ASSERT_TRUE(read.port.vlans.has_value());
  EXPECT_EQ(read.port.vlans->untagged, written.port.vlans->untagged);
  EXPECT_EQ(read.port.vlans->tagged, written.port.vlans->tagged);
  EXPECT_TRUE(read.port.vlans->keep_default);
  EXPECT_EQ(read.mac, written.mac);
  EXPECT_EQ(read.gateways, written.gateways);
}

TEST(RecordJson, KeepsTheAddresses) {
  const state::Record::Ipam written = FullRecord().ipam;
  const state::Record::Ipam read = Reread(FullRecord()).record.ipam;
  EXPECT_EQ(read.addresses, written.addresses);
  EXPECT_EQ(read.data_dir, written.data_dir);
  EXPECT_EQ(read.leases, written.leases);
  ASSERT_TRUE(read.delegated.has_value());
  EXPECT_EQ(read.delegated->type, written.delegated->type);
  EXPECT_EQ(read.delegated->cni_path, written.delegated->cni_path);
  EXPECT_EQ(read.delegated->args, written.delegated->args);
  EXPECT_EQ(read.delegated->config, written.delegated->config);
}

TEST(RecordJson, KeepsTheRules) {
  const state::Record::Rules written = FullRecord().rules;
  const state::Record::Rules read = Reread(FullRecord()).record.rules;
  EXPECT_TRUE(read.ip_masq);
  EXPECT_TRUE(read.snat);
  EXPECT_TRUE(read.masq_all);
  EXPECT_EQ(read.forward_hook, written.forward_hook);
  EXPECT_EQ(read.ingress, written.ingress);
  EXPECT_EQ(read.firewalld_zone, written.firewalld_zone);
  EXPECT_EQ(read.ports, written.ports);
}

TEST(RecordJson, KeepsWhatIsAbsentAbsent) {
  const state::Record read = Reread({.id = {"nomad", "alloc-1", "eth0"}}).record;
  EXPECT_FALSE(read.link.port.vlans.has_value());
  EXPECT_FALSE(read.link.mac.has_value());
  EXPECT_FALSE(read.ipam.delegated.has_value());
  EXPECT_EQ(read.del_progress, state::DelProgress::kNone);
}

TEST(RecordJson, KeepsAPortOfEveryHostAddress) {
  state::Record record = FullRecord();
  record.rules.ports.front().host_ip.reset();
  EXPECT_EQ(Reread(record).record.rules.ports, record.rules.ports);
}

TEST(RecordJson, ReplacesBytesOfALabelThatAreNotUtf8) {
  state::Record record = FullRecord();
  record.labels = {{"k", "a\xff"}};
  EXPECT_THAT(Reread(record).record.labels, ElementsAre(cni::Label{"k", "a\xEF\xBF\xBD"}));
}

TEST(RecordJson, NamesTheOriginItWasWrittenIn) {
  EXPECT_EQ(Reread(FullRecord()).origin, kHere);
}

TEST(RecordJson, OriginDiffersByBootAndByNamespace) {
  EXPECT_NE(kHere, (state::Origin{.boot_id = "f1f3", .netns = kHere.netns}));
  EXPECT_NE(kHere, (state::Origin{.boot_id = kHere.boot_id, .netns = {4, 4026531841}}));
}

TEST(RecordJson, IsOfTheBootItNames) {
  const std::string text = state::FormatRecord(FullRecord(), kHere);
  EXPECT_TRUE(state::IsOfBoot(text, kHere.boot_id));
  EXPECT_FALSE(state::IsOfBoot(text, "another"));
  EXPECT_FALSE(state::IsOfBoot("{}", kHere.boot_id));
}

TEST(RecordJson, ContainerIdIsFoundInADamagedRecord) {
  EXPECT_EQ(state::FindContainerId(R"({"containerId":"c1"})"), "c1");
  EXPECT_EQ(state::FindContainerId("{"), std::nullopt);
}

TEST(RecordJson, DamagedRecordThrows) {
  const std::string text = state::FormatRecord(FullRecord(), kHere);
  EXPECT_ANY_THROW(static_cast<void>(state::ParseRecord("")));
  EXPECT_ANY_THROW(static_cast<void>(state::ParseRecord(text.substr(0, text.size() / 2))));
  for (const char* key : {"network", "netns", "link", "ipam", "rules", "bootId", "hostNetns"}) {
    json damaged = json::parse(text);
    damaged.erase(key);
    EXPECT_ANY_THROW(static_cast<void>(state::ParseRecord(damaged.dump()))) << key;
  }
  json damaged = json::parse(text);
  damaged["ipam"]["addresses"][0] = "10.0.0.300/24";
  EXPECT_ANY_THROW(static_cast<void>(state::ParseRecord(damaged.dump())));
}

}  // namespace
}  // namespace nomad_bridge
