#include <fcntl.h>

#include "plugin/cni/plugin_type.h"
#include "plugin/cni/version.h"
#include "tests/support/test.h"
#include "tests/unit/read_request.h"

namespace nomad_bridge {
namespace {

using test::MemoryFile;
using test::ReadFrom;

using Variables = test::RuntimeVariables;

const Variables kAdd = {{"CNI_COMMAND", "ADD"},
                        {"CNI_CONTAINERID", "5f3c1a2b-0000"},
                        {"CNI_NETNS", "/run/netns/x"},
                        {"CNI_IFNAME", "eth0"}};
constexpr const char* kConfig = R"({"cniVersion":"1.0.0","name":"nomad","type":"nomad-bridge"})";

Variables With(Variables variables, const std::string& name, const std::string& value) {
  variables[name] = value;
  return variables;
}

struct Answer {
  cni::Request request;
  std::string reply_version = "1.1.0";
};

Answer Read(const Variables& variables, const std::string& stdin_text = kConfig) {
  Answer answer;
  answer.request = ReadFrom(MemoryFile(stdin_text).get(), variables, answer.reply_version);
  return answer;
}

Error Refused(const Variables& variables, const std::string& stdin_text = kConfig) {
  return Caught([&] { return Read(variables, stdin_text); });
}

std::string ConfigOf(const std::string& version) {
  return Cat(R"({"name":"nomad","cniVersion":")", version, "\"}");
}

TEST(ReadRequest, ReadsAllOfIt) {
  Variables variables = With(kAdd, "CNI_ARGS", "IgnoreUnknown=1;A=B=C");
  variables["CNI_NETNS_OVERRIDE"] = "TRUE";
  const auto [request, reply_version] = Read(variables);
  EXPECT_EQ(request.verb, cni::Verb::kAdd);
  EXPECT_EQ(request.id, (AttachmentId{"nomad", "5f3c1a2b-0000", "eth0"}));
  EXPECT_EQ(request.netns_path, "/run/netns/x");
  EXPECT_TRUE(request.netns_override);
  EXPECT_EQ(request.args, "IgnoreUnknown=1;A=B=C");
  EXPECT_EQ(request.cni_version, "1.0.0");
  EXPECT_EQ(reply_version, "1.0.0");
  EXPECT_EQ(request.config->at("type"), "nomad-bridge");
}

TEST(ReadRequest, NamesEveryMissingVariableInOneMessage) {
  EXPECT_EQ(Refused({}).msg(), "required env variables [CNI_COMMAND] missing");
  EXPECT_THAT(Refused({{"CNI_COMMAND", "ADD"}, {"CNI_NETNS", ""}}),
              IsError(Code::kInvalidEnvironment,
                      "required env variables [CNI_CONTAINERID,CNI_NETNS,CNI_IFNAME] missing"));
  EXPECT_EQ(Refused({{"CNI_COMMAND", "CHECK"}, {"CNI_CONTAINERID", "a"}}).msg(),
            "required env variables [CNI_NETNS,CNI_IFNAME] missing");
}

TEST(ReadRequest, NeedsNoNamespaceForDel) {
  const auto [request, reply_version] =
      Read(With(With(kAdd, "CNI_COMMAND", "DEL"), "CNI_NETNS", ""));
  EXPECT_EQ(request.netns_path, "");
  EXPECT_EQ(Refused({{"CNI_COMMAND", "DEL"}}).msg(),
            "required env variables [CNI_CONTAINERID,CNI_IFNAME] missing");
}

TEST(ReadRequest, NeedsNoIdentityForGcAndStatus) {
  for (const char* const command : {"GC", "STATUS"}) {
    const Answer answer =
        Read({{"CNI_COMMAND", command}, {"CNI_CONTAINERID", "../x"}}, ConfigOf("1.1.0"));
    EXPECT_EQ(cni::Text(answer.request.verb), command);
    EXPECT_EQ(answer.request.id, (AttachmentId{.network = "nomad"}));
  }
}

TEST(ReadRequest, ReadsNoStdinForVersion) {
  std::string reply_version;
  EXPECT_EQ(ReadFrom(-1, {{"CNI_COMMAND", "VERSION"}}, reply_version).verb, cni::Verb::kVersion);
}

TEST(ReadRequest, RefusesContainerIdsThatAreNoPlainNames) {
  for (const std::string id :
       {"..", "../x", ".a", "-a", "_a", "a/b", "a b", "a\n", "a:b", "\xc3\xa9", "a;b"}) {
    EXPECT_THAT(Refused(With(kAdd, "CNI_CONTAINERID", id)),
                IsError(Code::kInvalidEnvironment, HasSubstr("CNI_CONTAINERID")))
        << id;
  }
  EXPECT_EQ(Read(With(kAdd, "CNI_CONTAINERID", "a..b_-")).request.id.container_id, "a..b_-");
  EXPECT_EQ(Read(With(kAdd, "CNI_CONTAINERID", std::string(4000, '7'))).request.verb,
            cni::Verb::kAdd);
}

TEST(ReadRequest, RefusesInterfaceNamesTheKernelWouldNotTake) {
  const auto names = R"(["sixteen-bytes-xx", "a/b", "a:b", "a b", "a\t", "eth0\n", ".", "..",
                         "eth%d", "a\u0085", "a\u00a0", "\u3000"])"_json;
  for (const json& name : names) {
    EXPECT_THAT(Refused(With(kAdd, "CNI_IFNAME", name)),
                IsError(Code::kInvalidEnvironment, HasSubstr("CNI_IFNAME")))
        << name;
  }
  EXPECT_EQ(Read(With(kAdd, "CNI_IFNAME", "fifteen-bytes-x")).request.id.ifname, "fifteen-bytes-x");
}

TEST(ReadRequest, ChecksMalformedVariablesBeforeMissingOnes) {
  EXPECT_THAT(Refused({{"CNI_COMMAND", "ADD"}, {"CNI_IFNAME", "a/b"}}).msg(),
              HasSubstr("CNI_IFNAME is"));
}

TEST(ReadRequest, ChecksVariablesBeforeStdin) {
  EXPECT_EQ(Refused({{"CNI_COMMAND", "ADD"}}, "").code(), Code::kInvalidEnvironment);
}

TEST(ReadRequest, RefusesStdinThatIsNoObject) {
  for (const char* const text :
       {"", " ", "[]", "null", "5", "\"name\"", "{", "{}{}", "{\"name\":\"\xc3"}) {
    EXPECT_EQ(Refused(kAdd, text).code(), Code::kDecode) << text;
  }
  EXPECT_EQ(Refused(kAdd, "").msg(), "stdin is empty");
}

TEST(ReadRequest, RefusesTenMegabytesNamingTheLimit) {
  std::string text = R"({"name":"nomad"})";
  text.resize(10'000'000, ' ');
  EXPECT_THAT(Refused(kAdd, text), IsError(Code::kIo, HasSubstr("stdin"), HasSubstr("8388608")));
}

TEST(ReadRequest, RefusesStdinThatCannotBeRead) {
  const UniqueFd write_only(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  std::string reply_version;
  EXPECT_EQ(Caught([&] {
              return ReadFrom(write_only.get(), {{"CNI_COMMAND", "STATUS"}}, reply_version);
            }).code(),
            Code::kIo);
}

TEST(ReadRequest, ChecksTheNetworksName) {
  for (const char* const config : {"{}", R"({"name":""})", R"({"name":null})"}) {
    EXPECT_THAT(Refused(kAdd, config), IsError(Code::kInvalidConfig, "missing network name"));
  }
  for (const char* const name : {"..", "a/b", "a b", "-a", "\\n", "a\\u0000"}) {
    EXPECT_THAT(Refused(kAdd, Cat(R"({"name":")", name, "\"}")),
                IsError(Code::kInvalidConfig, HasSubstr("'name'")))
        << name;
  }
  EXPECT_EQ(Refused(kAdd, R"({"name":5})").code(), Code::kDecode);
}

TEST(ReadRequest, ReadsKeysInAnyLetterCase) {
  const Answer answer = Read(kAdd, R"({"Name":"b","CNIVERSION":"0.3.1"})");
  EXPECT_EQ(answer.request.id.network, "b");
  EXPECT_EQ(answer.request.cni_version, "0.3.1");
}

TEST(ReadRequest, RefusesAKeyInTwoLetterCasesOnAddAndCheckOnly) {
  const std::string config =
      R"({"NAME":"a","cniVersion":"1.1.0","name":"b","IPAM":{"dataDir":"/a","DataDir":"/b"}})";
  for (const char* const command : {"ADD", "CHECK"}) {
    EXPECT_THAT(Refused(With(kAdd, "CNI_COMMAND", command), config),
                IsError(Code::kDecode, "duplicate key 'name'"));
  }
  for (const char* const command : {"DEL", "GC", "STATUS"}) {
    const cni::Request request = Read(With(kAdd, "CNI_COMMAND", command), config).request;
    EXPECT_EQ(request.id.network, "b");
    EXPECT_EQ(request.config->at("IPAM").dump(), R"({"dataDir":"/a"})");
    EXPECT_EQ(request.config_text, config) << "for a delegated IPAM plugin";
  }
}

TEST(ReadRequest, RefusesAnUnknownVerbAfterTheConfig) {
  const Variables variables = {{"CNI_COMMAND", "FLY"}};
  EXPECT_EQ(Refused(variables, "").code(), Code::kDecode);
  EXPECT_EQ(Refused(variables, "{}").code(), Code::kInvalidConfig);
  EXPECT_THAT(Refused(variables, ConfigOf("9.9.9")),
              IsError(Code::kInvalidEnvironment, "unknown CNI_COMMAND: FLY"));
  EXPECT_EQ(Refused({{"CNI_COMMAND", "add"}}).msg(), "unknown CNI_COMMAND: add");
}

TEST(ReadRequest, AcceptsEveryVersionAndDefaultsToTheOldest) {
  for (const std::string& version : cni::SupportedVersions()) {
    const Answer answer = Read(kAdd, ConfigOf(version));
    EXPECT_EQ(answer.request.cni_version, version);
    EXPECT_EQ(answer.reply_version, version);
  }
  for (const char* const config : {R"({"name":"a"})", R"({"name":"a","cniVersion":""})"}) {
    EXPECT_EQ(Read(kAdd, config).request.cni_version, "0.1.0");
    EXPECT_EQ(Read(kAdd, config).reply_version, "0.1.0");
  }
}

TEST(ReadRequest, RefusesVersionsAndListsTheSupportedOnes) {
  for (const char* const version : {"1.1", "0.4", "1.2.0", "1.1.0 ", "0.3.2", "x"}) {
    EXPECT_THAT(
        Refused(kAdd, ConfigOf(version)),
        IsError(
            Code::kIncompatibleVersion,
            "incompatible CNI versions",
            Cat("config is \"",
                version,
                R"(", plugin supports ["0.1.0" "0.2.0" "0.3.0" "0.3.1" "0.4.0" "1.0.0" "1.1.0"])")))
        << version;
  }
  EXPECT_EQ(Refused(kAdd, R"({"name":"a","cniVersion":1})").code(), Code::kDecode);
}

TEST(ReadRequest, KnowsTheOldestVersionOfEachVerb) {
  const auto verdict = [](const char* command, const std::string& version) {
    return Refused(With(kAdd, "CNI_COMMAND", command), ConfigOf(version));
  };
  for (const char* const version : {"", "0.1.0", "0.2.0", "0.3.0", "0.3.1"}) {
    EXPECT_EQ(verdict("CHECK", version).msg(), "config version does not allow CHECK") << version;
  }
  for (const char* const version : {"0.4.0", "1.0.0"}) {
    EXPECT_EQ(verdict("GC", version).msg(), "config version does not allow GC");
    EXPECT_EQ(verdict("STATUS", version).msg(), "config version does not allow STATUS");
    EXPECT_EQ(verdict("STATUS", version).code(), Code::kIncompatibleVersion);
    EXPECT_EQ(Read(With(kAdd, "CNI_COMMAND", "CHECK"), ConfigOf(version)).request.verb,
              cni::Verb::kCheck);
  }
  EXPECT_EQ(verdict("CHECK", "1.2.0").msg(), "plugin version does not allow CHECK");
  EXPECT_EQ(verdict("CHECK", "1.0").msg(), "incompatible CNI versions");
}

TEST(ReadRequest, CannotDecodeAnImpossibleVersionOnCheckGcAndStatus) {
  for (const char* const version : {"x", "1..0", "1.0.0.0", "-1.0", "1.x"}) {
    for (const char* const command : {"CHECK", "GC", "STATUS"}) {
      EXPECT_EQ(Refused(With(kAdd, "CNI_COMMAND", command), ConfigOf(version)).code(),
                Code::kDecode)
          << version;
    }
  }
}

TEST(ReadRequest, AnswersInTheConfigsVersionOnceItIsKnown) {
  std::string reply_version = "1.1.0";
  const UniqueFd file = MemoryFile(R"({"cniVersion":"0.4.0","name":"a/b"})");
  EXPECT_EQ(Caught([&] { return ReadFrom(file.get(), kAdd, reply_version); }).code(),
            Code::kInvalidConfig);
  EXPECT_EQ(reply_version, "0.4.0");
}

TEST(IsAtLeast, OrdersVersionsAsNumbers) {
  EXPECT_TRUE(cni::IsAtLeast("1.0.0", "0.4.0"));
  EXPECT_TRUE(cni::IsAtLeast("0.3.1", "0.3.1"));
  EXPECT_FALSE(cni::IsAtLeast("0.3.1", "0.4.0"));
}

TEST(TypeOf, FindsTheRowByTheProgramsBaseName) {
  EXPECT_EQ(cni::TypeOf("/opt/cni/bin/nomad-bridge").name, "nomad-bridge");
  EXPECT_EQ(cni::TypeOf("").name, "nomad-bridge");
  EXPECT_TRUE(cni::TypeOf("nomad-bridge").Provides(cni::Part::kPorts));
}

}  // namespace
}  // namespace nomad_bridge
