// "Install it under Nomad" in README.md: the archive, the sources and the upgrade, to the letter.
#include <memory>

#include "tests/plugin/pages_world.h"

namespace nomad_bridge::test {
namespace {

constexpr const char* kReadme = "README.md";
constexpr const char* kInstallation = "Install it under Nomad";
constexpr const char* kOperator = "/run/operator";
constexpr const char* kArchive = "nomad-bridge-linux-amd64-v2.0.0.tgz";

class ArchivePage : public TypedPage {
 protected:
  ArchivePage() : TypedPage(kReadme, kInstallation) {
    for (const char* const directory : {"/etc", "/usr/sbin"}) {
      const std::string layer = Cat("/run/layers", directory);
      fs::create_directories(Cat(layer, "/upper"));
      fs::create_directories(Cat(layer, "/work"));
      layers_.push_back(std::make_unique<Mounted>(
          Words(Format("-t overlay -oupperdir={}/upper,workdir={}/work,lowerdir={} overlay",
                       layer,
                       layer,
                       directory)),
          directory));
    }
    fs::create_directories(kOperator);
    MakeArchive();
    MakeSources();
  }

  [[nodiscard]] std::string Here() override { return kOperator; }

  // The first commands behind a heading.
  static std::string CommandsOf(const std::string& heading) {
    std::string text = ReadFixture(Cat("../", kReadme));
    text.erase(0, text.find(heading));
    const std::size_t begin = text.find("```sh\n") + 6;
    return text.substr(begin, text.find("```", begin) - begin);
  }

 private:
  // What packaging/build-release puts into it, as far as the page needs it.
  static void MakeArchive() {
    const std::string stage = "/run/stage";
    const std::string share = Cat(stage, "/share/nomad-bridge");
    fs::create_directories(Cat(share, "/etc/systemd/system"));
    fs::copy_file(BinaryUnderTest(), Cat(stage, "/nomad-bridge"));
    fs::copy(ProjectPath("packaging/systemd"), Cat(share, "/etc/systemd/system"));
    fs::copy(ProjectPath("examples"), Cat(share, "/examples"), fs::copy_options::recursive);
    const std::string archive = Cat(kOperator, '/', kArchive);
    Must({.argv = {"tar", "-C", stage, "-czf", archive, "nomad-bridge", "share"}});
    Must({.argv = {"sh",
                   "-euc",
                   Format("cd {}; sha256sum {} >{}.sha256", kOperator, kArchive, kArchive)}});
  }

  // A clone that is built already.
  static void MakeSources() {
    fs::copy(ProjectPath("packaging"), Cat(kOperator, "/packaging"), fs::copy_options::recursive);
    fs::create_directories(Cat(kOperator, "/build/release/plugin"));
    fs::create_symlink(BinaryUnderTest(), Cat(kOperator, "/build/release/plugin/nomad-bridge"));
    WriteProgram(Cat(kOperator, "/packaging/install-packages.sh"), "#!/bin/sh\n");
    WriteProgram("/run/bin/cmake", "#!/bin/sh\n");
  }

  std::vector<std::unique_ptr<Mounted>> layers_;
};

TEST_F(ArchivePage, InstallsAndLeadsToTheNetwork) {
  ReplaceFile(Cat(kOperator, "/nomad-bridge_2.0.0_amd64.deb"), "");
  Type();
  fs::remove_all("/opt/cni");
  fs::remove("/run/bin/nomad-bridge");

  Type();  // the archive
  EXPECT_THAT(Entries("/opt/cni/bin"), ElementsAre("nomad-bridge"));
  EXPECT_TRUE(fs::equivalent("/usr/sbin/nomad-bridge", "/opt/cni/bin/nomad-bridge"));
  EXPECT_TRUE(fs::exists("/etc/systemd/system/nomad-bridge-reconcile.socket"));

  // Where the reference plugins are, as their package has them.
  fs::remove_all("/opt/cni");
  fs::remove("/usr/sbin/nomad-bridge");
  for (const fs::directory_entry& unit : fs::directory_iterator("/etc/systemd/system")) {
    if (unit.path().filename().string().starts_with("nomad-bridge")) {
      fs::remove(unit.path());
    }
  }
  fs::create_directories("/opt/cni/bin");
  fs::copy(kReferenceDirectory, "/opt/cni/bin");
  const std::vector<std::string> theirs = Entries("/opt/cni/bin");
  Type();  // from source
  EXPECT_THAT(Entries("/opt/cni/bin"), SizeIs(theirs.size() + 1));
  for (const char* const file : {"/etc/systemd/system/nomad-bridge.service",
                                 "/etc/systemd/network/10-nomad-bridge.network",
                                 "/etc/NetworkManager/conf.d/10-nomad-bridge.conf",
                                 "/etc/modules-load.d/nomad-bridge.conf"}) {
    EXPECT_TRUE(fs::exists(file)) << file;
  }

  Type();  // the conflist
  EXPECT_TRUE(fs::exists("/opt/cni/config/nomad.conflist"));
  Type();  // Nomad's own mode
  EXPECT_EQ(fs::read_symlink("/opt/cni/bin/bridge"), "nomad-bridge");
  EXPECT_TRUE(fs::exists("/opt/cni/bin/bridge.before-nomad-bridge"));
  ExpectAllTyped();
}

TEST_F(ArchivePage, UpgradesWhileCallsRun) {
  const std::string commands = Cat("set -e\n", CommandsOf("### Without a package"));
  ASSERT_THAT(Execute(InShell(commands)), Exits(0));
  Process calls = Process::Start(InShell(R"(
    called=0 failed=0
    until [ -e /run/enough ]; do
      called=$((called + 1))
      CNI_COMMAND=VERSION /opt/cni/bin/nomad-bridge </dev/null >/dev/null 2>&1 || failed=$((failed + 1))
      echo $called >/run/called
    done
    echo $failed failed
  )"));
  const auto called = [] { return std::atoi(FindFile("/run/called").value_or("0").c_str()); };
  for (int upgrade = 0; upgrade < 10; ++upgrade) {
    const int before = called();
    EXPECT_THAT(Execute(InShell(commands)), Exits(0));
    EXPECT_TRUE(Soon([&] { return called() > before; }));
  }
  ReplaceFile("/run/enough", "");

  EXPECT_EQ(calls.Wait().out, "0 failed\n");
}

}  // namespace
}  // namespace nomad_bridge::test
