// Records that are lost, or damaged: reconcile makes them anew from what is in force, or says that
// it cannot.
#include "tests/plugin/lan_world.h"
#include "tests/support/refusal.h"
#include "tests/support/soon.h"

namespace nomad_bridge::test {
namespace {

class LostRecords : public CliWorld {};

class LostRecord : public LostRecords, public ::testing::WithParamInterface<std::string> {};

TEST_P(LostRecord, IsRebuiltFromWhatTheKernelAndTheLeasesHold) {
  const json config = Publish({Port(8080, 80), Port(8081, 80, "udp", kHostIp4)},
                              DualStack(json::parse(GetParam())));
  const std::string id = "5f3c1a2b-0000-4000-8000-000000000001";
  const Variables variables = As(id, AddContainer("lost"), NomadArgs("billing", id));
  const json add = Attach(config, variables);
  const auto read = [&] {
    json record = ReadRecord(id);
    // What only the config says.
    record.erase("created");
    record.at("ipam").erase("ranges");
    record.at("link").erase("force_address");
    record.at("rules").erase("firewalld_zone");
    record.at("link").erase("promisc_mode");
    record.at("link").erase("mtu");
    record.erase("labels");  // in another order, and the well-known ones alone
    return record;
  };
  const json before = read();
  const std::string ruleset = host().Must({"nft", "-s", "list", "ruleset"});
  for (const std::string& damage : {Cat("rm ", RecordOf(id)),
                                    Cat("echo '{' >", RecordOf(id)),
                                    std::string("rm -r /run/nomad-bridge")}) {
    host().Shell(damage);
    EXPECT_THAT(RunLine("reconcile -n"),
                Exits(1, Out(HasSubstr(Cat("container '", id, "' has no readable record\n")))));
    EXPECT_THAT(RunLine("reconcile"),
                Exits(0, Err(AllOf(Not(HasSubstr("json.exception")), Not(HasSubstr("chain"))))));
    EXPECT_EQ(read(), before) << damage;
    EXPECT_THAT(RunLine("list -q ns=default job=billing group=api"), Out(Cat(id, "\n")));
    EXPECT_THAT(RunLine("reconcile -n"), Exits(0, Err("")));
  }
  EXPECT_EQ(host().Must({"nft", "-s", "list", "ruleset"}), ruleset);
  MustCheck(config, add, variables);
  Detach(config, variables);
}

INSTANTIATE_TEST_SUITE_P(Of,
                         LostRecord,
                         ::testing::Values("{}",
                                           R"({"ipMasq": false, "inbound": "any"})",
                                           R"({"sourceCheck": false, "snat": false})",
                                           R"({"ingressPolicy": "same-bridge"})",
                                           R"({"ingressPolicy": "isolated", "randomPorts": true})",
                                           R"({"acceptMarkBit": 20})",
                                           R"({"mac": "02:00:5e:00:00:07", "mtu": 1400})"));

TEST_F(LostRecords, AreRebuiltWithoutPorts) {
  Attach(DualStack(), As("plain", AddContainer("plain")));
  const std::string ruleset = host().Must({"nft", "-s", "list", "ruleset"});
  const json before = ReadRecord("plain");
  host().Must({"rm", RecordOf("plain")});
  EXPECT_THAT(RunLine("reconcile"), Exits(0, Err(HasSubstr("has no readable record"))));
  EXPECT_EQ(ReadRecord("plain").at("parts"), before.at("parts"));
  EXPECT_EQ(ReadRecord("plain").at("rules").at("snat"), true);
  EXPECT_EQ(host().Must({"nft", "-s", "list", "ruleset"}), ruleset);
}

TEST_F(LostRecords, AreThoseThatSomebodyHasReplacedByACopy) {
  Attach(Publish({Port(8080, 80)}));
  Attach(Publish({Port(8081, 80)}), As("other", AddContainer("other")));
  const std::string ruleset = host().Must({"nft", "-s", "list", "ruleset"});
  host().Must({"cp", RecordOf("other"), RecordOf("alloc-1")});
  EXPECT_THAT(RunLine("gc").out, HasSubstr("; nothing to take back\n"));
  EXPECT_THAT(RunLine("doctor -quiet").out,
              AllOf(HasSubstr("container 'alloc-1' has no readable record: it is the record of "
                              "container 'other' of network 'nomad'"),
                    HasSubstr("fix: nomad-bridge reconcile"),
                    Not(HasSubstr("nomad-bridge gc"))));
  EXPECT_THAT(RunLine("reconcile"), Exits(0));
  EXPECT_EQ(ReadRecord("alloc-1").at("id").at("container_id"), "alloc-1");
  EXPECT_EQ(host().Must({"nft", "-s", "list", "ruleset"}), ruleset);
}

TEST_F(LostRecords, AreNotInventedWhereRulesAreMissing) {
  Attach(Publish({Port(8080, 80)}));
  host().Shell(Cat("nft flush set inet nomad-bridge alloc4; rm ", RecordOf("alloc-1")));
  EXPECT_THAT(RunLine("reconcile"),
              Exits(1,
                    Err(HasSubstr("container 'alloc-1' has no readable record, and none can be "
                                  "made from what is in force; advice: restart container "
                                  "'alloc-1' by the program that runs it\n"))));
  EXPECT_FALSE(HasRecord("alloc-1"));
  EXPECT_EQ(RunLine("doctor -quiet records").exit_code, 1);
}

TEST_F(LostRecords, ThatCannotBeRebuiltNeedWhatTheirRuntimeDoes) {
  Attach(Publish({Port(8080, 80)}), {{"CNI_ARGS", NomadArgs("billing", "alloc-1")}});
  host().Shell("rm -r /run/nomad-bridge; nft flush ruleset");
  EXPECT_THAT(RunLine("reconcile"), Exits(1, Err(HasSubstr("; fix: nomad alloc stop alloc-1\n"))));
}

// To stop an allocation that is well helps nobody.
TEST_F(LostRecords, WaitForWhatIsInTheWayOfTheDirectory) {
  const json add = Attach(Publish({Port(8080, 80)}));
  Serve(container(), Protocol::kTcp, {AddressOf(add)}, 80, "container");
  const json ports = ReadRecord("alloc-1").at("rules").at("ports");
  host().Shell("rm -r /run/nomad-bridge; echo x >/run/nomad-bridge");
  ASSERT_TRUE(test::Ask(outside(), {.to = kHostIp4, .port = 8080}));

  const std::string fix = "mv --backup=numbered /run/nomad-bridge /var/tmp/";
  EXPECT_THAT(RunLine("doctor -quiet"),
              Exits(1,
                    Out(AllOf(HasSubstr("'/run/nomad-bridge': it exists and is not a directory"),
                              HasSubstr(Cat("move it away: ", fix, '\n')),
                              HasSubstr("container 'alloc-1' has no readable record"),
                              Not(HasSubstr("stop"))))));
  EXPECT_THAT(RunLine("inspect 8080"), Exits(Ne(0), Out(Not(HasSubstr("stop")))));
  host().Shell(fix);
  EXPECT_THAT(RunLine("reconcile"), Exits(0));
  EXPECT_EQ(ReadRecord("alloc-1").at("rules").at("ports"), ports);
  EXPECT_THAT(RunLine("doctor -quiet run records table"), Exits(0));
  EXPECT_TRUE(test::Ask(outside(), {.to = kHostIp4, .port = 8080}));
}

// Whose link was listed before, and has gone by the time that its record is looked for.
TEST_F(LostRecords, AreNotThoseThatADelHasRemovedMeanwhile) {
  Attach(Config());
  const Variables gone = As("gone", AddContainer("gone"));
  Attach(Config(), gone);
  const std::string log = "/run/calls";
  Process looks = Process::Start(UnderStrace(Line({"reconcile", "-dry-run"}),
                                             log,
                                             {"-P",
                                              "/run/nomad-bridge/nomad",
                                              "-e",
                                              "trace=openat",
                                              "-e",
                                              "inject=openat:delay_enter=1000000:when=1"}));
  ASSERT_TRUE(Soon([&] { return FindFile(log).value_or("").find("openat(") != log.npos; }));
  Detach(Config(), gone);
  ASSERT_EQ(FindFile(log).value().find("DELAYED"), log.npos) << "the DEL took too long";

  EXPECT_THAT(looks.Wait(), Exits(0, Out("1 attachment; nothing to repair\n")));
}

// Made anew by us, it is ours.
TEST_F(LostRecords, AreRebuiltOfABridgeThatWasSomebodyElses) {
  host().Must(Words("ip link add nomad up type bridge"));
  const json config = DualStack();
  const json add = Attach(config);
  EXPECT_TRUE(ReadRecord("alloc-1").at("link").at("adopted"));
  host().Must(Words("ip link delete nomad"));
  EXPECT_THAT(RunLine("reconcile"), Exits(0));
  const std::string ruleset = host().Must({"nft", "-s", "list", "ruleset"});
  host().Must(Words("rm -r /run/nomad-bridge"));

  EXPECT_THAT(RunLine("reconcile"), Exits(0, Out(HasSubstr("1 attachment;"))));
  EXPECT_FALSE(ReadRecord("alloc-1").at("link").at("adopted"));
  EXPECT_EQ(host().Must({"nft", "-s", "list", "ruleset"}), ruleset);
  MustCheck(config, add);
}

// Its addresses are its operator's, also where one could be a gateway.
class LostRecordsOnLan : public LanWorld {};

TEST_F(LostRecordsOnLan, ClaimNoAddressOfTheBridge) {
  Attach(OnLan({{"name", "nomad"}}));
  ASSERT_EQ(ReadRecord("alloc-1").at("link").at("gateways"), json::array());
  for (const std::string& change : {std::string(), Cat("ip addr del ", kHostIp4, "/24 dev lan")}) {
    host().Shell(Cat("rm -r /run/nomad-bridge\n", change));
    EXPECT_THAT(RunLine("reconcile"), Exits(0, Err(HasSubstr("has no readable record")))) << change;
    EXPECT_EQ(ReadRecord("alloc-1").at("link").at("gateways"), json::array()) << change;
  }
  EXPECT_THAT(RunLine("reconcile"), Exits(0, Err("")));
  EXPECT_THAT(host().Must(Words("ip -4 address show dev lan")), Not(HasSubstr("inet ")));
}

}  // namespace
}  // namespace nomad_bridge::test
