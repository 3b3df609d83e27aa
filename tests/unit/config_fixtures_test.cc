// What runtimes really send (fixtures/README.md has the origins), through all that reads it.
// plugin/nomad_session_test.cc has what becomes of their CNI_ARGS.
#include "plugin/cni/plugin_type.h"
#include "plugin/config/config.h"
#include "tests/support/fixture.h"
#include "tests/support/test.h"
#include "tests/unit/read_request.h"

namespace nomad_bridge {
namespace {

using ::testing::ValuesIn;

struct Sent {
  const char* verb;
  const char* file;
  const char* version;
  std::size_t ports = 0;
  std::size_t families = 1;
  bool has_prev_result = false;
};

std::ostream& operator<<(std::ostream& out, const Sent& sent) {
  return out << sent.file;
}

cni::Request Read(const Sent& sent, const std::string& args) {
  const test::RuntimeVariables variables = {
      {"CNI_COMMAND", sent.verb},
      {"CNI_CONTAINERID", "5f3c1a2b-7d4e-4c55-9a52-0f3f6f0b8c11"},
      {"CNI_NETNS", "/var/run/netns/5f3c1a2b-7d4e-4c55-9a52-0f3f6f0b8c11"},
      {"CNI_IFNAME", "eth0"},
      {"CNI_ARGS", args}};
  const UniqueFd file = test::MemoryFile(test::ReadFixture(std::string("conf/") + sent.file));
  std::string reply_version;
  return test::ReadFrom(file.get(), variables, reply_version);
}

constexpr Sent kSent[] = {
    {"ADD", "nomad_bridge_0.1.0.add.json", "0.1.0", 2},
    {"ADD", "nomad_bridge_0.2.0.add.json", "0.2.0", 2},
    {"ADD", "nomad_bridge_0.3.0.add.json", "0.3.0", 2},
    {"ADD", "nomad_bridge_0.3.1.add.json", "0.3.1", 2},
    {"ADD", "nomad_bridge_0.4.0.add.json", "0.4.0", 2},
    {"ADD", "nomad_bridge_1.0.0.add.json", "1.0.0", 2},
    {"ADD", "nomad_bridge_1.1.0.add.json", "1.1.0", 2},
    {"ADD", "nomad_bridge_no_version.add.json", "0.1.0", 2},
    {"ADD", "nomad_bridge_no_ports.add.json", "1.0.0", 0},
    {"ADD", "nomad_bridge_host_ip.add.json", "1.0.0", 4},
    {"ADD", "nomad_bridge_dual_stack.add.json", "1.0.0", 2, 2},
    {"ADD", "nomad_builtin_bridge.add.json", "0.4.0", 0, 1, true},
    {"CHECK", "nomad_bridge_0.4.0.check.json", "0.4.0", 2, 1, true},
    {"CHECK", "nomad_bridge_1.0.0.check.json", "1.0.0", 2, 1, true},
    {"CHECK", "nomad_bridge_1.1.0.check.json", "1.1.0", 2, 1, true},
    {"CHECK", "nomad_bridge_dual_stack.check.json", "1.0.0", 2, 2, true},
    {"GC", "nomad_bridge_1.1.0.gc.json", "1.1.0"},
    {"GC", "nomad_bridge_1.1.0_old_key.gc.json", "1.1.0"},
    {"GC", "nomad_bridge_1.1.0_null.gc.json", "1.1.0"},
    {"STATUS", "nomad_bridge_1.1.0.status.json", "1.1.0"},
};

class RuntimesConfig : public ::testing::TestWithParam<Sent> {};

TEST_P(RuntimesConfig, IsUnderstood) {
  const Sent& sent = GetParam();
  const cni::Request request = Read(sent, test::ReadFixture("args/nomad_add.txt"));
  EXPECT_EQ(Text(request.verb), sent.verb);
  EXPECT_EQ(request.cni_version, sent.version);
  EXPECT_EQ(request.id.network, "nomad");

  const config::Config config = config::ParseConfig(request, cni::TypeOf("nomad-bridge"));
  EXPECT_THAT(config.rules.ports, SizeIs(sent.ports));
  EXPECT_THAT(config.ipam.ranges, SizeIs(sent.families));
  EXPECT_EQ(config.prev_result.has_value(), sent.has_prev_result);
  EXPECT_THAT(config.labels, SizeIs(5));
}

INSTANTIATE_TEST_SUITE_P(Fixtures, RuntimesConfig, ValuesIn(kSent));

TEST(RuntimesArgs, UserArgsMayHaveEqualsSignsAndEmptyValues) {
  const config::Config config =
      config::ParseConfig(Read(kSent[5], test::ReadFixture("args/nomad_add_user_args.txt")),
                          cni::TypeOf("nomad-bridge"));
  EXPECT_THAT(config.labels, Contains(cni::Label{"query", "a=b&c=d"}));
  EXPECT_THAT(config.labels, Contains(cni::Label{"empty", ""}));
}

}  // namespace
}  // namespace nomad_bridge
