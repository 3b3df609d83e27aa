// Records that are lost, or damaged, while their allocation runs: doctor names them, and nobody
// takes anything from the allocation until CHECK makes them again (repair_damages_test.cc).
#include "tests/plugin/cli_world.h"

namespace nomad_bridge::test {
namespace {

class LostRecords : public CliWorld {
 protected:
  void SetUp() override {
    add_ = Attach(config_);
    Serve(container(), Protocol::kTcp, {AddressOf(add_)}, 80, "container");
    record_ = ReadRecord("alloc-1");
  }

  void ExpectMadeAgainByCheck() {
    EXPECT_TRUE(Ask(outside(), {.to = kHostIp4, .port = 8080}));
    MustCheck(config_, add_);
    for (const char* const key : {"id", "parts", "ipam", "rules"}) {
      EXPECT_EQ(ReadRecord("alloc-1").at(key), record_.at(key)) << key;
    }
    EXPECT_THAT(RunLine("doctor run records table"), Exits(0));
  }

  const json config_ = Publish({Port(8080, 80)});
  json add_;
  json record_;
};

TEST_F(LostRecords, LeaveElementsLeasesAndLinksInPlace) {
  const Variables other = As("other", AddContainer("other"));
  Attach(Config(), other);
  host().Must(Words("rm -r /run/nomad-bridge"));
  const Snapshot before = TakeHostSnapshot();

  EXPECT_THAT(RunLine("reconcile"), Exits(0));
  EXPECT_THAT(RunLine("gc"), Exits(0, Out(HasSubstr("; nothing to take back\n"))));
  EXPECT_THAT(RunLine("doctor records"),
              Exits(1, Out(HasSubstr("container 'alloc-1' has no readable record (and 1 more)"))));

  EXPECT_TRUE(Unchanged(before, TakeHostSnapshot()));
  Detach(Config(), other);
  ExpectMadeAgainByCheck();
}

TEST_F(LostRecords, IncludeRecordsReplacedByACopyOfAnother) {
  Attach(Publish({Port(8081, 80)}), As("other", AddContainer("other")));
  host().Must({"cp", RecordOf("other"), RecordOf("alloc-1")});
  EXPECT_THAT(RunLine("gc").out, HasSubstr("; nothing to take back\n"));
  EXPECT_THAT(RunLine("doctor").out,
              AllOf(HasSubstr("container 'alloc-1' has no readable record: it is the record of "
                              "container 'other' of network 'nomad'"),
                    HasSubstr("advice: CHECK writes it again"),
                    Not(HasSubstr("nomad-bridge gc"))));
  ExpectMadeAgainByCheck();
}

TEST_F(LostRecords, AreMadeAgainAfterAnObstacleIsMovedAway) {
  host().Shell("rm -r /run/nomad-bridge; echo x >/run/nomad-bridge");
  const std::string fix = "mv --backup=numbered /run/nomad-bridge /var/tmp/";
  EXPECT_THAT(RunLine("doctor"),
              Exits(1,
                    Out(AllOf(HasSubstr("'/run/nomad-bridge': it exists and is not a directory"),
                              HasSubstr(Cat("move it away: ", fix, '\n')),
                              HasSubstr("container 'alloc-1' has no readable record")))));
  host().Shell(fix);
  ExpectMadeAgainByCheck();
}

}  // namespace
}  // namespace nomad_bridge::test
