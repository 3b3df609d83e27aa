// nomad-bridge uninstall DIR, the mirror of install.
#include "tests/plugin/cli_world.h"

namespace nomad_bridge::test {
namespace {

class Uninstall : public CliWorld {
 protected:
  void SetUp() override { fs::create_directory("/run/plugins"); }
  static void Write(const std::string& name) { std::ofstream(Cat("/run/plugins/", name)) << name; }
};

TEST_F(Uninstall, RemovesWhatInstallCreatedAndNothingElse) {
  Write("dhcp");
  ASSERT_THAT(Output("install /run/plugins"), Not(IsEmpty()));

  EXPECT_EQ(Output("uninstall /run/plugins"),
            "/run/plugins/loopback: removed\n"
            "/run/plugins/portmap: removed\n"
            "/run/plugins/firewall: removed\n"
            "/run/plugins/host-local: removed\n"
            "/run/plugins/bridge: removed\n"
            "/run/plugins/nomad-bridge: removed\n");
  EXPECT_THAT(Entries("/run/plugins"), ElementsAre("dhcp"));
  EXPECT_EQ(Output("uninstall /run/plugins"), "") << "again";
}

// Its DEL needs the program.
TEST_F(Uninstall, IsRefusedWhileAnAttachmentIsAlive) {
  ASSERT_THAT(Output("install /run/plugins"), Not(IsEmpty()));
  Attach(Config(), As("web", container()));
  AttachDead("doomed");

  EXPECT_THAT(RunLine("uninstall /run/plugins"),
              Exits(1,
                    Out(""),
                    Err(AllOf(HasSubstr("nothing was removed: this node still has 1 attachment, "),
                              HasSubstr("nomad node drain")))));

  EXPECT_EQ(Entries("/run/plugins").size(), 6U);
  Detach(Config(), As("web", container()));
  EXPECT_EQ(RunLine("uninstall /run/plugins").exit_code, 0) << "what is dead has gc";
  EXPECT_THAT(Entries("/run/plugins"), IsEmpty());
}

TEST_F(Uninstall, LeavesAndNamesForeignFiles) {
  Write("bridge");
  ASSERT_THAT(Output("install -replace /run/plugins"), Not(IsEmpty()));
  fs::remove("/run/plugins/portmap");
  Write("portmap");
  fs::remove("/run/plugins/firewall");
  fs::create_directory("/run/plugins/firewall");

  EXPECT_EQ(Output("uninstall /run/plugins"),
            "/run/plugins/loopback: removed\n"
            "/run/plugins/portmap: not ours, left\n"
            "/run/plugins/firewall: not ours, left\n"
            "/run/plugins/host-local: removed\n"
            "/run/plugins/bridge: removed\n"
            "/run/plugins/nomad-bridge: removed\n");
  EXPECT_EQ(FindFile("/run/plugins/bridge.before-nomad-bridge"), "bridge");
  EXPECT_EQ(FindFile("/run/plugins/portmap"), "portmap");
}

TEST_F(Uninstall, LeavesAForeignProgramOfItsName) {
  Write("nomad-bridge");
  EXPECT_EQ(Output("uninstall /run/plugins"), "/run/plugins/nomad-bridge: not ours, left\n");
}

}  // namespace
}  // namespace nomad_bridge::test
