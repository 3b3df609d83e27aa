// What no policy may say: the place, the key and what is allowed.
#include "tests/support/named.h"
#include "tests/unit/policy_files.h"

namespace nomad_bridge::test {
namespace {

// The second line of a file, behind `{"name": "api", `, which ends at column 17.
struct Row : Named {
  std::string keys;
  std::string said;  // column and message
  std::string details;
};

class RefusedPolicy : public PolicyFiles, public ::testing::WithParamInterface<Row> {};

TEST_P(RefusedPolicy, NamesItsPlace) {
  WritePolicy(GetParam().keys);
  EXPECT_THAT(Refused(), Says(Cat("a.json:2:", GetParam().said), HasSubstr(GetParam().details)));
}

INSTANTIATE_TEST_SUITE_P(
    Of,
    RefusedPolicy,
    ::testing::Values(
        Row{{"UnknownKey"},
            R"("to": {"namespace": "*"}, "alow": [])",
            "43: unknown key 'alow'; did you mean 'allow'?",
            "allowed: name, to, from, allow, deny, only, mode, refuse"},
        Row{{"KeyInAnotherCase"},
            R"("to": {"namespace": "*"}, "allow": [], "Only": true)",
            "56: unknown key 'Only'; did you mean 'only'?",
            "allowed: name"},
        Row{{"KeyTwice"},
            R"("to": {"namespace": "*"}, "allow": [], "allow": [])",
            "56: 'allow' stands twice",
            "a.json:2:43"},
        Row{{"ToAndFrom"},
            R"("to": {"namespace": "*"}, "from": {"namespace": "*"}, "allow": [])",
            "1: policy 'api' has both 'to' and 'from'",
            "allowed: one of them"},
        Row{{"NeitherToNorFrom"},
            R"("allow": [])",
            "1: policy 'api' has neither 'to' nor 'from'",
            "allowed: one of them"},
        Row{{"NoAllow"}, R"("to": {"namespace": "*"})", "1: 'allow' is missing", ""},
        Row{{"NoAllowNorDeny"},
            R"("from": {"namespace": "*"})",
            "1: policy 'api' lacks 'allow' or 'deny'",
            ""},
        Row{{"OnlyWithFrom"},
            R"("from": {"namespace": "*"}, "allow": [], "only": false)",
            "66: 'only' goes with 'to'",
            ""},
        Row{{"DenyWithTo"},
            R"("to": {"namespace": "*"}, "allow": [], "deny": [])",
            "64: 'deny' goes with 'from'",
            ""},
        Row{{"EmptyDeny"},
            R"("from": {"namespace": "*"}, "deny": [])",
            "53: invalid 'deny': an array",
            "at least one entry"},
        Row{{"NoNamespace"},
            R"("to": {"job": "api"}, "allow": [])",
            "23: 'namespace' is missing",
            ""},
        Row{{"EmptyJob"},
            R"("to": {"namespace": "*", "job": ""}, "allow": [])",
            "49: invalid 'job': ''",
            "printable text"},
        Row{{"ControlCharacter"},
            R"("to": {"namespace": "a\tb"}, "allow": [])",
            "37: invalid 'namespace': 'a b'",
            "printable text"},
        Row{{"SelectorIsAString"},
            R"("to": "prod", "allow": [])",
            "23: invalid 'to': 'prod'",
            "an object with namespace, job, group"},
        Row{{"Mode"},
            R"("to": {"namespace": "*"}, "allow": [], "mode": "enforced")",
            "64: invalid 'mode': 'enforced'; did you mean 'enforce'?",
            "allowed: 'enforce' or 'audit'"},
        Row{{"Refuse"},
            R"("to": {"namespace": "*"}, "allow": [], "refuse": 1)",
            "66: invalid 'refuse': 1",
            "allowed: 'reject' or 'drop'"},
        Row{{"Only"},
            R"("to": {"namespace": "*"}, "allow": [], "only": "yes")",
            "64: invalid 'only': 'yes'",
            "true or false"},
        Row{{"UnknownPeer"},
            R"("to": {"namespace": "*"}, "allow": [{"from": ["same-namspace"]}])",
            "63: invalid 'from': 'same-namspace'; did you mean 'same-namespace'?",
            "a name in 'addresses'"},
        Row{{"PeerIsANumber"},
            R"("to": {"namespace": "*"}, "allow": [{"from": [1]}])",
            "63: invalid 'from': 1",
            "same-namespace, outside, node, any"},
        Row{{"PeerIsNoPrefix"},
            R"("to": {"namespace": "*"}, "allow": [{"from": ["10.0.0.0/33"]}])",
            "63: invalid 'from': '10.0.0.0/33'",
            "a prefix"},
        Row{{"NoPeer"},
            R"("to": {"namespace": "*"}, "allow": [{"from": []}])",
            "62: invalid 'from': an array",
            "at least one peer"},
        Row{{"ToInAnAllowOfTo"},
            R"("to": {"namespace": "*"}, "allow": [{"to": ["any"]}])",
            "54: unknown key 'to'",
            "allowed: from, ports"},
        Row{{"NoPorts"},
            R"("to": {"namespace": "*"}, "allow": [{"from": ["any"], "ports": []}])",
            "80: invalid 'ports': an array",
            "at least one"},
        Row{{"PortZero"},
            R"("to": {"namespace": "*"}, "allow": [{"from": ["any"], "ports": ["tcp/0"]}])",
            "81: invalid 'ports': 'tcp/0'",
            "1 to 65535"},
        Row{{"PortTooHigh"},
            R"("to": {"namespace": "*"}, "allow": [{"from": ["any"], "ports": ["udp", "tcp/65536"]}])",
            "88: invalid 'ports': 'tcp/65536'",
            "1 to 65535"},
        Row{{"PortsReversed"},
            R"("to": {"namespace": "*"}, "allow": [{"from": ["any"], "ports": ["tcp/90-80"]}])",
            "81: invalid 'ports': 'tcp/90-80'",
            "the lower one first"},
        Row{{"PortOfIcmp"},
            R"("to": {"namespace": "*"}, "allow": [{"from": ["any"], "ports": ["icmp/8"]}])",
            "81: invalid 'ports': 'icmp/8'",
            "icmp"},
        Row{{"PortWithoutProtocol"},
            R"("to": {"namespace": "*"}, "allow": [{"from": ["any"], "ports": [8080]}])",
            "81: invalid 'ports': 8080",
            "tcp/8080"},
        Row{{"EntryIsAString"},
            R"("to": {"namespace": "*"}, "allow": ["any"])",
            "53: invalid 'allow': 'any'",
            "an object with from, ports"}),
    kNameOf);

struct FileRow : Named {
  std::string text;
  std::string said;  // place and message
  std::string details;
};

class RefusedFile : public PolicyFiles, public ::testing::WithParamInterface<FileRow> {};

TEST_P(RefusedFile, NamesItsPlace) {
  Write("a.json", GetParam().text);
  EXPECT_THAT(Refused(), Says(Cat("a.json:", GetParam().said), HasSubstr(GetParam().details)));
}

INSTANTIATE_TEST_SUITE_P(
    Of,
    RefusedFile,
    ::testing::Values(
        FileRow{{"NoObject"},
                "[]",
                "1:1: invalid 'file': an array",
                "version, addresses, policies"},
        FileRow{{"NoVersion"}, "\n{}", "2:1: 'version' is missing", ""},
        FileRow{{"Version2"}, R"({"version": 2})", "1:13: invalid 'version': 2", "allowed: 1"},
        FileRow{{"VersionIsAString"},
                R"({"version": "1"})",
                "1:13: invalid 'version': '1'",
                "allowed: 1"},
        FileRow{{"NoName"},
                R"({"version": 1, "policies": [{"to": {"namespace": "*"}, "allow": []}]})",
                "1:29: 'name' is missing",
                ""},
        FileRow{{"NameOfAPolicy"},
                R"({"version": 1, "policies": [{"name": "1st"}]})",
                "1:38: invalid 'name': '1st'",
                "a letter"},
        FileRow{{"LongName"},
                Format(R"({"version": 1, "policies": [{"name": "{}"}]})", std::string(33, 'a')),
                Format("1:38: invalid 'name': '{}'", std::string(33, 'a')),
                "31 more"},
        FileRow{{"NameOfAddresses"},
                R"({"version": 1, "addresses": {"any": []}})",
                "1:30: invalid 'addresses': 'any'",
                "none of same-namespace, outside, node and any"},
        FileRow{{"AddressIsNone"},
                R"({"version": 1, "addresses": {"office": ["10.0.0.1", "10.0.0.256"]}})",
                "1:53: invalid 'office': '10.0.0.256'",
                "prefixes"},
        FileRow{{"AddressesAreAnArray"},
                R"({"version": 1, "addresses": []})",
                "1:29: invalid 'addresses': an array",
                "an object"},
        FileRow{{"NearestName"},
                R"({"version": 1, "addresses": {"office": []}, "policies": [{"name": "a",
"to": {"namespace": "*"}, "allow": [{"from": ["ofice"]}]}]})",
                "2:47: invalid 'from': 'ofice'; did you mean 'office'?",
                "a name in 'addresses'"}),
    kNameOf);

}  // namespace
}  // namespace nomad_bridge::test
