// Every -json document against its schema in docs/schema/, by another program.
#include "tests/plugin/cli_world.h"
#include "tests/support/fixture.h"

namespace nomad_bridge::test {
namespace {

// argv[1]: the directory of the schemas, argv[2]: one of them. jsonschema before 4.18 has no
// registry.
constexpr const char* kValidate = R"(
import json, pathlib, sys, warnings
warnings.simplefilter("ignore")
import jsonschema
schemas = {p.name: json.loads(p.read_text()) for p in pathlib.Path(sys.argv[1]).glob("*.json")}
schema = schemas[sys.argv[2]]
jsonschema.Draft202012Validator.check_schema(schema)
resolver = jsonschema.RefResolver(sys.argv[2], schema, store=schemas)
document = json.load(sys.stdin)
for error in jsonschema.Draft202012Validator(schema, resolver=resolver).iter_errors(document):
    print(error.json_path, error.message)
)";

class Schema : public CliWorld {
 protected:
  void SetUp() override {
    Attach(Publish({Port(8080, 80), Port(53, 53, "udp", kHostIp4)}),
           As("5f3c1a2b", container(), NomadArgs("billing", "5f3c1a2b")));
  }
  void ExpectValid(const std::string& line, const std::string& schema) {
    const Outcome printed = RunLine(line);
    ASSERT_EQ(printed.json.value("version", 0), 1) << line << '\n' << printed;
    EXPECT_THAT(
        host().Run({"python3", "-c", kValidate, ProjectPath("docs/schema"), schema}, printed.out),
        Exits(0, Out("")))
        << line << '\n'
        << printed.out;
  }
};

TEST_F(Schema, HoldsForEveryCommand) {
  ExpectValid("list -json", "list.json");
  ExpectValid("list -json job=none", "list.json");
  ExpectValid("inspect -json 8080", "inspect.json");
  ExpectValid("doctor -json", "doctor.json");
  ExpectValid("reconcile -dry-run -json", "reconcile.json");
  ExpectValid("gc -dry-run -json", "reconcile.json");
}

TEST_F(Schema, HoldsForEveryStateOfAnAttachment) {
  AttachDead("9d01c7e4");
  Attach(Config(), As("aaaa", AddContainer("damaged")));
  std::ofstream(RecordOf("aaaa")) << "{";
  Attach(Config(), As("bbbb", AddContainer("lost")));
  fs::remove(RecordOf("bbbb"));
  static_cast<void>(Output("help"));

  ExpectValid("list -json", "list.json");
  for (const char* const name : {"9d01", "aaaa", "bbbb"}) {
    ExpectValid(Cat("inspect -json ", name), "inspect.json");
  }
  ExpectValid("gc -dry-run -json", "reconcile.json");
  ExpectValid("doctor -json", "doctor.json");
}

TEST_F(Schema, HoldsForGoodAndBadConfigs) {
  fs::create_directories("/run/configs");
  std::ofstream("/run/configs/10-good.conflist") << json{
      {"cniVersion", "1.0.0"}, {"name", "other"}, {"plugins", {kOther, {{"type", "consul-cni"}}}}};
  std::ofstream("/run/configs/20-lan.conf")
      << Config({{"name", "lan"}, {"bridge", "br0"}, {"isGateway", false}});
  std::ofstream("/run/configs/30-bad.conf") << "{";
  ExpectValid("config check -json /run/configs/10-good.conflist /run/configs/30-bad.conf /nowhere",
              "config-check.json");
  ExpectValid("up -json -dry-run /run/configs", "up.json");
  ExpectValid("up -json /run/configs", "up.json");
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
