// `nomad-bridge metrics` beside the allocations of one group.
#pragma once

#include "tests/plugin/cli_world.h"

namespace nomad_bridge::test {

constexpr const char* kTotals = "/run/nomad-bridge/.traffic-totals";
constexpr const char* kGroup = R"({namespace="default",job="billing",task_group="api"})";

class Metrics : public CliWorld {
 protected:
  using Counts = std::map<std::string, std::uint64_t>;

  [[nodiscard]] Variables Billing() {
    return As(kAllocation, container(), NomadArgs("billing", kAllocation));
  }
  json AttachBilling(const json& config = DualStack()) { return Attach(config, Billing()); }
  void DetachBilling(const json& config = DualStack()) { Detach(config, Billing()); }
  void MakeTraffic() { ASSERT_TRUE(Ping(container(), kBridgeIp4)); }

  // What `metrics` printed, by name and labels.
  [[nodiscard]] static Counts SamplesIn(const std::string& text) {
    Counts samples;
    for (const std::string& line : Lines(text)) {
      if (!line.starts_with("#")) {
        const std::size_t space = line.rfind(' ');
        samples[line.substr(0, space)] = std::stoull(line.substr(space + 1));
      }
    }
    return samples;
  }
  // What a group, by its labels, received and sent, by name.
  [[nodiscard]] static Counts TrafficIn(const std::string& text, std::string_view group = kGroup) {
    Counts counters;
    for (const auto& [name, value] : SamplesIn(text)) {
      if (name.ends_with(group)) {
        counters[name.substr(0, name.find('{'))] = value;
      }
    }
    return counters;
  }
  [[nodiscard]] Counts Samples(const std::string& flags = "") {
    return SamplesIn(Output(Cat("metrics ", flags)));
  }
  [[nodiscard]] Counts Traffic() { return TrafficIn(Output("metrics")); }

  // As if what is gone were gone for `seconds` longer.
  static void Age(std::uint64_t seconds) {
    std::string aged;
    for (const std::string& line : Lines(FindFile(kTotals).value())) {
      const std::uint64_t gone_since = line.empty() ? 0 : std::stoull(line);
      aged += gone_since == 0 ? line : Cat(gone_since - seconds, line.substr(line.find('\t')));
      aged += '\n';
    }
    std::ofstream(kTotals) << aged;
  }
};

}  // namespace nomad_bridge::test
