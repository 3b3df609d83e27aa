// A node that Prometheus watches.
#pragma once

#include <regex>

#include "tests/plugin/metrics_world.h"
#include "tests/support/fixture.h"

namespace nomad_bridge::test {

constexpr const char* kMetricsFile = "/run/textfile/nomad-bridge.prom";

// What `pattern` matches in its first group.
inline std::set<std::string> AllIn(const std::string& text, const std::string& pattern) {
  const std::regex expression(pattern);
  std::set<std::string> found;
  for (std::sregex_iterator at(text.begin(), text.end(), expression), end; at != end; ++at) {
    found.insert((*at)[1]);
  }
  return found;
}

class Monitoring : public Metrics {
 protected:
  void ApplyAPolicy() {
    EnsureDirectory("/run/policy.d");
    std::ofstream("/run/policy.d/a.json")
        << R"({"version": 1, "policies": [{"name": "a", "to": {"namespace": "*"}, "allow": []}]})";
    ASSERT_THAT(RunLine("policy apply /run/policy.d"), Exits(0));
  }
  void WriteMetrics() { ASSERT_EQ(Output(Cat("metrics -output ", kMetricsFile)), ""); }
  // The names that are printed, on a node that has everything.
  [[nodiscard]] std::set<std::string> Names() {
    return AllIn(Output("metrics"), "\n# TYPE (\\w+) ");
  }
};

}  // namespace nomad_bridge::test
