// What the benchmark is asked to measure, from its command line.
//
// Errors  std::invalid_argument with a sentence.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace nomad_bridge::bench {

struct Options {
  // Absolute, since every world we enter takes us to its root directory.
  std::filesystem::path binary;                      // our build
  std::filesystem::path other;                       // an older one to compare it with, or empty
  std::filesystem::path reference = "/usr/lib/cni";  // the directory of the reference plugins
  bool with_ours = true;
  // The verbs, what operators type, what policies cost, what packets pay, or what they would pay
  // beside a flow table.
  enum class Subject { kVerbs, kCommands, kPolicies, kDataPath, kFlowTables };
  Subject subject = Subject::kVerbs;
  bool with_reference = true;
  bool with_floor =
      true;  // beside ours: what the kernel alone takes, and ours after foreign changes
  bool both_families = false;                    // of the allocations' addresses; else IPv4 alone
  int rounds = 0;                                // 0: fewer, the more attachments are alive
  std::vector<int> alive = {0, 100, 300, 1000};  // ascending: beside the one that is measured
  int leases = 0;    // not 0: measure ADD with that many leases in the data dir instead
  int parallel = 0;  // not 0: so many workers at once, and how many ADDs and DELs a second
  std::filesystem::path json;  // where the figures go, besides stdout; or empty

  [[nodiscard]] int RoundsWith(int living) const;
};

constexpr const char* kUsage =
    R"(nb_bench: ADD, CHECK and DEL of nomad-bridge against the reference plugins (root; touches nothing of this machine)

  --binary FILE     our binary (default: the one of this build)
  --compare FILE    another build of ours, measured in turns with the first, instead of the reference (also
                    after a foreign change)
  --reference DIR   where loopback, bridge, host-local, firewall and portmap are (default: /usr/lib/cni)
  --only SIDE       ours (after a foreign change, too, and beside the kernel's own floor) or reference;
                    or commands: list, doctor, metrics and reconcile instead of the verbs;
                    or policies: ADD, packets, new connections and policy apply with 0, 20 and 200 of them;
                    or data-path: what packets and connections take through the rules
                    or flow-tables: the same of ours, without and with a flow table of nf_tables
  --families both   IPv4 and IPv6, not IPv4 alone; without the floor
  --alive N,N,...   with how many other attachments alive (default: 0,100,300,1000)
  --rounds N        how often each verb is measured (default: 40 up to 100 alive, 30 up to 300, then 20)
  --leases N        measure ADD with N leases in the data dir against an empty one, and nothing else
  --parallel N      ADD and DEL by N workers at once, how many a second, and nothing else; --rounds: of each
  --json FILE       writes the figures there as well, for tests/bench/draw-figures
)";

// nullopt: the usage was asked for.
[[nodiscard]] std::optional<Options> ParseOptions(const std::vector<std::string>& arguments);

}  // namespace nomad_bridge::bench
