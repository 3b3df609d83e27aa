// nomad-bridge reconcile -if-changed as the timer runs it, and metrics, which goes by the same:
// what is not looked at again, and what is noticed all the same.
#include "tests/plugin/cli_world.h"
#include "tests/support/refusal.h"

namespace nomad_bridge::test {
namespace {

class IfChanged : public CliWorld {
 protected:
  void AttachAll() {
    web_ = Attach(kWeb);
    other_ = Attach(kOther, As("other", AddContainer("other")));
  }

  // The first look at what an ADD has made finds it right, and notes so.
  void ExpectQuiet() {
    EXPECT_THAT(Output("reconcile -if-changed"), HasSubstr("; nothing to repair\n"));
    EXPECT_EQ(Output("reconcile -if-changed"), "nothing has changed\n");
  }

  // The system calls of one run with `part` in their arguments.
  int CountCalls(const char* line, std::string_view part) {
    const std::string log = "/run/calls";
    EXPECT_THAT(Execute(UnderStrace(Line(Words(line)), log, {"-e", "trace=sendto,sendmsg,openat"})),
                Exits(0));
    return static_cast<int>(std::ranges::count_if(
        Lines(FindFile(log).value()),
        [&](const std::string& call) { return call.find(part) != call.npos; }));
  }

  const json kWeb = Publish({Port(8080, 80), Port(8053, 53, "udp")}, DualStack());
  json web_;
  json other_;
};

TEST_F(IfChanged, AsksAsMuchOfManyAttachmentsAsOfTwo) {
  AttachAll();
  ExpectQuiet();
  const auto count = [&] {
    return CountCalls("reconcile -if-changed", "nlmsg_type") +
           CountCalls("reconcile -if-changed", "@eth0.json");
  };
  const int calls = count();
  for (const char* const name : {"a", "b", "c", "d", "e", "f"}) {
    Attach(kOther, As(name, AddContainer(name)));
  }
  ExpectQuiet();
  EXPECT_EQ(count(), calls);
}

// Which asks for that one's elements alone, and goes on from there.
TEST_F(IfChanged, FindsAnElementThatWasLostBeforeAnothersCheck) {
  AttachAll();
  ExpectQuiet();
  host().Must(Words("nft delete element inet nomad-bridge alloc4 { 10.8.0.2 }"));
  EXPECT_THAT(Check(kWeb, web_), Exits(0));

  EXPECT_THAT(Output("metrics"),
              HasSubstr(R"(nomad_bridge_faults{check="table.intact",verdict="fail"} 1)"));
  EXPECT_THAT(RunLine("reconcile -if-changed"),
              Exits(0, Err(HasSubstr("repaired: 10.8.0.2 in alloc4 of "))));
  ExpectQuiet();
}

TEST_F(IfChanged, ReadsNoElementsThatOnlyCommandsOfOursHaveChanged) {
  AttachAll();
  ExpectQuiet();
  const int of_quiet = CountCalls("metrics", "NFT_MSG_GETSETELEM");
  ASSERT_GT(of_quiet, 0) << "others' sets are read; else strace names them in another way";
  const Variables later = As("later", AddContainer("later"));
  const auto expect_unread = [&] {
    EXPECT_EQ(CountCalls("metrics", "NFT_MSG_GETSETELEM"), of_quiet);
    EXPECT_EQ(CountCalls("reconcile -if-changed", "NFT_MSG_GETSETELEM"), 0);
  };
  Attach(kOther, later);
  expect_unread();
  Detach(kOther, later);
  expect_unread();
}

// Neither a record nor a link says any more whose elements they were.
TEST_F(IfChanged, FindsElementsWhoseRecordAndLinkSomebodyHasRemoved) {
  AttachAll();
  ExpectQuiet();
  host().Must({"ip", "link", "delete", HostVethOf(other_)});
  fs::remove("/run/nomad-bridge/other/other@eth0.json");

  EXPECT_THAT(RunLine("reconcile -if-changed"),
              Exits(0, Err(HasSubstr("removed: 10.8.0.2 in alloc4 of "))));
}

// What the lock of a port consists of besides its flag.
TEST_F(IfChanged, SeesAnEntryOfALockedPortThatWasChanged) {
  const json config = Config(R"({"macspoofchk": true})");
  const Outcome add = RunPlugin("ADD", config);
  if (add.exit_code != 0) {
    EXPECT_THAT(Details(add), HasSubstr("which Linux has since 5.18"));
    return;
  }
  const std::string port = HostVethOf(add.json);
  const std::string mac = At(add.json, "/interfaces/2/mac");
  for (const char* const damage : {"bridge fdb delete $mac dev $port master",
                                   "bridge fdb add 02:00:00:00:00:0f dev $port master dynamic"}) {
    ExpectQuiet();
    Must({.argv = {"sh", "-e", "-c", damage}, .variables = {{"mac", mac}, {"port", port}}});

    EXPECT_THAT(RunLine("reconcile -if-changed"),
                Exits(0, Err(HasSubstr(Format("the MAC check of {} was changed", port)))))
        << damage;
    EXPECT_TRUE(Ping(container(), "172.26.64.1")) << damage;
  }
}

}  // namespace
}  // namespace nomad_bridge::test
