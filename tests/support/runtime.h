// A CNI runtime that works like libcni: runs lists of plugins, in order for ADD and CHECK, in
// reverse for DEL. Every plugin, ours or another, is its own process.
//
// Shapes  A plugin's stdin is its entry of the list, with name, cniVersion, runtimeConfig (if it
//         declares the capability) and prevResult added. On ADD prevResult is the result of the
//         plugin before it; on CHECK and DEL it is the last plugin's result. CNI_ARGS is set for
//         ADD and CHECK and empty for DEL, as with Nomad.
// Errors  std::runtime_error with the plugin's output, if a plugin must succeed and fails.
// Source  libcni 1.3.0, api.go.
#pragma once

#include "tests/support/config.h"
#include "tests/support/process.h"

namespace nomad_bridge::test {

// The reference plugins, from Debian's package.
constexpr const char* kReferenceDirectory = "/usr/lib/cni";
// Ours, under all of their names, once OurDirectory() has been called.
constexpr const char* kOurDirectory = "/run/our-plugins";

// A network configuration list, where its plugins are looked for (CNI_PATH), and where they look
// for the programs that they run.
struct Network {
  json list;
  std::string path;
  std::string program_path = "/usr/sbin:/usr/bin:/sbin:/bin";
};

// One attachment of a container to a network.
struct Attached {
  std::string container_id;
  std::string netns;  // the path of the container's network namespace
  json port_mappings = json::array();
  std::string args = {};
  std::string ifname = "eth0";
  json result = {};  // of ADD; null before

  // The variables that name it to a plugin. Empty `args` are left out.
  operator Variables() const;
};

// Returns the command that runs the plugin `program`, as a runtime does: with CNI_COMMAND=`verb`,
// `variables`, a PATH if they have none, and nothing else of our own environment.
[[nodiscard]] Command CniCommand(const std::string& program,
                                 const std::string& verb,
                                 std::string input,
                                 Variables variables);

// fixtures/conf/<name>.conflist
[[nodiscard]] json Conflist(const std::string& name);
// examples/<name>.conflist
[[nodiscard]] json Example(const std::string& name);
[[nodiscard]] json ListOf(const std::vector<json>& plugins,
                          const std::string& name = "net",
                          const std::string& version = "1.0.0");
// portmap's entry of a list.
[[nodiscard]] json PortmapEntry();

// Returns kOurDirectory, after putting `binary` into it (by default the binary under test).
[[nodiscard]] std::string OurDirectory(const std::string& binary = BinaryUnderTest());
// Returns a network whose `list` our plugins run.
[[nodiscard]] Network ByOurs(json list);
// Returns a CNI_PATH with our plugins under these names, and the reference plugins under all
// others.
[[nodiscard]] std::string MixedPath(const std::vector<std::string>& ours);

// Return the outcome of the first plugin that fails, otherwise of the last plugin. AddTo() sets
// attached.result on success.
Outcome AddTo(const Network& network, Attached& attached);
Outcome CheckIn(const Network& network, const Attached& attached);
Outcome DelFrom(const Network& network, const Attached& attached);
// Do the same, but throw if a plugin fails.
Attached MustAdd(const Network& network, Attached attached);
Outcome MustCheckIn(const Network& network, const Attached& attached);
Outcome MustDelFrom(const Network& network, const Attached& attached);

// Runs one plugin of the list: its entry `index`, with `prev_result` (null: none).
Outcome RunEntry(const std::string& verb,
                 const Network& network,
                 std::size_t index,
                 const Attached& attached,
                 const json& prev_result);
Outcome MustRunEntry(const std::string& verb,
                     const Network& network,
                     std::size_t index,
                     const Attached& attached,
                     const json& prev_result);
// Returns the command that RunEntry() runs, for a test that runs it in another way.
[[nodiscard]] Command EntryCommand(const std::string& verb,
                                   const Network& network,
                                   std::size_t index,
                                   const Attached& attached,
                                   const json& prev_result);

}  // namespace nomad_bridge::test
