// Foreign or damaged files in our directories: they affect no other attachment.
#include <cstddef>

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/support/mounted.h"
#include "tests/support/world.h"

namespace nomad_bridge::test {
namespace {

struct Junk : Named {
  std::string path;     // below kRecords
  std::string content;  // "/": a directory, "|": a FIFO
};

class JunkFile : public World, public ::testing::WithParamInterface<Junk> {
 protected:
  static void Drop(const Junk& junk) {
    const std::string path = Cat(kRecords, "/", junk.path);
    if (junk.content == "/") {
      EnsureDirectory(path);
    } else if (junk.content == "|") {
      fs::remove(path);
      ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    } else {
      ReplaceFile(path, junk.content);
    }
  }
};

TEST_P(JunkFile, DisturbsNothingAmongTheRecords) {
  const json config = Publish({Port(8080, 80)});
  Attach(config, As("other", AddContainer("other")));
  Drop(GetParam());
  // Everything is read again, also what would be trusted.
  host().Must({"nft", "flush", "ruleset"});

  const json mine = Publish({Port(9090, 80)});
  const json add = Attach(mine);
  MustCheck(mine, add);
  ExpectPublished(container(), 9090);
  const Outcome gc = RunPlugin("GC", WithValid({"other"}));
  if (GetParam().name == "ADirectoryWithARecordsName") {
    EXPECT_THAT(Details(gc), HasSubstr(GetParam().path)) << gc;  // goes on, and reports what stays
  } else {
    EXPECT_EQ(gc.exit_code, 0) << gc;
  }
  EXPECT_FALSE(HasInterface(container(), "eth0"));
  Detach(mine);
}

TEST_P(JunkFile, IsReplacedByItsOwnContainersAddAndRemovedByItsDel) {
  const json config = Publish({Port(8080, 80)});
  UseOnce(config);
  const Snapshot before = TakeSnapshot();
  Attach(config, As("broken", container()));
  Drop(GetParam());

  Attach(config, As("broken", container()));
  ExpectPublished(container());
  Detach(config, As("broken", container()));
  fs::remove_all(Cat(kRecords, "/", GetParam().path));
  EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
}

INSTANTIATE_TEST_SUITE_P(
    Kinds,
    JunkFile,
    ::testing::Values(Junk{"Empty", "broken@eth0.json", ""},
                      Junk{"Garbage", "broken@eth0.json", "\xff\xfe{{{"},
                      Junk{"HalfWritten", "broken@eth0.json", R"({"netns_path":"5)"},
                      Junk{"AnotherType", "broken@eth0.json", "[1, 2]"},
                      Junk{"NoFields", "broken@eth0.json", "{}"},
                      Junk{"Fifo", "broken@eth0.json", "|"},
                      Junk{"NoRecordsName", "README", "hello"},
                      Junk{"NoInterface", "x@.json", "{}"},
                      Junk{"CutName", "x~y@eth0.json", "{"},
                      Junk{"CutNameOfAnotherType", "x~y@eth0.json", R"({"id":5})"},
                      Junk{"ADirectory", "directory", "/"},
                      Junk{"ADirectoryWithARecordsName", "directory@eth0.json", "/"}),
    kNameOf);

class StateFiles : public World {};

TEST_F(StateFiles, AreNamedWithAFixIfADirectoryIsInTheirPlace) {
  const Mounted elsewhere({"-t", "tmpfs", "tmpfs"}, "/var/tmp");
  Attach(Config(), As("other", AddContainer("other")));
  for (const std::string& path : {std::string("/run/nomad-bridge/.lock"), RecordOf("alloc-1")}) {
    fs::remove(path);
    fs::create_directory(path);
    // Whatever was moved there before stays.
    fs::create_directories(Cat("/var/tmp/", fs::path(path).filename().string(), "/before"));
    const std::string move = Format("mv --backup=numbered {} /var/tmp/", path);
    EXPECT_THAT(RunPlugin("ADD", Config()), Fails(5, Details(HasSubstr(move))));
    host().Shell(move);
    EXPECT_FALSE(fs::exists(Cat("/var/tmp/", fs::path(path).filename().string(), "/before")));
    EXPECT_TRUE(fs::exists(Cat("/var/tmp/", fs::path(path).filename().string(), ".~1~/before")));
  }
  UseOnce(Config());
}

TEST_F(StateFiles, AreReportedOnStderrIfUnreadable) {
  const json config = Config();
  Attach(config);
  ReplaceFile(RecordOf("alloc-1"), "nonsense");
  EXPECT_THAT(MustRun("DEL", config), Err(HasSubstr("alloc-1@eth0.json")));
}

// As a release writes it that does not know these keys yet, writes what a missing key means, or
// knows other keys and another part.
TEST_F(StateFiles, AreUsedAsFarAsPossibleFromAnotherRelease) {
  const json config = Publish({Port(8080, 80)});
  UseOnce(config);
  const Snapshot before = TakeHostSnapshot();
  const json add = Attach(config);
  const Snapshot attached = TakeHostSnapshot().Of({"host "});
  json record = ReadRecord("alloc-1");
  record.erase("labels");
  record.at("rules").erase("firewalld_zone");
  record.at("link")["mtu"] = 0;
  record.at("link").at("port")["vlans"] = nullptr;
  record["colour"] = "blue";
  record.at("parts")["shaping"] = "live";
  WriteRecord("alloc-1", record);
  host().Must({"nft", "flush", "ruleset"});

  MustCheck(config, add);

  EXPECT_TRUE(Unchanged(attached, TakeHostSnapshot().Of({"host "})));
  EXPECT_EQ(FindFile(RecordOf("alloc-1")), record.dump());
  Detach(config);
  EXPECT_TRUE(Unchanged(before, TakeHostSnapshot()));
}

TEST_F(StateFiles, RecordOfAnotherBootIsNotTrusted) {
  const json add = Attach(Config());
  const json record = ReadRecord("alloc-1");
  json earlier = record;
  earlier["origin"]["boot_id"] = "another-boot";
  WriteRecord("alloc-1", earlier);
  EXPECT_THAT(MustCheck(Config(), add).err, HasSubstr("has no readable record"));
  EXPECT_EQ(ReadRecord("alloc-1")["origin"], record["origin"]);
}

TEST_F(StateFiles, LeaveADirectoryOfAnotherProgramAlone) {
  EnsureDirectory("/run/nomad-bridge/foreign/deep");
  ReplaceFile("/run/nomad-bridge/foreign/file", "text");
  ReplaceFile("/run/nomad-bridge/loose", "text");
  UseOnce(Config());
  EXPECT_EQ(FindFile("/run/nomad-bridge/foreign/file"), "text");
  EXPECT_EQ(FindFile("/run/nomad-bridge/loose"), "text");
}

// Two hosts (namespaces) that share /run: one's records are none of the other's business.
TEST_F(StateFiles, LeaveARecordOfAnotherHostAlone) {
  const json config = Publish({Port(8080, 80)});
  Attach(config, As("other", AddContainer("other")));
  json record = ReadRecord("other");
  record["origin"]["netns"]["inode"] = 1;
  WriteRecord("other", record);
  host().Must({"nft", "flush", "ruleset"});

  Attach(config);
  EXPECT_EQ(FindFile(RecordOf("other")), record.dump());
}

// From now on no file without a name can be made, as on overlayfs before Linux 6.1.
void HideNamelessFiles() {
  constexpr auto kFlags = static_cast<std::uint32_t>(offsetof(seccomp_data, args[2]));
  std::array<sock_filter, 6> filter = {{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kFlags),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_TMPFILE & ~O_DIRECTORY, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EOPNOTSUPP),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog program{.len = filter.size(), .filter = filter.data()};
  if (::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    ::_exit(126);
  }
}

TEST_F(StateFiles, AreWrittenAlsoWithoutNamelessFiles) {
  const json config = Publish({Port(8080, 80)});
  UseOnce(config);
  const Snapshot before = TakeSnapshot();
  for (const char* const verb : {"STATUS", "ADD", "ADD", "DEL"}) {
    SCOPED_TRACE(verb);
    Command command = PluginCommand(verb, config.dump());
    command.in_child = HideNamelessFiles;
    EXPECT_THAT(Execute(command), Exits(0));
  }
  EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
}

// All of our memory is gone, but the links and the rules are there.
TEST_F(StateFiles, AreNotNeededByDelToRemoveEverything) {
  const json config = Publish({Port(8080, 80), Port(8053, 53, "udp")});
  UseOnce(config);
  const Snapshot before = TakeSnapshot();
  Attach(config);
  fs::remove_all("/run/nomad-bridge");
  Detach(config);
  EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
}

}  // namespace
}  // namespace nomad_bridge::test
