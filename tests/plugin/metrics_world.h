// `nomad-bridge metrics` beside the allocations of one group.
#pragma once

#include "tests/plugin/cli_world.h"

namespace nomad_bridge::test {

constexpr const char* kAllocation = "5f3c1a2b-0000-4000-8000-000000000001";
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
  // What the group received and sent, by name.
  [[nodiscard]] static Counts TrafficIn(const std::string& text) {
    Counts counters;
    for (const auto& [name, value] : SamplesIn(text)) {
      if (name.ends_with(kGroup)) {
        counters[name.substr(0, name.find('{'))] = value;
      }
    }
    return counters;
  }
  [[nodiscard]] Counts Samples(const std::string& flags = "") {
    return SamplesIn(Output(Cat("metrics ", flags)));
  }
  [[nodiscard]] Counts Traffic() { return TrafficIn(Output("metrics")); }
};

}  // namespace nomad_bridge::test
