// nomad-bridge config check FILE...: what an ADD would refuse, before there is one.
#include <unistd.h>

#include "tests/plugin/cli_world.h"

namespace nomad_bridge::test {
namespace {

class ConfigCheck : public CliWorld {
 protected:
  static std::string Write(const json& config, const std::string& name = "x.conflist") {
    std::string path = Cat("/run/", name);
    std::ofstream(path) << config.dump(2);
    return path;
  }
  static json List(const json& plugins) {
    return {{"cniVersion", "1.0.0"}, {"name", "web"}, {"plugins", plugins}};
  }
};

TEST_F(ConfigCheck, TakesListsAndSinglePlugins) {
  const std::string list = Write(List({{{"type", "nomad-bridge"}}, {{"type", "consul-cni"}}}));
  const std::string single = Write(DualStack(), "y.conf");
  EXPECT_EQ(Output(Format("config check {} {}", list, single)),
            "/run/x.conflist: ok, network 'web'; not ours, not checked: 'consul-cni'\n"
            "/run/y.conf: ok, network 'nomad'\n");
}

TEST_F(ConfigCheck, NamesFileKeyAndRange) {
  const std::vector<std::pair<json, std::string>> cases = {
      {List({{{"type", "nomad-bridge"}, {"mtu", 12}}}), "'mtu'"},
      {List({{{"type", "bridge"}, {"vlan", 5000}}}), "'vlan'"},
      {List({{{"type", "nomad-bridge"}, {"ipam", {{"subnet", "10.0.0.1/24"}}}}}), "subnet"},
      {List({{{"type", "nomad-bridge"}, {"ingressPolicy", "wide"}}}), "'ingressPolicy'"},
      {{{"cniVersion", "1.0.0"}, {"name", "web"}}, "'type'"},
      {{{"cniVersion", "9.0.0"}, {"name", "web"}, {"plugins", {{{"type", "nomad-bridge"}}}}},
       "9.0.0"}};
  for (const auto& [config, key] : cases) {
    const std::string path = Write(config);
    EXPECT_THAT(RunLine(Cat("config check ", path)),
                Exits(1, Out(""), Err(AllOf(HasSubstr("/run/x.conflist"), HasSubstr(key)))))
        << config;
  }
}

TEST_F(ConfigCheck, SaysTheSameAsAnAdd) {
  const json config = Config(R"({"hairpinMode": true, "promiscMode": true})");
  const Outcome add = RunPlugin("ADD", config);
  ASSERT_EQ(add.exit_code, 1);
  EXPECT_THAT(RunLine(Cat("config check ", Write(config, "x.conf"))).err, HasSubstr(Msg(add)));
}

TEST_F(ConfigCheck, ChecksAllFilesAndExitsOneForAny) {
  std::ofstream("/run/broken.conflist") << "{";
  const std::string good = Write(DualStack(), "y.conf");
  EXPECT_THAT(RunLine(Cat("config check /run/broken.conflist /run/absent ", good)),
              Exits(1,
                    Err(HasSubstr("/run/broken.conflist")),
                    Err(HasSubstr("nomad-bridge: /run/absent: there is no such file\n")),
                    Out("/run/y.conf: ok, network 'nomad'\n")));
}

TEST_F(ConfigCheck, NeedsNoRootAndChangesNothing) {
  const Command command = LineWithoutRoot({"config", "check", Write(DualStack())});
  const Snapshot before = TakeSnapshot();
  EXPECT_EQ(Execute(command).exit_code, 0);
  EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
}

TEST_F(ConfigCheck, WantsAFile) {
  EXPECT_EQ(RunLine("config check").exit_code, 2);
  EXPECT_EQ(RunLine("config").exit_code, 2);
  EXPECT_EQ(RunLine("config chekc x").exit_code, 2);
}

}  // namespace
}  // namespace nomad_bridge::test
