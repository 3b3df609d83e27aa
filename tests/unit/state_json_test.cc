#include "plugin/state/state_json.h"

#include "tests/support/config.h"
#include "tests/support/test.h"

namespace nomad_bridge {
namespace {

const state::Origin kHere{.boot_id = "f1f2", .netns = {4, 4026531840}};

// Every field has another value than a fresh record has.
const json kFull = json::parse(R"({
  "version": 2, "network": "nomad", "containerId": "alloc-1", "ifname": "eth0", "parts": {"link": "live", "masquerade": "leaving", "forward": "gone", "ports": "making"},
  "labels": [{"key": "NOMAD_JOB_ID", "value": "billing"}, {"key": "colour", "value": "blue"}],
  "netnsPath": "/run/netns/alloc-1", "netns": {"device": 5, "inode": 4026532000, "cookie": 4711},
  "link": {
    "bridge": "nomad", "mtu": -1, "forceAddress": "onOwnBridge", "promiscMode": true,
    "gatewayIfname": "nomad.100", "foreignHostIfnames": ["vethf0"], "foreignPorts": ["vethf1"],
    "port": {"hairpin": true, "isolated": true, "locked": true, "sourceCheck": true,
             "vlans": {"untagged": 100, "tagged": [[200, 300]], "keepDefault": true}},
    "mac": "02:00:00:00:00:07", "gateways": ["10.0.0.1/24"], "adopted": true},
  "ipam": {
    "addresses": ["10.0.0.2/24", "fd00::2/64"], "dataDir": "/var/run/cni", "leases": ["10.0.0.2/24"],
    "ranges": [[{"subnet": "10.0.0.0/24", "first": "10.0.0.2", "last": "10.0.0.9", "gateway": "10.0.0.1"}]],
    "delegated": {"type": "dhcp", "cniPath": "/opt/cni/bin", "args": "A=1",
                  "config": "{\"name\":\"nomad\"}"}},
  "rules": {
    "ipMasq": true, "randomPorts": true, "snat": true, "masqAll": true, "adminChain": "MINE", "acceptMarkBit": 3,
    "ingress": "isolated", "inbound": "published", "firewalldZone": "internal",
    "ports": [{"protocol": "udp", "hostIp": "192.0.2.7", "hostPort": 8080,
               "containerIp": "10.0.0.2", "containerPort": 80}],
    "ways": {"ipv4": true, "ipv6": true},
    "policy": {"revision": "9b21", "sets": ["3a1f"], "in": "in-9b21", "out": "out-1c"}},
  "bootId": "f1f2", "hostNetns": {"device": 4, "inode": 4026531840}})");

state::Record FullRecord() {
  return state::ParseRecord(kFull.dump()).record;
}

state::StoredRecord Reread(const state::Record& record) {
  return state::ParseRecord(state::FormatRecord(record, kHere));
}

json Rewritten() {
  return json::parse(state::FormatRecord(FullRecord(), kHere));
}

TEST(RecordJson, KeepsTheIdentity) {
  for (const std::string& key :
       test::Words("version network containerId ifname parts labels netnsPath netns")) {
    EXPECT_EQ(Rewritten().at(key), kFull.at(key)) << key;
  }
}

TEST(RecordJson, KeepsTheLink) {
  EXPECT_EQ(Rewritten().at("link"), kFull.at("link"));
}

TEST(RecordJson, KeepsTheAddresses) {
  EXPECT_EQ(Rewritten().at("ipam"), kFull.at("ipam"));
}

TEST(RecordJson, KeepsTheRules) {
  EXPECT_EQ(Rewritten().at("rules"), kFull.at("rules"));
  EXPECT_TRUE(FullRecord().rules.forward_hook.ipv6) << "there is an IPv6 address";
}

TEST(RecordJson, KeepsWhatIsAbsentAbsent) {
  const state::Record read = Reread({.id = {"nomad", "alloc-1", "eth0"}}).record;
  EXPECT_FALSE(read.link.port.vlans.has_value());
  EXPECT_FALSE(read.link.mac.has_value());
  EXPECT_FALSE(read.ipam.delegated.has_value());
}

// What a missing key means is the same in every release: a default that changes fails here. All but
// the key stays as it is.
TEST(RecordJson, LeavesOutWhatAMissingKeyMeans) {
  for (const auto& [place, value] : std::map<std::string, const char*>{
           {"/labels/1/value", R"("")"},
           {"/netns/cookie", "null"},
           {"/link/bridge", R"("")"},
           {"/link/mtu", "0"},
           {"/link/forceAddress", R"("no")"},
           {"/link/promiscMode", "false"},
           {"/link/foreignPorts", "[]"},
           {"/link/port/hairpin", "false"},
           {"/link/port/vlans", "null"},
           {"/link/port/vlans/tagged", "[]"},
           {"/link/port", R"({"isolated": false, "locked": false, "sourceCheck": false})"},
           {"/link/mac", R"("")"},
           {"/link/adopted", "false"},
           {"/link", R"({"mtu": 0, "port": {}})"},
           {"/ipam/delegated", "null"},
           {"/ipam", "{}"},
           {"/rules/ipMasq", "false"},
           {"/rules/randomPorts", "false"},
           {"/rules/snat", "false"},
           {"/rules/masqAll", "false"},
           {"/rules/acceptMarkBit", "12"},
           {"/rules/ingress", R"("open")"},
           {"/rules/inbound", R"("any")"},
           {"/rules/ports/0/protocol", R"("tcp")"},
           {"/rules/ports/0/hostIp", R"("")"},
           {"/rules/ways/ipv6", "false"},
           {"/rules/policy", R"({"revision": "", "sets": [], "in": null, "out": null})"},
           {"/parts", "{}"},
       }) {
    const json::json_pointer pointer(place);
    json record = kFull;
    record[pointer] = json::parse(value);
    const state::Record read = state::ParseRecord(record.dump()).record;
    json written = json::parse(state::FormatRecord(read, kHere));
    written.erase("hostVeth");
    record.at(pointer.parent_pointer()).erase(pointer.back());
    EXPECT_EQ(written, record) << place;
  }
}

TEST(RecordJson, HasAValueThatIsEmpty) {
  json record = kFull;
  record["link"]["port"]["vlans"] = json::object();
  record["rules"]["ports"].push_back(json::object());
  const state::Record read = Reread(state::ParseRecord(record.dump()).record).record;
  EXPECT_TRUE(read.link.port.vlans.has_value());
  EXPECT_EQ(read.rules.ports.size(), 2U);
}

// Where releases differ in what a missing key means.
TEST(RecordJson, AlwaysHasItsVersionAndItsAdminChain) {
  const state::Record record = {.id = {"nomad", "alloc-1", "eth0"}};
  const json written = json::parse(state::FormatRecord(record, kHere));
  EXPECT_EQ(written.at("version"), 2);
  EXPECT_EQ(written.at("rules"), json::parse(R"({"adminChain": ""})"));
  EXPECT_FALSE(written.contains("link"));
}

TEST(RecordJson, KeepsWhatALaterReleaseHasWritten) {
  json later = kFull;
  later["version"] = 9;
  later["colour"] = "blue";
  later["link"]["colour"] = "red";
  later["rules"]["ports"][0]["colour"] = "of a port, which is written as a whole";
  const state::Record read = state::ParseRecord(later.dump()).record;
  const json written = json::parse(
      state::FormatRecord(read.With({cni::Part::kPorts}, state::Phase::kLeaving), kHere));
  EXPECT_EQ(written.at("version"), 9);
  EXPECT_EQ(written.at("colour"), "blue");
  EXPECT_EQ(written.at("link").at("colour"), "red");
  EXPECT_EQ(written.at("parts").at("ports"), "leaving");
}

TEST(RecordJson, KeepsWhatALaterReleaseHasWrittenInAGroupWithoutMore) {
  json later = kFull;
  later["ipam"] = {{"addresses", json::array()}, {"colour", "red"}};
  const state::Record read = state::ParseRecord(later.dump()).record;
  EXPECT_EQ(json::parse(state::FormatRecord(read, kHere)).at("ipam"), json({{"colour", "red"}}));
}

TEST(RecordJson, IsRefusedIfANumberIsOutOfRange) {
  for (const json& number : {json(65536), json(-1), json(80.5), json(4e102)}) {
    json record = kFull;
    record["rules"]["ports"][0]["hostPort"] = number;
    EXPECT_THROW(static_cast<void>(state::ParseRecord(record.dump())), std::exception) << number;
  }
}

TEST(RecordJson, IsRefusedIfAValueIsOfAnotherShape) {
  for (const auto& [place, value] :
       std::map<std::string, const char*>{{"/rules", R"(["forward", "ports"])"},
                                          {"/rules/ports", "8080"},
                                          {"/rules/ports/0", R"("8080")"},
                                          {"/rules/ipMasq", "1"},
                                          {"/ipam/addresses", R"({"first": "10.0.0.2/24"})"},
                                          {"/link/bridge", "null"},
                                          {"/link/mtu", "[1500]"},
                                          {"/link/port/vlans/tagged/0", "[200]"},
                                          {"/link/port/vlans/tagged/0", "[]"},
                                          {"/link/port/vlans/tagged/0", "[300, 200]"},
                                          {"", "[]"},
                                          {"", "2"}}) {
    json record = kFull;
    record[json::json_pointer(place)] = json::parse(value);
    EXPECT_THROW(static_cast<void>(state::ParseRecord(record.dump())), std::exception)
        << place << ": " << value;
  }
  EXPECT_THROW(static_cast<void>(state::ParseRecord(kFull.dump() + "}")), std::exception);
}

TEST(RecordJson, NamesTheKeyOfAWrongValue) {
  json record = kFull;
  record["rules"]["ports"][0]["hostPort"] = "80";
  EXPECT_THAT([&] { static_cast<void>(state::ParseRecord(record.dump())); },
              ::testing::Throws<std::invalid_argument>(
                  ::testing::Property(&std::invalid_argument::what, HasSubstr("key 'hostPort'"))));
}

TEST(RecordJson, HasTheDefaultOfWhatIsNull) {
  json record = kFull;
  for (const char* key : {"labels", "link", "netns"}) {
    record[key] = nullptr;
  }
  record["ipam"]["delegated"] = nullptr;
  const state::Record read = state::ParseRecord(record.dump()).record;
  EXPECT_THAT(read.labels, ElementsAre());
  EXPECT_EQ(read.link.bridge, state::Record().link.bridge);
  EXPECT_FALSE(read.ipam.delegated.has_value());
  EXPECT_EQ(read.rules.ports, FullRecord().rules.ports);
}

// Nothing of ours is found in what is not.
TEST(RecordJson, IsTheSameBesideKeysThatAreUnknown) {
  const json unknown = json::parse(R"({"network": "x", "ports": [[{"ifname": 1}], "link", 2],
      "rules": {"ports": null}, "parts": []})");
  json record = kFull;
  record["colour"] = unknown;
  record["aaa"] = json::array({unknown, unknown});
  record["link"]["colour"] = unknown;
  record["rules"]["ports"][0]["aaa"] = json::array({json::array({unknown})});
  state::Record read = state::ParseRecord(record.dump()).record;
  read.text = FullRecord().text;
  EXPECT_EQ(state::FormatRecord(read, kHere), state::FormatRecord(FullRecord(), kHere));
}

TEST(RecordJson, HasTheLastValueOfAKeyThatIsThereTwice) {
  std::string text = kFull.dump();
  text.back() = ',';
  const state::Record read =
      state::ParseRecord(text + R"("ipam": {"addresses": ["10.0.0.3/24"]}})").record;
  EXPECT_THAT(read.ipam.addresses, ElementsAre(*Cidr::Parse("10.0.0.3/24")));
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

TEST(RecordJson, ContainerIdIsFoundInADamagedRecord) {
  EXPECT_EQ(state::FindContainerId(R"({"containerId":"c1"})"), "c1");
  EXPECT_EQ(state::FindContainerId("{"), std::nullopt);
}

TEST(RecordJson, HasADefaultForEveryKeyButItsIdentity) {
  for (const char* key : {"parts", "labels", "netnsPath", "netns", "link", "ipam", "rules"}) {
    json lacking = kFull;
    lacking.erase(key);
    EXPECT_EQ(state::ParseRecord(lacking.dump()).record.id, FullRecord().id) << key;
  }
}

TEST(RecordJson, DamagedRecordThrows) {
  const std::string text = kFull.dump();
  EXPECT_ANY_THROW(static_cast<void>(state::ParseRecord("")));
  EXPECT_ANY_THROW(static_cast<void>(state::ParseRecord(text.substr(0, text.size() / 2))));
  for (const char* key : {"network", "containerId", "ifname", "bootId", "hostNetns"}) {
    json damaged = kFull;
    damaged.erase(key);
    EXPECT_ANY_THROW(static_cast<void>(state::ParseRecord(damaged.dump()))) << key;
  }
  json damaged = kFull;
  damaged["ipam"]["addresses"][0] = "10.0.0.300/24";
  EXPECT_ANY_THROW(static_cast<void>(state::ParseRecord(damaged.dump())));
}

TEST(CheckpointJson, LeavesOutWhatAMissingKeyMeans) {
  state::Checkpoint checkpoint;
  EXPECT_EQ(json::parse(state::FormatCheckpoint(checkpoint, kHere)),
            json({{"bootId", "f1f2"}, {"hostNetns", {{"device", 4}, {"inode", 4026531840}}}}));

  checkpoint.accept_mark_bit = 0;
  checkpoint.bridges["nomad"];
  checkpoint.published_on = {std::nullopt};
  const state::StoredCheckpoint read =
      state::ParseCheckpoint(state::FormatCheckpoint(checkpoint, kHere));
  EXPECT_EQ(read.origin, kHere);
  EXPECT_EQ(read.checkpoint.accept_mark_bit, 0);
  EXPECT_EQ(read.checkpoint.bridges, checkpoint.bridges);
  EXPECT_EQ(read.checkpoint.published_on, checkpoint.published_on);
  EXPECT_EQ(state::ParseCheckpoint("{}").checkpoint.accept_mark_bit, state::kNoMarkBit);
}

}  // namespace
}  // namespace nomad_bridge
