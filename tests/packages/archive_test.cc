// The files of a release: what is in them, and that the other architecture's binary runs.
#include <regex>

#include "tests/packages/root.h"
#include "tests/support/fixture.h"
#include "tests/support/scratch_directory.h"
#include "tests/support/world.h"

namespace nomad_bridge::test {
namespace {

TEST(Release, HasSumsThatTheUsualProgramsCheck) {
  for (const char* const sum : {"sha256", "sha512"}) {
    for (const char* const architecture : {"amd64", "arm64"}) {
      const std::string list =
          ReleaseFile(Cat("nomad-bridge-linux-", architecture, "-v"), Cat(".tgz.", sum));
      Must({.argv = {"sh",
                     "-c",
                     Format("cd {} && {}sum -c {}",
                            NOMAD_BRIDGE_PACKAGES "/one",
                            sum,
                            fs::path(list).filename().string())}});
    }
  }
}

// As Nomad's documentation has it: curl | tar -C /opt/cni/bin -xz.
TEST(Release, ArchiveUnpacksTheProgramAlone) {
  for (const char* const architecture : {"amd64", "arm64"}) {
    const std::string archive = ReleaseFile(Cat("nomad-bridge-linux-", architecture, "-v"), ".tgz");
    const std::vector<std::string> files = Lines(Must({.argv = {"tar", "-tzf", archive}}));
    for (const std::string& file : files) {
      EXPECT_TRUE(file == "nomad-bridge" || file.starts_with("share/")) << file;
    }
    EXPECT_THAT(files,
                AllOf(Contains("nomad-bridge"),
                      Contains("share/doc/nomad-bridge/copyright"),
                      Contains("share/doc/nomad-bridge/built-using"),
                      Contains("share/doc/nomad-bridge/commit"),
                      Contains("share/nomad-bridge/etc/systemd/system/nomad-bridge.service"),
                      Contains("share/doc/nomad-bridge/CHANGELOG.md"),
                      Contains("share/doc/nomad-bridge/SECURITY.md"),
                      Contains("share/doc/nomad-bridge/docs/commands.md"),
                      Contains("share/doc/nomad-bridge/docs/schema/doctor.json"),
                      Contains("share/nomad-bridge/examples/prometheus/alerts.yml"),
                      Contains("share/nomad-bridge/examples/prometheus/by-job.yml"),
                      Contains("share/nomad-bridge/examples/grafana/nomad-bridge.json"),
                      Contains("share/doc/nomad-bridge/licenses/GPL-3"),
                      Contains("share/man/man8/nomad-bridge.8.gz"),
                      Contains("share/bash-completion/completions/nomad-bridge"),
                      Contains("share/nomad-bridge/examples/nomad.conflist")));
  }
}

// README.md and the documents, where the packages have them.
TEST(Release, DocumentsLinkOnlyToFilesInIt) {
  const test::ScratchDirectory unpacked;
  Must({.argv = {"tar",
                 "-xzf",
                 ReleaseFile("nomad-bridge-linux-amd64-v", ".tgz"),
                 "-C",
                 unpacked.path()}});
  const fs::path root = fs::path(unpacked.path()) / "share/doc/nomad-bridge";
  const std::regex link(R"(\]\(([^)#:]+)[^):]*\))");
  int links = 0;
  for (const char* const directory : {"", "docs", "docs/inside"}) {
    for (const fs::directory_entry& document : fs::directory_iterator(root / directory)) {
      if (document.path().extension() != ".md" || document.path().filename() == "CONTRIBUTING.md") {
        continue;  // that one is for those who have the sources
      }
      const std::string text = FindFile(document.path()).value();
      for (std::sregex_iterator at(text.begin(), text.end(), link), end; at != end; ++at) {
        const std::string target = (*at)[1];
        EXPECT_TRUE(fs::exists(document.path().parent_path() / target))
            << document.path() << ": " << target;
        ++links;
      }
    }
  }
  EXPECT_GT(links, 20);
}

class ReleaseRoot : public World {};

TEST_F(ReleaseRoot, PackagesPassLintian) {
  const Root root("release");
  for (const char* const architecture : {"amd64", "arm64"}) {
    root.Put(ReleaseFile("nomad-bridge_", Cat("_", architecture, ".deb")), "/package.deb");
    EXPECT_THAT(root.Run({"lintian", "--fail-on", "error", "/package.deb"}),
                Exits(0, Out(Not(HasSubstr("groff-message")))))
        << "a line of the man page is lost";
  }
}

// "Without a package" in README.md, to the letter but for systemd: see check-package.
TEST_F(ReleaseRoot, InstallsInBusyboxAsTheReadmeSays) {
  const Root root("");
  root.Put("/bin/busybox", "/bin/busybox");
  for (const char* const directory : {"/etc/systemd/system", "/usr/sbin", "/tmp"}) {
    fs::create_directories(root.Path(directory));
  }
  ASSERT_THAT(root.Run({"/bin/busybox", "--install", "/bin"}), Exits(0));
  for (const char* const end : {".tgz", ".tgz.sha256"}) {
    const std::string file = ReleaseFile("nomad-bridge-linux-amd64-v", end);
    root.Put(file, Cat("/", fs::path(file).filename().string()));
  }
  std::string commands = FindFile(ProjectPath("README.md")).value();
  commands.erase(0, commands.find("### Without a package\n"));
  commands.erase(0, commands.find("```sh\n") + 6);
  commands.erase(commands.find("systemctl enable --now nomad-bridge\n```"));

  for (const char* const which : {"first", "again"}) {
    EXPECT_THAT(root.Run({"sh", "-euc", commands}), Exits(0)) << which;
  }

  EXPECT_THAT(root.Run({"nomad-bridge", "version"}), Exits(0));
  EXPECT_THAT(root.Run({"ls", "/opt/cni/bin"}).out, "nomad-bridge\n");
  EXPECT_THAT(Lines(root.Run({"find", "/etc", "-type", "f"}).out),
              AllOf(Contains("/etc/systemd/system/nomad-bridge.service"),
                    Contains("/etc/systemd/system/nomad-bridge-reconcile.socket"),
                    Contains("/etc/systemd/network/10-nomad-bridge.network"),
                    Contains("/etc/NetworkManager/conf.d/10-nomad-bridge.conf"),
                    Contains("/etc/modules-load.d/nomad-bridge.conf")));
}

// As far as qemu-user goes: of netlink it knows rtnetlink alone, and an ADD begins with a socket
// for nf_tables.
TEST_F(ReleaseRoot, RunsTheProgramForArm64) {
  const Root root("release");
  Must({.argv = {"tar",
                 "-xzf",
                 ReleaseFile("nomad-bridge-linux-arm64-v", ".tgz"),
                 "-C",
                 root.Path("/opt"),
                 "nomad-bridge"}});
  const std::vector<std::string> emulated = {"qemu-aarch64", "/opt/nomad-bridge"};

  EXPECT_THAT(root.Run(emulated).err, StartsWith("CNI nomad-bridge plugin v"));
  EXPECT_THAT(root.Run(emulated, {{"CNI_COMMAND", "VERSION"}}),
              Out(HasSubstr("supportedVersions")));
  EXPECT_THAT(root.Run({"qemu-aarch64", "/opt/nomad-bridge", "install", "/opt/cni/bin"}),
              Out(HasSubstr("/opt/cni/bin/portmap: link to nomad-bridge\n")));
  root.Put(ProjectPath("examples/consul.conflist"), "/consul.conflist");
  EXPECT_THAT(
      root.Run({"qemu-aarch64", "/opt/nomad-bridge", "config", "check", "/consul.conflist"}),
      Exits(0));
  const auto add = [&](const json& config) {
    Command command = PluginCommand("ADD", config.dump());
    command.argv = emulated;
    return Execute(root.In(std::move(command)));
  };
  EXPECT_EQ(ErrorCode(add(Config({{"mtu", 12}}))), 7);
  EXPECT_THAT(Details(add(Config())), HasSubstr("EPROTONOSUPPORT"));
  EXPECT_FALSE(HasRecord("alloc-1"));
}

}  // namespace
}  // namespace nomad_bridge::test
