// What no policy may say: the place, the key and what is allowed.
#include <regex>

#include "tests/support/named.h"
#include "tests/unit/policy_files.h"

namespace nomad_bridge::test {
namespace {

// A policy in the second line of a file, behind `{"name": "api", `, which ends at column 17. Then
// the column and the message, and a part of the details.
constexpr const char* kPolicies = R"(
UnknownKey: "to": {"namespace": "*"}, "alow": []
  => 43: unknown key 'alow'; did you mean 'allow'?
   | allowed: name, to, from, allow, deny, only, mode, refuse
KeyInAnotherCase: "to": {"namespace": "*"}, "allow": [], "Only": true
  => 56: unknown key 'Only'; did you mean 'only'? | allowed: name
KeyTwice: "to": {"namespace": "*"}, "allow": [], "allow": []
  => 56: 'allow' stands twice | a.json:2:43
ToAndFrom: "to": {"namespace": "*"}, "from": {"namespace": "*"}, "allow": []
  => 1: policy 'api' has both 'to' and 'from' | allowed: one of them
NeitherToNorFrom: "allow": []
  => 1: policy 'api' has neither 'to' nor 'from' | allowed: one of them
NoAllow: "to": {"namespace": "*"}
  => 1: 'allow' is missing
NoAllowNorDeny: "from": {"namespace": "*"}
  => 1: policy 'api' lacks 'allow' or 'deny'
OnlyWithFrom: "from": {"namespace": "*"}, "allow": [], "only": false
  => 66: 'only' goes with 'to'
DenyWithTo: "to": {"namespace": "*"}, "allow": [], "deny": []
  => 64: 'deny' goes with 'from'
EmptyDeny: "from": {"namespace": "*"}, "deny": []
  => 53: invalid 'deny': an array | at least one entry
NoNamespace: "to": {"job": "api"}, "allow": []
  => 23: 'namespace' is missing
EmptyJob: "to": {"namespace": "*", "job": ""}, "allow": []
  => 49: invalid 'job': '' | printable text
ControlCharacter: "to": {"namespace": "a\tb"}, "allow": []
  => 37: invalid 'namespace': 'a b' | printable text
SelectorIsAString: "to": "prod", "allow": []
  => 23: invalid 'to': 'prod' | an object with namespace, job, group
Mode: "to": {"namespace": "*"}, "allow": [], "mode": "enforced"
  => 64: invalid 'mode': 'enforced'; did you mean 'enforce'? | allowed: 'enforce' or 'audit'
Refuse: "to": {"namespace": "*"}, "allow": [], "refuse": 1
  => 66: invalid 'refuse': 1 | allowed: 'reject' or 'drop'
Only: "to": {"namespace": "*"}, "allow": [], "only": "yes"
  => 64: invalid 'only': 'yes' | true or false
UnknownPeer: "to": {"namespace": "*"}, "allow": [{"from": ["same-namspace"]}]
  => 63: invalid 'from': 'same-namspace'; did you mean 'same-namespace'? | a name in 'addresses'
PeerIsANumber: "to": {"namespace": "*"}, "allow": [{"from": [1]}]
  => 63: invalid 'from': 1 | same-namespace, outside, node, any
PeerIsNoPrefix: "to": {"namespace": "*"}, "allow": [{"from": ["10.0.0.0/33"]}]
  => 63: invalid 'from': '10.0.0.0/33' | a prefix
NoPeer: "to": {"namespace": "*"}, "allow": [{"from": []}]
  => 62: invalid 'from': an array | at least one peer
ToInAnAllowOfTo: "to": {"namespace": "*"}, "allow": [{"to": ["any"]}]
  => 54: unknown key 'to' | allowed: from, ports
NoPorts: "to": {"namespace": "*"}, "allow": [{"from": ["any"], "ports": []}]
  => 80: invalid 'ports': an array | at least one
PortZero: "to": {"namespace": "*"}, "allow": [{"from": ["any"], "ports": ["tcp/0"]}]
  => 81: invalid 'ports': 'tcp/0' | 1 to 65535
PortTooHigh: "to": {"namespace": "*"}, "allow": [{"from": ["any"], "ports": ["udp", "tcp/65536"]}]
  => 88: invalid 'ports': 'tcp/65536' | 1 to 65535
PortsReversed: "to": {"namespace": "*"}, "allow": [{"from": ["any"], "ports": ["tcp/90-80"]}]
  => 81: invalid 'ports': 'tcp/90-80' | the lower one first
PortOfIcmp: "to": {"namespace": "*"}, "allow": [{"from": ["any"], "ports": ["icmp/8"]}]
  => 81: invalid 'ports': 'icmp/8' | icmp
PortWithoutProtocol: "to": {"namespace": "*"}, "allow": [{"from": ["any"], "ports": [8080]}]
  => 81: invalid 'ports': 8080 | tcp/8080
EntryIsAString: "to": {"namespace": "*"}, "allow": ["any"]
  => 53: invalid 'allow': 'any' | an object with from, ports
)";
// A whole file. Then the place and the message.
constexpr const char* kFiles = R"(
NoObject: []
  => 1:1: invalid 'file': an array | version, addresses, policies
NoVersion:
{}
  => 2:1: 'version' is missing
Version2: {"version": 2}
  => 1:13: invalid 'version': 2 | allowed: 1
VersionIsAString: {"version": "1"}
  => 1:13: invalid 'version': '1' | allowed: 1
NoName: {"version": 1, "policies": [{"to": {"namespace": "*"}, "allow": []}]}
  => 1:29: 'name' is missing
NameOfAPolicy: {"version": 1, "policies": [{"name": "1st"}]}
  => 1:38: invalid 'name': '1st' | a letter
LongName: {"version": 1, "policies": [{"name": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}]}
  => 1:38: invalid 'name': 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa' | 31 more
NameOfAddresses: {"version": 1, "addresses": {"any": []}}
  => 1:30: invalid 'addresses': 'any' | none of same-namespace, outside, node and any
AddressIsNone: {"version": 1, "addresses": {"office": ["10.0.0.1", "10.0.0.256"]}}
  => 1:53: invalid 'office': '10.0.0.256' | prefixes
AddressesAreAnArray: {"version": 1, "addresses": []}
  => 1:29: invalid 'addresses': an array | an object
NearestName: {"version": 1, "addresses": {"office": []}, "policies": [{"name": "a",
"to": {"namespace": "*"}, "allow": [{"from": ["ofice"]}]}]}
  => 2:47: invalid 'from': 'ofice'; did you mean 'office'? | a name in 'addresses'
)";

struct Row : Named {
  std::string text;
  std::string said;
  std::string details;
};

std::vector<Row> Rows(const char* table) {
  static const std::regex kRow(R"((\w+): ?([^]*?)\n  => (.*?)(?:\s+\| (.*))?\n)");
  const std::string_view text(table);
  std::vector<Row> rows;
  std::ptrdiff_t parsed = 1;  // the first end of a line
  for (std::cregex_iterator at(text.begin(), text.end(), kRow), end; at != end; ++at) {
    const std::string_view name((*at)[1].first, (*at)[1].length());
    rows.push_back({{name}, at->str(2), at->str(3), at->str(4)});
    parsed += at->length();
  }
  if (parsed != std::ssize(text)) {
    throw std::logic_error("a row is not as the others are");
  }
  return rows;
}

class RefusedPolicy : public PolicyFiles, public ::testing::WithParamInterface<Row> {
 protected:
  void ExpectRefusalAt(const std::string& place) {
    EXPECT_THAT(Refused(), Says(Cat(place, GetParam().said), HasSubstr(GetParam().details)));
  }
};
class RefusedFile : public RefusedPolicy {};

TEST_P(RefusedPolicy, NamesItsPlace) {
  WritePolicy(GetParam().text);
  ExpectRefusalAt("a.json:2:");
}

TEST_P(RefusedFile, NamesItsPlace) {
  Write("a.json", GetParam().text);
  ExpectRefusalAt("a.json:");
}

INSTANTIATE_TEST_SUITE_P(Of, RefusedPolicy, ::testing::ValuesIn(Rows(kPolicies)), kNameOf);
INSTANTIATE_TEST_SUITE_P(Of, RefusedFile, ::testing::ValuesIn(Rows(kFiles)), kNameOf);

}  // namespace
}  // namespace nomad_bridge::test
