// nomad-bridge config check FILE...: what an ADD would refuse, before there is one.
#include <regex>
#include <sstream>

#include <sys/stat.h>
#include <unistd.h>

#include "tests/plugin/cli_world.h"
#include "tests/support/fixture.h"

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
  const json ports = {{"portMappings", true}};
  const std::string list =
      Write(List({{{"type", "nomad-bridge"}, {"capabilities", ports}}, {{"type", "consul-cni"}}}));
  const std::string single = Write(DualStack({{"capabilities", ports}}), "y.conf");
  EXPECT_EQ(Output(Format("config check {} {}", list, single)),
            "/run/x.conflist: ok, network 'web'\n"
            "/run/y.conf: ok, network 'nomad'\n");
}

TEST_F(ConfigCheck, NamesFileKeyAndRange) {
  const std::vector<std::pair<json, std::string>> cases = {
      {List({{{"type", "nomad-bridge"}, {"mtu", 12}}}), "'mtu'"},
      {List({{{"type", "bridge"}, {"vlan", 5000}}}), "'vlan'"},
      {List({{{"type", "nomad-bridge"}, {"ipam", {{"subnet", "10.0.0.1/24"}}}}}), "subnet"},
      {List({{{"type", "nomad-bridge"}, {"ingressPolicy", "wide"}}}), "'ingressPolicy'"},
      {{{"cniVersion", "1.0.0"}, {"name", "web"}},
       "there is no 'plugins', which a .conflist needs"},
      {DualStack(), "there is no 'plugins', which a .conflist needs"},
      {List({{{"type", "nomad_bridge"}}}), "'nomad_bridge' in "},
      {List({{{"type", "nomad_bridge"}}}), "; did you mean 'nomad-bridge'?"},
      {List({{{"type", "nomad-bridge"}, {"ipam", {{"type", "host-locl"}}}}}),
       "; did you mean 'host-local'?"},
      {List({{{"bridge", "web"}}}), "'plugins[0]' has no 'type'"},
      {List(json::array()), "invalid 'plugins': []: allowed: an array with at least one object"},
      {List({{{"type", "nomad-bridge"}}, {{"type", "bridge"}}}),
       "two of the 'plugins' make the container's interface"},
      {{{"cniVersion", "9.0.0"}, {"name", "web"}, {"plugins", {{{"type", "nomad-bridge"}}}}},
       "9.0.0"}};
  for (const auto& [config, key] : cases) {
    const std::string path = Write(config);
    EXPECT_THAT(RunLine(Cat("config check ", path)),
                Exits(1, Out(""), Err(AllOf(HasSubstr("/run/x.conflist"), HasSubstr(key)))))
        << config;
  }
}

TEST_F(ConfigCheck, TakesTheShapeFromTheNameOfTheFile) {
  const json list = List({{{"type", "nomad-bridge"}}});
  for (const char* const name : {"x.conf", "x.json"}) {
    EXPECT_THAT(
        RunLine(Cat("config check ", Write(list, name))),
        Exits(1, Out(""), Err(HasSubstr("there is 'plugins', which only a .conflist may"))));
    EXPECT_EQ(RunLine(Cat("config check ", Write(DualStack(), name))).exit_code, 0);
    EXPECT_THAT(RunLine(Cat("config check ", Write({{"name", "web"}}, name))),
                Exits(1, Err(HasSubstr("there is neither 'plugins' nor 'type'"))));
  }
}

TEST_F(ConfigCheck, SaysThatAListHasNoPluginOfOurs) {
  EXPECT_EQ(
      Output(Cat("config check ", Write(List({{{"type", "macvlan"}}, {{"type", "tuning"}}})))),
      "/run/x.conflist: no plugin of ours in network 'web'\n");
}

// Somebody's own, whatever it is called.
TEST_F(ConfigCheck, AcceptsANameNearOursIfThatPluginIsInstalled) {
  fs::create_directory("/run/plugins");
  std::ofstream("/run/plugins/mybridge") << "#!/bin/sh\n";
  const std::vector<std::string> line = {"config", "check", Write(List({{{"type", "mybridge"}}}))};
  EXPECT_EQ(Run(line).exit_code, 1);
  EXPECT_EQ(Run(line, {{"CNI_PATH", "/run/plugins"}}).exit_code, 0);
}

// Our parser takes it for white space, and Go's does not.
TEST_F(ConfigCheck, RefusesAByteOrderMark) {
  const std::string path = "/run/x.conflist";
  std::ofstream(path) << "\xEF\xBB\xBF" << List({{{"type", "nomad-bridge"}}}).dump();
  EXPECT_THAT(RunLine(Cat("config check ", path)),
              Exits(1, Out(""), Err(HasSubstr("begins with a byte order mark"))));
}

TEST_F(ConfigCheck, SaysTheSameAsAnAdd) {
  const json config = Config(R"({"hairpinMode": true, "promiscMode": true})");
  const Outcome add = RunPlugin("ADD", config);
  ASSERT_EQ(add.exit_code, 1);
  EXPECT_THAT(RunLine(Cat("config check ", Write(config, "x.conf"))).err, HasSubstr(Msg(add)));
}

TEST_F(ConfigCheck, NamesUnknownKeysAndSuggestsNearOnes) {
  const std::string path =
      Write(List({{{"type", "nomad-bridge"},
                   {"capabilities", {{"portMappings", true}}},
                   {"ingresPolicy", "isolated"},
                   {"colour", "blue"},
                   {"_comment", "ours"},
                   {"ipam", {{"subnet", "10.0.0.0/24"}, {"rangStart", ""}}}}}));
  EXPECT_THAT(RunLine(Cat("config check ", path)),
              Exits(0,
                    Err("nomad-bridge: /run/x.conflist: unknown key 'colour'\n"
                        "nomad-bridge: /run/x.conflist: unknown key 'ingresPolicy'; did you mean "
                        "'ingressPolicy'?\n"
                        "nomad-bridge: /run/x.conflist: unknown key 'ipam.rangStart'; did you mean "
                        "'rangeStart'?\n")));
  EXPECT_THAT(MustRun("ADD", Config({{"ingresPolicy", "isolated"}, {"colour", "blue"}})).err,
              AllOf(HasSubstr("unknown key 'ingresPolicy'; did you mean 'ingressPolicy'?"),
                    Not(HasSubstr("colour"))));
}

TEST_F(ConfigCheck, RemarksOnKeysInTheWrongPlace) {
  const std::string path =
      Write({{"name", "web"},
             {"mtu", 1400},
             {"plugins",
              {{{"type", "nomad-bridge"}, {"subnet", "10.0.0.0/24"}},
               {{"type", "consul-cni"}},
               {{"type", "portmap"}, {"capabilities", {{"portMappings", true}}}}}}});
  EXPECT_THAT(
      RunLine(Cat("config check ", path)),
      Exits(0,
            Out("/run/x.conflist: ok, network 'web'\n"),
            Err("nomad-bridge: /run/x.conflist: unknown key 'subnet'; did you mean 'ipam.subnet'?\n"
                "nomad-bridge: /run/x.conflist: there is no 'cniVersion', which means 0.1.0\n"
                "nomad-bridge: /run/x.conflist: 'mtu' beside 'plugins' has no effect: a plugin's "
                "keys "
                "belong in its own object\n")));
  const std::string other = Write(List({{{"type", "nomad-bridge"}, {"ipam", {{"type", "dhcp"}}}}}));
  EXPECT_THAT(RunLine(Cat("config check ", other)).err, Not(HasSubstr("dhcp")));
}

// As null each is the same as absent.
TEST_F(ConfigCheck, KnowsEveryKeyThatIsDocumented) {
  json config = Config({{"capabilities", {{"portMappings", true}}}});
  std::istringstream lines(FindFile(ProjectPath("docs/configuration.md")).value());
  const std::regex row(R"(^\| (`[A-Za-z0-9]+`(?:, `[A-Za-z0-9]+`)*) .*)");
  const std::regex name("`([A-Za-z0-9]+)`");
  int count = 0;
  for (std::string line; std::getline(lines, line) && line != "## Of the node";) {
    if (std::smatch found; std::regex_match(line, found, row)) {
      const std::string keys = found[1];
      for (std::sregex_iterator key(keys.begin(), keys.end(), name), end; key != end; ++key) {
        // The others are names of plugins, and what a runtime gives.
        if (!std::set<std::string>{
                "firewall", "loopback", "portmap", "ips", "ipRanges", "portMappings"}
                 .contains(key->str(1))) {
          config.emplace(key->str(1), nullptr);
          ++count;
        }
      }
    }
  }
  EXPECT_GT(count, 30);
  EXPECT_EQ(RunLine(Cat("config check ", Write(config, "x.conf"))).err, "");
}

TEST_F(ConfigCheck, RemarksOnAMissingPortCapability) {
  EXPECT_THAT(RunLine(Cat("config check ", Write(List({{{"type", "nomad-bridge"}}})))),
              Exits(0,
                    Err("nomad-bridge: /run/x.conflist: no port is published: 'nomad-bridge' lacks "
                        R"("capabilities": {"portMappings": true})"
                        "\n")));
}

TEST_F(ConfigCheck, RefusesTwoConflictingNetworks) {
  const json capable = {{"capabilities", {{"portMappings", true}}}};
  const std::string one = Write(Config(capable), "one.conf");
  const std::string same = Write(Config(capable), "same.conf");
  json other = kOther;
  other["capabilities"] = capable.at("capabilities");
  other["ipam"]["subnet"] = "172.26.65.0/24";
  const std::string overlapping = Write(other, "other.conf");
  EXPECT_THAT(RunLine(Format("config check {} {}", one, same)),
              Exits(1, Err(HasSubstr("network 'nomad' is also in '/run/one.conf'"))));
  EXPECT_THAT(RunLine(Format("config check {} {}", one, overlapping)),
              Exits(1,
                    Err(HasSubstr("subnet 172.26.65.0/24 overlaps with 172.26.64.0/20 of network "
                                  "'nomad' in '/run/one.conf'"))));
}

TEST_F(ConfigCheck, AWholeListIsNoConfigOfAPlugin) {
  EXPECT_THAT(Msg(RunPlugin("ADD", List({{{"type", "nomad-bridge"}}}))),
              "the config is a whole list: it has 'plugins'");
}

TEST_F(ConfigCheck, ChecksAllFilesAndExitsTwoIfOneIsMissing) {
  std::ofstream("/run/broken.conflist") << "{";
  const std::string good = Write(DualStack(), "y.conf");
  EXPECT_THAT(RunLine(Cat("config check /run/broken.conflist /run/absent ", good)),
              Exits(2,
                    Err(HasSubstr("/run/broken.conflist")),
                    Err(HasSubstr("nomad-bridge: /run/absent: there is no such file\n")),
                    Out("/run/y.conf: ok, network 'nomad'\n")));
}

TEST_F(ConfigCheck, SaysTheSameInJson) {
  const std::string good =
      Write(List({{{"type", "nomad-bridge"}, {"colour", "blue"}}, {{"type", "consul-cni"}}}));
  const std::string bad = Write(DualStack({{"mtu", 12}}), "y.conf");
  const std::vector<std::string> line = {"config", "check", good, bad, "/run/absent"};
  const Outcome text = Run(line);
  std::vector<std::string> with_json = line;
  with_json.emplace_back("-json");
  const Outcome outcome = Run(with_json);
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.err, text.err);
  const json files = outcome.json.at("files");
  ASSERT_EQ(files.size(), 3U);
  EXPECT_EQ(files.at(0),
            (json{{"file", good},
                  {"valid", true},
                  {"error", nullptr},
                  {"network", "web"},
                  {"notChecked", {"consul-cni"}},
                  {"remarks",
                   {"unknown key 'colour'",
                    "no port is published: 'nomad-bridge' lacks "
                    R"("capabilities": {"portMappings": true})"}}}));
  EXPECT_EQ(files.at(1).at("valid"), false);
  EXPECT_THAT(std::string(files.at(1).at("error")), HasSubstr("'mtu'"));
  EXPECT_EQ(files.at(2).at("valid"), nullptr);
}

// As of a shell's <(...), which can be read once.
TEST_F(ConfigCheck, ReadsAFileOnce) {
  const std::string list = Write(List({{{"type", "nomad-bridge"}}}));
  const std::string through_pipe =
      Format("(sleep 0.1; cat {}) | {} config check /dev/stdin", list, BinaryUnderTest());
  EXPECT_EQ(host().Shell(through_pipe), "/dev/stdin: ok, network 'web'\n");
}

TEST_F(ConfigCheck, WaitsForTheWriterOfAFifo) {
  const std::string list = Write(List({{{"type", "nomad-bridge"}}}));
  ASSERT_EQ(::mkfifo("/run/fifo", 0600), 0);
  const std::string through_fifo = Format(
      "(sleep 0.3; cat {} > /run/fifo) & {} config check /run/fifo", list, BinaryUnderTest());
  EXPECT_EQ(host().Shell(through_fifo), "/run/fifo: ok, network 'web'\n");
}

TEST_F(ConfigCheck, ExitsTwoForADirectory) {
  EXPECT_THAT(RunLine("config check /run"), Exits(2, Err(HasSubstr("/run': Is a directory"))));
}

TEST_F(ConfigCheck, NeedsNoRootAndChangesNothing) {
  const Command command = LineWithoutRoot({"config", "check", Write(DualStack(), "x.conf")});
  const Snapshot before = TakeSnapshot();
  EXPECT_EQ(Execute(command).exit_code, 0);
  EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
}

TEST_F(ConfigCheck, NeedsAFile) {
  EXPECT_EQ(RunLine("config check").exit_code, 2);
  EXPECT_EQ(RunLine("config").exit_code, 2);
  EXPECT_EQ(RunLine("config chekc x").exit_code, 2);
}

}  // namespace
}  // namespace nomad_bridge::test
