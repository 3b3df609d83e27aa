// nomad-bridge install DIR where something is in its way: files that are not ours, a kill, a full
// or read-only disk, others that install at the same time.
#include "tests/plugin/install_world.h"

namespace nomad_bridge::test {
namespace {

// ---- over what is not

TEST_F(Install, RefusesForeignFilesAndChangesNothing) {
  Write("bridge", "the reference");
  fs::create_symlink("/usr/lib/cni/portmap", Path("portmap"));
  const auto before = Listing();

  EXPECT_THAT(
      RunInstall(),
      Exits(
          1,
          Out(""),
          Err("nomad-bridge: nothing was changed, because this is not ours: '/run/plugins/bridge', "
              "'/run/plugins/portmap': -replace renames such a file to "
              "NAME.before-nomad-bridge\n")));

  EXPECT_EQ(Listing(), before);
}

TEST_F(Install, RefusesAForeignProgramOfItsName) {
  Write("nomad-bridge", "#!/bin/sh\necho CNI nomad-bridge plugin v9\n");
  EXPECT_EQ(RunInstall().exit_code, 1);
  EXPECT_EQ(Listing().size(), 1U);
}

TEST_F(Install, RefusesADanglingLink) {
  fs::create_directories(kDirectory);
  fs::create_symlink("somewhere/nomad-bridge", Path("bridge"));
  EXPECT_EQ(RunInstall().exit_code, 1);
}

TEST_F(Install, KeepsReplacedFilesUnderAClearName) {
  Write("bridge", "the reference");
  Write("dhcp", "another plugin");
  fs::create_symlink("/usr/lib/cni/portmap", Path("portmap"));

  EXPECT_THAT(
      RunInstall({"-replace"}),
      Exits(0,
            Out(HasSubstr("/run/plugins/bridge: link to nomad-bridge, what was there is kept as "
                          "bridge.before-nomad-bridge\n"))));

  ExpectInstalled();
  EXPECT_EQ(Content("bridge.before-nomad-bridge"), "the reference");
  EXPECT_EQ(fs::read_symlink(Path("portmap.before-nomad-bridge")), "/usr/lib/cni/portmap");
  EXPECT_EQ(Content("dhcp"), "another plugin");
  EXPECT_EQ(Entries(kDirectory).size(), 9U);
}

TEST_F(Install, KeepsWhatWasKeptEarlier) {
  for (const char* const content : {"first", "second", "third"}) {
    fs::remove(Path("bridge"));
    Write("bridge", content);
    MustInstall({"-replace"});
  }
  EXPECT_EQ(Content("bridge.before-nomad-bridge"), "first");
  EXPECT_EQ(Content("bridge.before-nomad-bridge.2"), "second");
  EXPECT_EQ(Content("bridge.before-nomad-bridge.3"), "third");
  ExpectInstalled();
}

TEST_F(Install, NeverReplacesADirectory) {
  fs::create_directories(Path("firewall/rules"));
  EXPECT_THAT(RunInstall({"-replace"}),
              Exits(1, Err(HasSubstr("this is not ours: '/run/plugins/firewall'"))));
  EXPECT_EQ(Listing().size(), 1U);
}

class KilledInstall : public Install {
 protected:
  // Exit codes of the names that were there before.
  static std::string Codes() {
    std::string codes;
    for (const char* const name : {"nomad-bridge", "bridge", "loopback"}) {
      const Command about{.argv = {Path(name)}, .variables = {{"CNI_COMMAND", std::nullopt}}};
      codes += Cat(Execute(about).exit_code, ' ');
    }
    return codes;
  }
};

TEST_F(KilledInstall, LeavesEveryNameTheOldOrTheNewProgramAndCanBeRepeated) {
  const auto begin = [&] {
    fs::remove_all(kDirectory);
    Write("nomad-bridge", kOlder);
    Write("bridge", kReferencePlugin);
    Write("loopback", kOlder);
    return Line({"install", kDirectory, "-replace"});
  };
  KillAtEachPoint(begin, [&](const Killing& install) {
    EXPECT_EQ(Codes(), "0 0 0 ");
    if (!install.killed) {
      ExpectInstalled();
      return;
    }
    MustInstall({"-replace"});
    EXPECT_EQ(Content("bridge.before-nomad-bridge"), kReferencePlugin);
    EXPECT_EQ(Content("nomad-bridge"), Built());
    EXPECT_EQ(fs::read_symlink(Path("bridge")), "nomad-bridge");
    EXPECT_EQ(fs::read_symlink(Path("loopback")), "nomad-bridge");
  });
}

// ---- what it cannot do

TEST_F(Install, RefusesAFileInPlaceOfTheDirectory) {
  std::ofstream("/run/file") << "a file";
  EXPECT_THAT(RunLine("install /run/file"),
              Exits(1,
                    Err("nomad-bridge: cannot create the directory '/run/file': it exists and is "
                        "not a directory; move it away: mv --backup=numbered /run/file "
                        "/var/tmp/\n")));
}

TEST_F(Install, ReportsThatItMayNotWrite) {
  fs::create_directories(kDirectory);
  host().Must({"mount", "-t", "tmpfs", "-o", "ro", "none", kDirectory});
  EXPECT_THAT(RunInstall(), Exits(1, Err(HasSubstr("'/run/plugins/")), Err(HasSubstr("EROFS"))));
  host().Must({"umount", kDirectory});

  EXPECT_THAT(Execute(LineWithoutRoot({"install", kDirectory})),
              Exits(1,
                    Err(HasSubstr("cannot create '/run/plugins/nomad-bridge.new-")),
                    Err(HasSubstr("EACCES"))));
  EXPECT_TRUE(Listing().empty());
}

TEST_F(Install, ManyAtATimeLeaveWholeFiles) {
  fs::create_directories(kDirectory);
  constexpr int kAtOnce = 8;
  std::vector<Process> all;
  all.reserve(kAtOnce);
  for (int i = 0; i < kAtOnce; ++i) {
    all.push_back(Process::Start(Line({"install", kDirectory})));
  }
  for (Process& each : all) {
    EXPECT_THAT(each.Wait(), Exits(0));
  }
  EXPECT_TRUE(Content("nomad-bridge") == Built());
  EXPECT_EQ(Listing().size(), kLinks.size() + 1);
}

TEST_F(Install, LeavesTheOldProgramWhenTheDiskIsFull) {
  fs::create_directories(kDirectory);
  host().Must({"mount", "-t", "tmpfs", "-o", "size=64k", "none", kDirectory});
  Write("nomad-bridge", "#!/bin/sh\n");
  EXPECT_THAT(RunInstall({"-replace"}), Exits(1, Err(HasSubstr("ENOSPC"))));
  EXPECT_EQ(Content("nomad-bridge"), "#!/bin/sh\n");
  EXPECT_EQ(Listing().size(), 1U) << "nor half a program";
}

}  // namespace
}  // namespace nomad_bridge::test
