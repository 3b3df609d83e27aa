// A node with a network that `nomad-bridge test` tries: its conflist is where Nomad looks for it.
#pragma once

#include "tests/plugin/policy_world.h"

namespace nomad_bridge::test {

class TrialWorld : public PolicyWorld {
 protected:
  void SetUp() override {
    host().Must(Words("ip link set lo up"));
    host().Must(Words(Cat("ip route replace default via ", kOutsideIp4, " dev uplink")));
    host().Must(Words(Cat("ip -6 route replace default via ", kOutsideIp6, " dev uplink")));
    Configure({DualStack()});
  }

  // The plugins of the node's only network.
  static void Configure(json plugins) {
    const std::string name = plugins[0].value("name", "nomad");
    for (json& plugin : plugins) {
      plugin.erase("name");
      plugin.erase("cniVersion");
      plugin["capabilities"] = {{"portMappings", true}};
    }
    fs::create_directories("/opt/cni/config");
    ReplaceFile("/opt/cni/config/network.conflist",
                json({{"cniVersion", "1.0.0"}, {"name", name}, {"plugins", plugins}}).dump());
  }

  // What failed, by ID.
  [[nodiscard]] std::set<std::string> Failures(const std::string& line = "test -json") {
    const Outcome outcome = RunLine(line);
    std::set<std::string> failures;
    for (const json& check : outcome.json.value("checks", json::array())) {
      if (check.at("verdict") == "fail") {
        failures.insert(check.at("check"));
      }
    }
    EXPECT_EQ(outcome.exit_code, failures.empty() ? 0 : 1) << outcome;
    EXPECT_FALSE(outcome.json.is_null()) << outcome;
    return failures;
  }
  // "port.outside/4" of all checks with that verdict.
  [[nodiscard]] static std::set<std::string> With(const std::string& verdict,
                                                  const json& document) {
    std::set<std::string> ids;
    for (const json& check : document.value("checks", json::array())) {
      if (check.at("verdict") == verdict) {
        ids.insert(Cat(check.at("check").get<std::string>(), '/', check.at("family").dump()));
      }
    }
    return ids;
  }
  void ExpectNoFailure(const std::string& line = "test") {
    EXPECT_THAT(RunLine(line),
                Exits(0, Out(AllOf(HasSubstr(" 0 failed"), Not(HasSubstr("fix:"))))));
  }

  Mounted opt_{{"-t", "tmpfs", "tmpfs"}, "/opt"};
  const std::string resolv_conf_ = [] {
    std::ofstream("/run/resolv.conf") << "nameserver 203.0.113.53\n";
    return "/run/resolv.conf";
  }();
  Mounted resolv_{{"--bind", resolv_conf_}, "/etc/resolv.conf"};
};

}  // namespace nomad_bridge::test
