// Runs `nomad-bridge metrics` on a node with the allocations of one group.
#pragma once

#include "tests/plugin/cli_world.h"

namespace nomad_bridge::test {

class Metrics : public CliWorld {
 protected:
  using Counts = std::map<std::string, std::uint64_t>;

  [[nodiscard]] Variables Billing() {
    return As(kAllocation, container(), NomadArgs("billing", kAllocation));
  }
  json AttachBilling(const json& config = DualStack()) { return Attach(config, Billing()); }
  void DetachBilling(const json& config = DualStack()) { Detach(config, Billing()); }

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
  [[nodiscard]] Counts Samples() { return SamplesIn(Output("metrics")); }
  // What was received and sent behind a host veth, by name without labels.
  [[nodiscard]] Counts TrafficOf(const std::string& host_veth) {
    Counts counters;
    for (const auto& [name, value] : Samples()) {
      if (name.find(Cat("device=\"", host_veth, '"')) != name.npos) {
        counters[name.substr(0, name.find('{'))] = value;
      }
    }
    return counters;
  }
  // The labels of all series of traffic, once each.
  [[nodiscard]] std::set<std::string> Labels() {
    std::set<std::string> labels;
    for (const auto& [name, value] : Samples()) {
      if (name.starts_with("nomad_bridge_network_")) {
        labels.insert(name.substr(name.find('{')));
      }
    }
    return labels;
  }
};

}  // namespace nomad_bridge::test
