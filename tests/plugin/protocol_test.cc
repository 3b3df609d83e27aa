// CNI as the binary implements it: versions, environment, stdin, stdout, errors.
#include <unistd.h>

#include "tests/support/world.h"

namespace nomad_bridge::test {
namespace {

constexpr std::array kVersions = {"0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"};

class CniProtocol : public World {};

// ---- every version

class EveryVersion : public CniProtocol, public ::testing::WithParamInterface<const char*> {
 protected:
  [[nodiscard]] static std::string version() { return GetParam(); }
};

INSTANTIATE_TEST_SUITE_P(Every, EveryVersion, ::testing::ValuesIn(kVersions), kNameOfText);

TEST_P(EveryVersion, CheckCameWith040) {
  const json result = Attach(Config({{"cniVersion", version()}}));

  const Outcome check = RunPlugin("CHECK", WithResult(Config({{"cniVersion", version()}}), result));

  if (version() >= "0.4.0") {
    EXPECT_EQ(check.exit_code, 0) << check;
    EXPECT_EQ(check.out, "");
  } else {
    EXPECT_EQ(check.exit_code, 1);
    EXPECT_EQ(ErrorCode(check), 1);
    EXPECT_EQ(check.json.at("msg"), "config version does not allow CHECK");
  }
}

TEST_P(EveryVersion, GcAndStatusCameWith110) {
  for (const char* verb : {"GC", "STATUS"}) {
    const Outcome outcome = RunPlugin(verb, Config({{"cniVersion", version()}}));
    if (version() >= "1.1.0") {
      EXPECT_EQ(outcome.exit_code, 0) << outcome;
      EXPECT_EQ(outcome.out, "");
    } else {
      EXPECT_EQ(outcome.exit_code, 1);
      EXPECT_EQ(ErrorCode(outcome), 1);
      EXPECT_EQ(outcome.json.at("msg"), Cat("config version does not allow ", verb));
    }
  }
}

TEST_P(EveryVersion, ErrorsAreInItsShape) {
  const Outcome add = RunPlugin("ADD", Config({{"cniVersion", version()}, {"mtu", 12}}));
  EXPECT_EQ(add.json.at("cniVersion"), version());
  EXPECT_EQ(ErrorCode(add), 7);
}

TEST_F(CniProtocol, NoVersionAndEmptyVersionAreTheOldest) {
  const json without = Config({{"cniVersion", nullptr}});
  EXPECT_EQ(Attach(without).at("cniVersion"), "0.1.0");
  Detach(without);
  EXPECT_EQ(Attach(Config({{"cniVersion", ""}})).at("cniVersion"), "0.1.0");
}

// ---- VERSION, and no command at all

TEST_F(CniProtocol, VersionListsAllWithDummyEnvironment) {
  const Outcome outcome = RunPlugin("VERSION",
                                    R"({"cniVersion":"1.1.0"})",
                                    {{"CNI_CONTAINERID", ""},
                                     {"CNI_NETNS", "dummy"},
                                     {"CNI_IFNAME", "dummy"},
                                     {"CNI_PATH", "dummy"}});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.json.at("cniVersion"), "1.1.0");
  EXPECT_EQ(outcome.json.at("supportedVersions"), json(kVersions));
}

TEST_F(CniProtocol, VersionWorksWithStdinClosed) {
  Command command = PluginCommand("VERSION", "");
  command.in_child = [] { ::close(STDIN_FILENO); };
  EXPECT_EQ(Execute(command).json.at("supportedVersions"), json(kVersions));
}

TEST_F(CniProtocol, PrintsTheLineThatNomadReadsWithoutACommand) {
  EXPECT_THAT(RunPlugin("", "", {{"CNI_COMMAND", std::nullopt}}),
              Exits(0,
                    Out(""),
                    Err("CNI nomad-bridge plugin v2.0.0\n"
                        "CNI protocol versions supported: 0.1.0, 0.2.0, 0.3.0, 0.3.1, 0.4.0, "
                        "1.0.0, 1.1.0\n")));
}

// ---- invalid input: the first mistake is reported, and nothing has been touched

const std::string kGood = R"({"cniVersion":"1.0.0","name":"nomad","type":"nomad-bridge"})";

struct BadCall : Named {
  int code;
  const char* expected;  // in msg or details
  std::string verb = "ADD";
  Variables variables = {};
  std::string input = kGood;
};

std::vector<BadCall> BadEnvironments() {
  const auto with = [](const char* variable, const char* value) -> Variables {
    return {{variable, value}};
  };
  const char* id = "CNI_CONTAINERID";
  const char* ifname = "CNI_IFNAME";
  const char* netns = "CNI_NETNS";
  return {
      {"NothingThere",
       4,
       "required env variables [CNI_CONTAINERID,CNI_NETNS,CNI_IFNAME] missing",
       "ADD",
       {{id, std::nullopt}, {netns, std::nullopt}, {ifname, ""}}},
      {"NoContainerOnDel", 4, id, "DEL", with(id, "")},
      {"NoNetnsOnCheck", 4, "[CNI_NETNS]", "CHECK", with(netns, "")},
      {"ContainerIdClimbs", 4, "'../../x'", "ADD", with(id, "../../x")},
      {"IfnameWithSlash", 4, "'eth/0'", "ADD", with(ifname, "eth/0")},
      {"IfnameWithColon", 4, "'eth0:1'", "ADD", with(ifname, "eth0:1")},
      {"ComesBeforeStdin", 4, ifname, "ADD", with(ifname, ""), "{"},
      {"NamespaceIsAPlainFile", 4, "/etc/hostname", "ADD", with(netns, "/etc/hostname")},
      {"NamespaceOfAnotherKind", 4, "/proc/self/ns/mnt", "ADD", with(netns, "/proc/self/ns/mnt")},
      {"NoSuchNamespace", 4, "/run/netns/gone", "ADD", with(netns, "/run/netns/gone")},
      {"HostsOwnNamespaceOnAdd", 8, "/proc/self/ns/net", "ADD", with(netns, "/proc/self/ns/net")},
      {"HostsOwnNamespaceOnDel", 8, "/run/netns/host", "DEL", with(netns, "/run/netns/host")},
      {"ArgsWithoutValue", 4, "CNI_ARGS", "ADD", with("CNI_ARGS", "IP")},
  };
}

std::vector<BadCall> BadConfigs() {
  const Variables usual;
  std::string ten_megabytes;
  ten_megabytes.resize(std::size_t{10} << 20, ' ');
  const auto of_version = [](const char* version) {
    return Cat(R"({"cniVersion":")", version, R"(","name":"nomad"})");
  };
  return {
      {"Empty", 6, "stdin", "ADD", usual, ""},
      {"HalfAnObject", 6, "stdin", "ADD", usual, R"({"name":"nomad")"},
      {"TruncatedUtf8", 6, "stdin", "ADD", usual, "{\"name\":\"nomad\",\"x\":\"\xc3\"}"},
      {"AnArray", 6, "stdin", "ADD", usual, "[]"},
      {"TwoDocuments", 6, "stdin", "ADD", usual, kGood + kGood},
      {"TenMegabytes", 5, "stdin", "ADD", usual, ten_megabytes + kGood},
      {"NoName", 7, "missing network name", "ADD", usual, R"({"cniVersion":"1.0.0"})"},
      {"NameIsANumber", 6, "name", "ADD", usual, R"({"cniVersion":"1.0.0","name":1})"},
      {"NameClimbs", 7, "'../x'", "ADD", usual, R"({"cniVersion":"1.0.0","name":"../x"})"},
      {"NameComesBeforeCommand", 7, "network name", "FROB", usual, R"({"cniVersion":"1.0.0"})"},
      {"UnknownCommand", 4, "unknown CNI_COMMAND: FROB", "FROB"},
      {"FutureVersion", 1, "\"9.9.9\"", "ADD", usual, of_version("9.9.9")},
      {"NoVersionAtAllOnCheck", 6, "'x'", "CHECK", usual, of_version("x")},
  };
}

class InvalidCall : public CniProtocol, public ::testing::WithParamInterface<BadCall> {};

INSTANTIATE_TEST_SUITE_P(Environment, InvalidCall, ::testing::ValuesIn(BadEnvironments()), kNameOf);
INSTANTIATE_TEST_SUITE_P(Config, InvalidCall, ::testing::ValuesIn(BadConfigs()), kNameOf);

TEST_P(InvalidCall, IsAnErrorByNameAndTouchesNothing) {
  const BadCall& call = GetParam();
  const Snapshot before = TakeSnapshot();

  const Outcome outcome = RunPlugin(call.verb, call.input, call.variables);

  EXPECT_EQ(outcome.exit_code, 1);
  ASSERT_TRUE(outcome.json.is_object()) << "stdout must be one JSON document: " << outcome;
  EXPECT_EQ(ErrorCode(outcome), call.code) << outcome;
  const std::string text = Cat(Msg(outcome), "\n", Details(outcome));
  EXPECT_THAT(text, HasSubstr(call.expected));
  EXPECT_THAT(text, Not(HasSubstr("not found"))) << "go-cni takes that for success";
  EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
}

TEST_F(CniProtocol, AnErrorIsOneDocumentAndOneLineForTheLog) {
  const Outcome add = RunPlugin("ADD", Config({{"mtu", 12}}));
  for (const char* key : {"cniVersion", "code", "msg", "details"}) {
    EXPECT_TRUE(add.json.contains(key)) << key;
  }
  EXPECT_THAT(add.err, StartsWith("nomad-bridge: "));
  EXPECT_EQ(std::count(add.err.begin(), add.err.end(), '\n'), 1);
}

TEST_F(CniProtocol, TheHostsNamespaceIsAllowedWithTheOverride) {
  const Variables on_purpose = {{"CNI_NETNS", host().path()}, {"CNI_NETNS_OVERRIDE", "1"}};
  EXPECT_EQ(RunPlugin("DEL", Config(), on_purpose).exit_code, 0);
}

TEST_F(CniProtocol, KeysMayHaveAnyLetterCase) {
  const json result = Attach(json::parse(R"({
    "CNIVERSION": "1.0.0", "Name": "nomad", "tYpe": "nomad-bridge", "BRIDGE": "br-upper",
    "Ipam": {"RANGES": [[{"Subnet": "10.9.0.0/24", "rangestart": "10.9.0.77"}]]},
    "RUNTIMECONFIG": {"portmappings": [{"HOSTPORT": 8080, "containerport": 80, "protocol": "tcp"}]}})"));
  EXPECT_EQ(result.at("interfaces").at(0).at("name"), "br-upper");
  EXPECT_EQ(AddressOf(result), "10.9.0.77");
  ExpectPublished(container());
}

}  // namespace
}  // namespace nomad_bridge::test
