// Input and output of the binary under test: network configs as changes to the smallest config, and
// readers of results and errors.
//
// Shapes  Configs and results are JSON objects. A change is merged into the config by RFC 7386
//         (null removes a key), and may be written as JSON text.
#pragma once

#include "tests/support/process.h"
#include "tests/support/test.h"

namespace nomad_bridge::test {

constexpr const char* kLeases = "/var/run/cni/nomad";
constexpr const char* kRecords = "/run/nomad-bridge/nomad";
constexpr const char* kTable = "nomad-bridge";

// {"cniVersion": "1.1.0", "name": "nomad", "type": "nomad-bridge"} with changes.
[[nodiscard]] json Config(const json& changes = nullptr);
[[nodiscard]] json Config(const char* changes, const char* more = "{}");
// Config() with 172.26.64.0/20 and fd00:26::/64. Allocations get 172.26.64.<n> and fd00:26::<n>,
// with n from 2 on in the order of their ADDs.
[[nodiscard]] json DualStack(const json& changes = nullptr);
[[nodiscard]] json DualStack(const char* changes);
// One port mapping, spelled as Nomad's go-cni spells it.
[[nodiscard]] json Port(int host_port,
                        int container_port,
                        const std::string& protocol = "tcp",
                        const std::string& host_ip = "");
// Returns `config` with these port mappings added after its own.
[[nodiscard]] json Publish(const std::vector<json>& ports, json config = Config());
[[nodiscard]] json WithResult(json config, const json& result);
// Returns `config` for GC, with eth0 of each of these containers as the valid attachments.
[[nodiscard]] json WithValid(const std::vector<std::string>& container_ids, json config = Config());

// Returns the path of the binary under test: the one that was built, or the one that the variable
// NOMAD_BRIDGE_BINARY names.
[[nodiscard]] std::string BinaryUnderTest();
// Returns ASAN_OPTIONS that switch the leak checker on for the first command of this kind, and off
// for later commands: the check takes as long as the command, and some cases run hundreds.
[[nodiscard]] std::string LeakChecks(const std::string& kind);

// Nomad's CNI_ARGS for an allocation of `job`, group "api".
[[nodiscard]] std::string NomadArgs(const std::string& job, const std::string& allocation);

// The member at a JSON pointer, "/ipam/ranges/0"; null if it is not there.
[[nodiscard]] json At(const json& document, const std::string& pointer);
// The addresses of a result of 0.3.0 or later, with their prefix lengths.
[[nodiscard]] std::vector<std::string> AddressesIn(const json& result);
// Returns the first address of family 4 or 6, without its prefix length. Throws if there is none.
[[nodiscard]] std::string AddressOf(const json& result, int family = 4);
// The second interface of a result is the host's end.
[[nodiscard]] std::string HostVethOf(const json& result);

// Return parts of the error on stdout; "" and -1 if there is no error.
[[nodiscard]] std::string Msg(const Outcome& outcome);
[[nodiscard]] std::string Details(const Outcome& outcome);
[[nodiscard]] std::string MsgAndDetails(const Outcome& outcome);
[[nodiscard]] int ErrorCode(const Outcome& outcome);

// The same as matchers, of a text or of another matcher:
// EXPECT_THAT(RunPlugin("ADD", config), Fails(102, Msg(HasSubstr("8080"))));
using OutcomeMatcher = ::testing::Matcher<const Outcome&>;
[[nodiscard]] OutcomeMatcher Out(const TextMatcher& text);
[[nodiscard]] OutcomeMatcher Err(const TextMatcher& text);
[[nodiscard]] OutcomeMatcher Msg(const TextMatcher& text);
[[nodiscard]] OutcomeMatcher Details(const TextMatcher& text);
[[nodiscard]] OutcomeMatcher MsgAndDetails(const TextMatcher& text);
// Matches an outcome that has this exit code and matches all of `more`.
template <typename... More>
[[nodiscard]] OutcomeMatcher Exits(const ::testing::Matcher<int>& code, const More&... more) {
  return AllOf(::testing::Field("exit_code", &Outcome::exit_code, code), more...);
}
// Matches an outcome with exit code 1 and an error of this code on stdout.
template <typename... More>
[[nodiscard]] OutcomeMatcher Fails(int code, const More&... more) {
  return Exits(1, ::testing::ResultOf("the error's code", ErrorCode, code), more...);
}

// "ip link set lo up" as an argv: for commands too long for a list of quoted words.
[[nodiscard]] std::vector<std::string> Words(const std::string& line);
// What a program printed, line by line.
[[nodiscard]] std::vector<std::string> Lines(const std::string& text);

}  // namespace nomad_bridge::test
