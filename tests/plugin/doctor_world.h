// A node on which everything works. A test breaks something, and reads what doctor reports.
#pragma once

#include "tests/plugin/cli_world.h"
#include "tests/support/mounted.h"

namespace nomad_bridge::test {

class Doctor : public CliWorld {
 protected:
  // The plugin and a conflist where Nomad looks for them, an allocation, and one that is in two
  // networks.
  void SetUp() override {
    fs::create_directories("/opt/cni/bin");
    fs::create_directories("/opt/cni/config");
    fs::create_symlink(BinaryUnderTest(), "/opt/cni/bin/nomad-bridge");
    std::ofstream("/opt/cni/config/nomad.conflist") << json{
        {"cniVersion", "1.1.0"}, {"name", "nomad"}, {"plugins", {{{"type", "nomad-bridge"}}}}};
    web_ = Attach(Publish({Port(8080, 80, "tcp", "127.0.0.1")}),
                  {{"CNI_ARGS", NomadArgs("web", "alloc-1")}});
    Attach(kOther, {{"CNI_IFNAME", "eth1"}});
  }

  Outcome Examine(const std::string& flags = "") {
    return Run(Words(Cat("doctor ", flags)), {{"CNI_PATH", std::nullopt}});
  }

  // What the check `id` says, one object per finding.
  std::vector<json> FindingsOf(const std::string& id) {
    const Outcome outcome = Examine("-json");
    std::vector<json> found;
    for (const json& check : outcome.json.value("checks", json::array())) {
      if (check.at("check") == id) {
        found.push_back(check);
      }
    }
    EXPECT_FALSE(found.empty()) << outcome;
    return found;
  }

  Mounted opt_{{"-t", "tmpfs", "tmpfs"}, "/opt"};
  const std::string resolv_conf_ = [] {
    std::ofstream("/run/resolv.conf") << "nameserver 203.0.113.53\n";
    return "/run/resolv.conf";
  }();
  Mounted resolv_{{"--bind", resolv_conf_}, "/etc/resolv.conf"};
  json web_;
};

}  // namespace nomad_bridge::test
