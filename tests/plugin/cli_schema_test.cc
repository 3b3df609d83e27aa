// Every -json document against its schema in docs/schema/, by another program.
#include "tests/plugin/cli_world.h"

namespace nomad_bridge::test {
namespace {

class Schema : public CliWorld {
 protected:
  void SetUp() override {
    Attach(Publish({Port(8080, 80), Port(53, 53, "udp", kHostIp4)}),
           As("5f3c1a2b", container(), NomadArgs("billing", "5f3c1a2b")));
  }
  void ExpectAnswer(const std::string& line, const std::string& schema) {
    const Outcome printed = RunLine(line);
    EXPECT_EQ(printed.json.value("version", 0), 1) << line << '\n' << printed;
    ExpectValid(printed.out, schema);
  }
};

TEST_F(Schema, HoldsForEveryCommand) {
  ExpectAnswer("list -json", "list.json");
  ExpectAnswer("list -json job=none", "list.json");
  ExpectAnswer("inspect -json 8080", "inspect.json");
  ExpectAnswer("doctor -json", "doctor.json");
  ExpectAnswer("reconcile -dry-run -json", "reconcile.json");
  ExpectAnswer("gc -dry-run -json", "reconcile.json");
}

TEST_F(Schema, HoldsForEveryStateOfAnAttachment) {
  AttachDead("9d01c7e4");
  Attach(Config(), As("aaaa", AddContainer("damaged")));
  std::ofstream(RecordOf("aaaa")) << "{";
  Attach(Config(), As("bbbb", AddContainer("lost")));
  fs::remove(RecordOf("bbbb"));
  static_cast<void>(Output("help"));

  ExpectAnswer("list -json", "list.json");
  for (const char* const name : {"9d01", "aaaa", "bbbb"}) {
    ExpectAnswer(Cat("inspect -json ", name), "inspect.json");
  }
  ExpectAnswer("gc -dry-run -json", "reconcile.json");
  ExpectAnswer("doctor -json", "doctor.json");
}

TEST_F(Schema, HoldsForGoodAndBadConfigs) {
  fs::create_directories("/run/configs");
  std::ofstream("/run/configs/10-good.conflist") << json{
      {"cniVersion", "1.0.0"}, {"name", "other"}, {"plugins", {kOther, {{"type", "consul-cni"}}}}};
  std::ofstream("/run/configs/20-lan.conf")
      << Config({{"name", "lan"}, {"bridge", "br0"}, {"isGateway", false}});
  std::ofstream("/run/configs/30-bad.conf") << "{";
  ExpectAnswer("config check -json /run/configs/10-good.conflist /run/configs/30-bad.conf /nowhere",
               "config-check.json");
  ExpectAnswer("up -json -dry-run /run/configs", "up.json");
  ExpectAnswer("up -json /run/configs", "up.json");
}

TEST_F(Schema, ExistsForEveryCommandWithTheJsonFlag) {
  std::set<std::string> with_json;
  for (const std::string& name : CommandNames()) {
    if (Output(Cat("help ", name)).find("\n  -json") != std::string::npos) {
      with_json.insert(name);
    }
  }
  EXPECT_EQ(with_json,
            (std::set<std::string>{"list",
                                   "inspect",
                                   "doctor",
                                   "test",
                                   "config check",
                                   "reconcile",
                                   "gc",
                                   "up",
                                   "policy test",
                                   "policy apply",
                                   "policy status",
                                   "policy show"}))
      << "a new one belongs into the cases above, one of policies into policy_life_test.cc, test "
         "into "
         "probe_trial_test.cc";
}

}  // namespace
}  // namespace nomad_bridge::test
