// What the benchmark is asked to measure, from its command line.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace nomad_bridge::bench {

struct Options {
  // Absolute, since every world we enter takes us to its root folder.
  std::filesystem::path plugin;                      // our binary
  std::filesystem::path reference = "/usr/lib/cni";  // the folder of the reference plugins
  bool with_ours = true;
  bool with_reference = true;
  int rounds = 30;
  std::vector<int> alive = {0, 300};  // how many attachments live beside the one that is measured
  int leases = 0;  // not 0: measure ADD with that many leases in the data dir instead
};

constexpr const char* kUsage =
    R"(nb_bench: ADD, CHECK and DEL of nomad-bridge against the reference plugins (root; touches nothing of this machine)

  --plugin FILE     our binary (default: the one of this build)
  --reference DIR   where loopback, bridge, host-local, firewall and portmap are (default: /usr/lib/cni)
  --only SIDE       ours or reference
  --rounds N        how often each verb is measured (default: 30)
  --alive N,N,...   with how many other attachments alive (default: 0,300)
  --leases N        measure ADD with N leases in the data dir against an empty one, and nothing else
)";

// nullopt: the usage was asked for. Throws std::invalid_argument with a sentence.
[[nodiscard]] std::optional<Options> ParseOptions(const std::vector<std::string>& arguments);

}  // namespace nomad_bridge::bench
