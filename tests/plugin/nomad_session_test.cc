// What Nomad does in an allocation's life, with the bytes that it sends (fixtures/README.md).
#include "tests/support/world.h"

namespace nomad_bridge::test {
namespace {

constexpr const char* kAllocation = "5f3c1a2b-7d4e-4c55-9a52-0f3f6f0b8c11";

class NomadSession : public World {
 protected:
  // `input` to the byte, with CNI_ARGS as Nomad sets it for that verb.
  [[nodiscard]] Outcome Send(const std::string& verb,
                             const std::string& input,
                             const std::string& args_file) {
    const std::string args = verb == "DEL" ? "" : ReadFixture("args/" + args_file);
    return RunPlugin(verb, input, {{"CNI_CONTAINERID", kAllocation}, {"CNI_ARGS", args}});
  }
  [[nodiscard]] std::string Alias() { return LinkOn(host(), OnlyPort()).at("ifalias"); }
};

class EveryConfigOfNomad : public NomadSession,
                           public ::testing::WithParamInterface<const char*> {};

TEST_P(EveryConfigOfNomad, IsAddedCheckedAndDeleted) {
  const std::string config = ReadFixture(Cat("conf/", GetParam()));
  // A first life, for what stays by design: the bridge with its addresses, the table.
  WarmUp();
  UseOnce(json::parse(config));
  const Snapshot before = TakeSnapshot();

  const Outcome add = Send("ADD", config, "nomad_add.txt");
  ASSERT_EQ(add.exit_code, 0) << add;

  const json sent = json::parse(config);
  if (sent.at("cniVersion") >= "0.4.0") {
    EXPECT_THAT(Send("CHECK", WithResult(sent, add.json).dump(), "nomad_add.txt"), Exits(0));
  }
  EXPECT_THAT(Send("DEL", config, ""), Exits(0, Out("")));
  EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
}

INSTANTIATE_TEST_SUITE_P(Fixtures,
                         EveryConfigOfNomad,
                         ::testing::Values("nomad_bridge_0.1.0.add.json",
                                           "nomad_bridge_0.2.0.add.json",
                                           "nomad_bridge_0.3.0.add.json",
                                           "nomad_bridge_0.3.1.add.json",
                                           "nomad_bridge_0.4.0.add.json",
                                           "nomad_bridge_1.0.0.add.json",
                                           "nomad_bridge_1.1.0.add.json",
                                           "nomad_bridge_no_version.add.json",
                                           "nomad_bridge_no_ports.add.json",
                                           "nomad_bridge_host_ip.add.json",
                                           "nomad_bridge_dual_stack.add.json",
                                           "podman_ports.add.json"),
                         kNameOfText);

class EveryCniArgsOfNomad : public NomadSession,
                            public ::testing::WithParamInterface<const char*> {};

TEST_P(EveryCniArgsOfNomad, NamesTheAllocationOnItsLink) {
  ASSERT_THAT(Send("ADD", ReadFixture("conf/nomad_bridge_1.0.0.add.json"), GetParam()), Exits(0));
  EXPECT_THAT(Alias(), HasSubstr("job="));
  EXPECT_THAT(Alias(), HasSubstr(Cat("alloc=", kAllocation)));
}

INSTANTIATE_TEST_SUITE_P(Fixtures,
                         EveryCniArgsOfNomad,
                         ::testing::Values("nomad_add.txt",
                                           "nomad_add_other_order.txt",
                                           "nomad_add_dispatched.txt",
                                           "nomad_add_user_args.txt",
                                           "nomad_add_transparent_proxy.txt",
                                           "nomad_add_dropped_group.txt"),
                         kNameOfText);

TEST_F(NomadSession, PodmansArgsChooseAddressAndMac) {
  const Outcome add =
      Send("ADD", ReadFixture("conf/nomad_bridge_1.0.0.add.json"), "podman_add.txt");
  ASSERT_EQ(add.exit_code, 0) << add;
  EXPECT_EQ(AddressOf(add.json), "172.26.64.99");
  const json link = LinkOn(container(), "eth0");
  EXPECT_EQ(link.at("address"), "0a:58:ac:1a:40:63");
}

class EveryGcOfNomad : public NomadSession, public ::testing::WithParamInterface<const char*> {};

TEST_P(EveryGcOfNomad, KeepsTheListedAllocation) {
  const std::string config = ReadFixture("conf/nomad_bridge_1.1.0.add.json");
  ASSERT_EQ(Send("ADD", config, "nomad_add.txt").exit_code, 0);
  const std::string kept = OnlyPort();
  ASSERT_EQ(RunPlugin("ADD",
                      ReadFixture("conf/nomad_bridge_no_ports.add.json"),
                      As("stray", AddContainer("second")))
                .exit_code,
            0);

  EXPECT_THAT(RunPlugin("GC", ReadFixture(Cat("conf/", GetParam()))), Exits(0));

  EXPECT_EQ(OnlyPort(), kept);
}

INSTANTIATE_TEST_SUITE_P(Fixtures,
                         EveryGcOfNomad,
                         ::testing::Values("nomad_bridge_1.1.0.gc.json",
                                           "nomad_bridge_1.1.0_old_key.gc.json"),
                         kNameOfText);

TEST_F(NomadSession, StatusAndVersionAnswerLibcni) {
  EXPECT_EQ(RunPlugin("STATUS", ReadFixture("conf/nomad_bridge_1.1.0.status.json")).exit_code, 0);
  const Outcome version = RunPlugin("VERSION", ReadFixture("conf/version.json"));
  EXPECT_EQ(version.exit_code, 0) << version;
  EXPECT_TRUE(version.json.contains("supportedVersions"));
}

}  // namespace
}  // namespace nomad_bridge::test
