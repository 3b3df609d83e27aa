#include "plugin/state/state_json.h"

#include "tests/support/config.h"
#include "tests/support/test.h"

namespace nomad_bridge {
namespace {

const state::Origin kHere{.boot_id = "f1f2", .netns = {4, 4026531840}};

// Every field has another value than a fresh record has.
const json kFull = json::parse(R"({
  "id": {"network": "nomad", "container_id": "alloc-1", "ifname": "eth0"},
  "parts": {"link": "live", "masquerade": "leaving", "forward": "leaving", "ports": "making"},
  "labels": [{"key": "NOMAD_JOB_ID", "value": "billing"}, {"key": "colour", "value": "blue"}],
  "netns_path": "/run/netns/alloc-1", "netns": {"device": 5, "inode": 4026532000, "cookie": 4711},
  "created": 1700000000,
  "link": {
    "bridge": "nomad", "mtu": -1, "force_address": "on_own_bridge", "promisc_mode": true, "makes_bridge": false,
    "gateway_ifname": "nomad.100", "foreign_host_ifnames": ["vethf0"], "foreign_ports": ["vethf1"],
    "port": {"hairpin": true, "isolated": true, "locked": true, "source_check": true,
             "vlans": {"untagged": 100, "tagged": [{"first": 200, "last": 300}],
                       "keep_default": true}},
    "mac": "02:00:00:00:00:07", "gateways": ["10.0.0.1/24"], "adopted": true,
    "made_by_us": true},
  "ipam": {
    "addresses": ["10.0.0.2/24", "fd00::2/64"], "data_dir": "/var/run/cni",
    "default_routes": {"ipv4": true, "ipv6": true},
    "leases": ["10.0.0.2/24"],
    "ranges": [[{"subnet": "10.0.0.0/24", "first": "10.0.0.2", "last": "10.0.0.9",
                 "gateway": "10.0.0.1"}]],
    "delegated": {"type": "dhcp", "cni_path": "/opt/cni/bin", "args": "A=1",
                  "config": "{\"name\":\"nomad\"}"}},
  "rules": {
    "ip_masq": true, "non_masquerade_cidrs": ["10.0.0.0/8"], "random_ports": true, "snat": true, "masq_all": true,
    "forward_hook": {"admin_chain": "MINE", "accept_mark_bit": 3, "ipv6": true},
    "ingress": "isolated", "inbound": "published", "firewalld_zone": "internal",
    "ports": [{"protocol": "udp", "host_ip": "192.0.2.7", "host_port": 8080,
               "container_ip": "10.0.0.2", "container_port": 80}],
    "had_default_route": {"ipv4": true, "ipv6": true},
    "policy": {"revision": "9b21", "sets": ["3a1f"], "in": "in-9b21", "out": "out-1c", "judges_ports": true}},
  "origin": {"boot_id": "f1f2", "netns": {"device": 4, "inode": 4026531840, "cookie": null}}})");

state::Record FullRecord() {
  return state::ParseRecord(kFull.dump()).record;
}

state::StoredRecord Reread(const state::Record& record) {
  return state::ParseRecord(state::FormatRecord(record, kHere));
}

// A record with another value, or an additional key, at `place`.
json With(const char* place, const json& value) {
  json record = kFull;
  record[json::json_pointer(place)] = value;
  return record;
}

auto IsRefused(const char* why) {
  return ::testing::Throws<std::invalid_argument>(
      ::testing::Property(&std::invalid_argument::what, ::testing::StartsWith(why)));
}

TEST(RecordJson, KeepsEveryField) {
  json written = json::parse(state::FormatRecord(FullRecord(), kHere));
  EXPECT_THAT(written.at("host_veth"), ::testing::StartsWith("veth"));
  EXPECT_FALSE(Reread(FullRecord()).record.is_of_newer_release);
  written.erase("host_veth");
  EXPECT_EQ(written, kFull);
}

TEST(RecordJson, KeepsWhatIsAbsentAbsent) {
  const state::Record read = Reread({.id = {"nomad", "alloc-1", "eth0"}}).record;
  EXPECT_FALSE(read.link.port.vlans.has_value());
  EXPECT_FALSE(read.link.mac.has_value());
  EXPECT_FALSE(read.ipam.delegated.has_value());
}

TEST(RecordJson, HasADefaultForEveryKeyButItsIdentity) {
  for (const auto& [key, group] : kFull.items()) {
    if (key == "id" || key == "origin") {
      continue;
    }
    json lacking = kFull;
    lacking.erase(key);
    EXPECT_EQ(state::ParseRecord(lacking.dump()).record.id, FullRecord().id) << key;
    for (const auto& [member, value] : group.items()) {
      lacking = kFull;
      if (group.is_object()) {
        lacking.at(key).erase(member);
      }
      EXPECT_EQ(state::ParseRecord(lacking.dump()).record.id, FullRecord().id) << member;
    }
  }
}

// The release after this one may have added them.
TEST(RecordJson, IsReadTheSameBesideUnknownKeys) {
  const json unknown = json::parse(R"({"id": "x", "ports": [[{"ifname": 1}], "link", 2]})");
  for (const char* place :
       {"/colour", "/link/colour", "/rules/ports/0/colour", "/parts/colour", "/netns/colour"}) {
    const state::Record read = state::ParseRecord(With(place, unknown).dump()).record;
    EXPECT_EQ(state::FormatRecord(read, kHere), state::FormatRecord(FullRecord(), kHere)) << place;
    EXPECT_TRUE(read.is_of_newer_release) << place;
  }
}

TEST(RecordJson, IsRefusedIfAValueIsWrong) {
  for (const auto& [place, values] : std::map<const char*, std::vector<json>>{
           {"/rules/ports/0/host_port", {65536, -1, 80.5, 4e102, "80", true, nullptr}},
           {"/link/port/vlans/untagged", {-1}},
           {"/rules/ports/0/protocol", {"icmp", "", 6}},
           {"/rules/ingress", {"wide"}},
           {"/parts/link", {"dead"}},
           {"/rules/forward_hook/accept_mark_bit", {1LL << 40}},
           {"/link/port/vlans/tagged/0/first", {0, 301, 65536 + 200}},
           {"/link/mac", {"", "02:00"}},
           {"/link/bridge", {nullptr, 7}},
           {"/ipam/addresses/0", {"10.0.0.300/24", "10.0.0.2", ""}},
           {"/rules", {json::array({"forward", "ports"}), nullptr}},
           {"/rules/ports", {8080}},
           {"/rules/ip_masq", {1, "true"}},
           {"", {json::array(), 2}}}) {
    for (const json& value : values) {
      EXPECT_ANY_THROW(static_cast<void>(state::ParseRecord(With(place, value).dump())))
          << place << ": " << value;
    }
  }
}

TEST(RecordJson, NamesAnInvalidValue) {
  for (const auto& each : std::map<std::string, const char*>{
           {With("/rules/ports/0/host_port", 70000).dump(), "/rules/ports/0/host_port cannot be"},
           {With("/created", "long ago").dump(), "type must be number, but is string"},
           {With("/created", 4e60).dump(), "4e+60 is no whole number"},
           {"{\xff", "parse error at line 1"}}) {
    EXPECT_THAT([&] { static_cast<void>(state::ParseRecord(each.first)); }, IsRefused(each.second));
  }
}

TEST(RecordJson, IsRefusedWithoutIdentityOrOrigin) {
  for (const std::string& place :
       SplitFields("/id/network /id/container_id /id/ifname /origin/boot_id /origin/netns /id "
                   "/origin",
                   " ")) {
    const json::json_pointer pointer(place);
    json damaged = kFull;
    damaged.at(pointer.parent_pointer()).erase(pointer.back());
    EXPECT_ANY_THROW(static_cast<void>(state::ParseRecord(damaged.dump()))) << place;
  }
}

TEST(RecordJson, IsRefusedIfItIsNoJson) {
  const std::string text = kFull.dump();
  for (const std::string& damaged : {std::string(), text.substr(0, text.size() / 2), text + '}'}) {
    EXPECT_ANY_THROW(static_cast<void>(state::ParseRecord(damaged)));
  }
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

}  // namespace
}  // namespace nomad_bridge
