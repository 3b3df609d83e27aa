// The packages on Debian 12 and 13: installed, upgraded and removed on a node that is at work. For
// the rpm, Debian has rpm and dnf.
#include "tests/packages/root.h"
#include "tests/support/world.h"

namespace nomad_bridge::test {
namespace {

constexpr int kAttachments = 20;
constexpr int kFirstPort = 8000;
constexpr const char* kProgram = "/opt/cni/bin/nomad-bridge";
constexpr const char* kNextVersion = "99.0.0";

// A package manager in a root file system: its command lines, without the package.
struct Manager : Named {
  std::string root;
  std::string package;  // how its file begins
  std::string install;
  std::string remove;
  std::string purge;
  std::string version;
  std::string about;
  std::string forced;  // the command that the refusal of a removal names
};

Manager Dpkg(const char* name, const std::string& root) {
  return {{name},
          root,
          "nomad-bridge_",
          "dpkg --install",
          "dpkg --remove",
          "dpkg --purge",
          "dpkg-query --show --showformat=${db:Status-Status}:${Version}",
          "dpkg --status",
          "dpkg --remove"};
}

Manager Rpm(const char* name, const std::string& install, const std::string& remove) {
  return {{name},
          "rpm",
          "nomad-bridge-",
          install,
          remove,
          remove,
          "rpm --query --queryformat=installed:%{VERSION}",
          "rpm --query --info",
          "rpm --erase"};
}

class Package : public World, public ::testing::WithParamInterface<Manager> {
 protected:
  // A command line of the manager about the package, whose file is the release's or the next one's.
  static std::vector<std::string> About(const std::string& line, const std::string& operand) {
    std::vector<std::string> argv = Words(line);
    argv.push_back(operand);
    return argv;
  }
  static std::vector<std::string> InstallLine(const Root& root, const std::string& directory) {
    const bool is_deb = GetParam().package.ends_with('_');
    const std::string file = Cat("/tmp/", directory, is_deb ? ".deb" : ".rpm");
    root.Put(ReleaseFile(GetParam().package, is_deb ? "_amd64.deb" : ".x86_64.rpm", directory),
             file);
    return About(GetParam().install, file);
  }
  static std::vector<std::string> InstallLine(const Root& root) { return InstallLine(root, "one"); }
  static std::vector<std::string> UpgradeLine(const Root& root) {
    return InstallLine(root, "next");
  }
  static std::vector<std::string> RemoveLine() { return About(GetParam().remove, "nomad-bridge"); }
  static void MustRun(const Root& root, const std::vector<std::string>& argv) {
    ASSERT_THAT(root.Run(argv), Exits(0));
  }
  // "installed:<version>" if it is.
  static std::string Status(const Root& root) {
    return root.Run(About(GetParam().version, "nomad-bridge")).out;
  }
  static void ExpectRefusal(const Root& root, const std::string& why) {
    const Outcome removal = root.Run(RemoveLine());
    EXPECT_NE(removal.exit_code, 0);
    EXPECT_THAT(
        Cat(removal.out, removal.err),
        AllOf(HasSubstr(why),
              HasSubstr("would never be taken back"),
              HasSubstr(Cat("NOMAD_BRIDGE_REMOVE=force ", GetParam().forced, " nomad-bridge"))));
    EXPECT_THAT(Status(root), StartsWith("installed:"));
    EXPECT_EQ(root.Run({kProgram}).exit_code, 0);
  }

  Outcome RunInstalled(const Root& root, const std::string& verb, int i) {
    const json config = Publish({Port(kFirstPort + i, 80)});
    Command command = PluginCommand(
        verb, config.dump(), As(Cat("alloc-", i), *nodes_.at(static_cast<std::size_t>(i))));
    command.argv = {kProgram};
    return Execute(root.In(std::move(command)));
  }
  void MakeContainers(int count) {
    for (int i = 0; i < count; ++i) {
      nodes_.push_back(&AddContainer(Cat("c", i)));
    }
  }
  void AttachAll(const Root& root) {
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      ASSERT_THAT(RunInstalled(root, "ADD", static_cast<int>(i)), Exits(0));
      Serve(*nodes_[i], Protocol::kTcp, {"0.0.0.0"}, 80, Cat("number ", i));
    }
  }
  [[nodiscard]] std::string AskFor(int i) {
    return TcpText(outside(), kHostIp4, static_cast<std::uint16_t>(kFirstPort + i));
  }

  std::vector<Node*> nodes_;
};

constexpr const char* kDnf = "dnf -y --setopt=reposdir=/none --releasever=9 ";

INSTANTIATE_TEST_SUITE_P(By,
                         Package,
                         ::testing::Values(Dpkg("DpkgOfBookworm", "bookworm"),
                                           Dpkg("DpkgOfTrixie", "trixie"),
                                           Rpm("Rpm", "rpm --upgrade", "rpm --erase"),
                                           Rpm("Dnf", Cat(kDnf, "install"), Cat(kDnf, "remove"))),
                         kNameOf);

TEST_P(Package, InstallsItsProgramAndFiles) {
  const Root root(GetParam().root);

  MustRun(root, InstallLine(root));

  EXPECT_THAT(root.Run({kProgram}).err, StartsWith("CNI nomad-bridge plugin v"));
  EXPECT_EQ(fs::read_symlink(root.Path("/usr/sbin/nomad-bridge")), kProgram);
  for (const char* const file : {"/usr/lib/systemd/network/10-nomad-bridge.network",
                                 "/usr/lib/NetworkManager/conf.d/10-nomad-bridge.conf",
                                 "/usr/lib/modules-load.d/nomad-bridge.conf",
                                 "/usr/share/nomad-bridge/examples/nomad.conflist",
                                 "/usr/share/doc/nomad-bridge/examples/nomad.conflist",
                                 "/usr/share/doc/nomad-bridge/docs/troubleshooting.md",
                                 "/usr/share/doc/nomad-bridge/docs/schema/inspect.json",
                                 "/usr/share/doc/nomad-bridge/SECURITY.md",
                                 "/usr/lib/systemd/system/nomad-bridge.service",
                                 "/usr/lib/systemd/system/nomad-bridge-policy.service",
                                 "/usr/lib/systemd/system/nomad-bridge-reconcile.timer",
                                 "/usr/lib/systemd/system/nomad-bridge-reconcile.socket",
                                 "/usr/share/bash-completion/completions/nomad-bridge"}) {
    EXPECT_TRUE(fs::exists(root.Path(file))) << file;
  }
  std::string commit = FindFile(root.Path("/usr/share/doc/nomad-bridge/commit")).value();
  EXPECT_THAT(root.Run({"nomad-bridge", "version"}), Out(EndsWith(Cat("\ncommit ", commit))));
  commit.pop_back();
  EXPECT_THAT(root.Run(About(GetParam().about, "nomad-bridge")),
              Out(HasSubstr(Cat("Built from commit ", commit, '.'))));
  const std::string page =
      Must({.argv = {"zcat", root.Path("/usr/share/man/man8/nomad-bridge.8.gz")}});
  EXPECT_THAT(page, AllOf(HasSubstr(".SS install\n"), HasSubstr(".SS reconcile\n")));
  for (const char* const name : {"bridge", "host-local", "firewall", "portmap", "loopback"}) {
    EXPECT_FALSE(fs::exists(root.Path(Cat("/opt/cni/bin/", name)))) << name;
  }
}

TEST_P(Package, LeavesNothingOnDisk) {
  const Root root(GetParam().root);
  const std::vector<std::string> before = root.Files();
  MustRun(root, InstallLine(root));
  MustRun(root, {"nomad-bridge", "install", "/opt/cni/bin"});
  fs::create_directories("/run/nomad-bridge/nomad");
  std::ofstream(root.Path("/opt/cni/bin/dhcp")) << "another plugin";

  MustRun(root, About(GetParam().purge, "nomad-bridge"));

  EXPECT_TRUE(fs::remove(root.Path("/opt/cni/bin/dhcp"))) << "not ours";
  for (const fs::directory_entry& package : fs::directory_iterator(root.Path("/tmp"))) {
    fs::remove(package.path());
  }
  fs::remove(root.Path("/opt/cni/bin"));
  fs::remove(root.Path("/opt/cni"));
  const std::vector<std::string> after = root.Files();
  EXPECT_TRUE(std::ranges::includes(after, before)) << "it took something else away";
  for (const std::string& path : after) {
    // rpm leaves directories that others may have, too.
    EXPECT_TRUE(std::ranges::binary_search(before, path) ||
                (GetParam().root == "rpm" && fs::is_directory(root.Path(path))))
        << path;
  }
  EXPECT_EQ(fs::exists("/run/nomad-bridge"), GetParam().root == "rpm") << "only dpkg can purge";
}

TEST_P(Package, UpgradesUnderLivingAttachmentsWithTraffic) {
  MakeContainers(kAttachments + 1);
  const Root root(GetParam().root);
  MustRun(root, InstallLine(root));
  Node* const late = nodes_.back();
  nodes_.pop_back();
  AttachAll(root);
  nodes_.push_back(late);
  std::vector<Connection> connections;
  for (int i = 0; i < kAttachments; ++i) {
    const auto port = static_cast<std::uint16_t>(kFirstPort + i);
    connections.push_back(*Connection::Open(outside(), {.to = kHostIp4, .port = port}));
  }
  Process upgrade = Process::Start(root.In({.argv = UpgradeLine(root)}));

  // As allocations come and go meanwhile.
  for (int round = 0; round < 10; ++round) {
    for (const char* const verb : {"ADD", "DEL"}) {
      EXPECT_THAT(RunInstalled(root, verb, kAttachments), Exits(0));
    }
    EXPECT_TRUE(connections[static_cast<std::size_t>(round)].Echoes("during"));
  }

  EXPECT_THAT(upgrade.Wait(), Exits(0));
  EXPECT_EQ(Status(root), Cat("installed:", kNextVersion));
  for (int i = 0; i < kAttachments; ++i) {
    EXPECT_TRUE(connections[static_cast<std::size_t>(i)].Echoes("after")) << i;
    EXPECT_EQ(AskFor(i), Cat("number ", i));
    EXPECT_EQ(RunInstalled(root, "DEL", i).exit_code, 0);
  }
}

TEST_P(Package, IsNotRemovedWhileAttachmentsLiveUnlessForced) {
  MakeContainers(2);
  const Root root(GetParam().root);
  MustRun(root, InstallLine(root));
  AttachAll(root);

  ExpectRefusal(root, "2 attachments");

  EXPECT_EQ(RunInstalled(root, "DEL", 1).exit_code, 0);

  EXPECT_THAT(root.Run(RemoveLine(), {{"NOMAD_BRIDGE_REMOVE", "force"}}), Exits(0));
  EXPECT_FALSE(fs::exists(root.Path(kProgram)));
  EXPECT_EQ(AskFor(0), "number 0") << "what is in the kernel goes on";

  MustRun(root, InstallLine(root));
  EXPECT_EQ(RunInstalled(root, "DEL", 0).exit_code, 0);
  MustRun(root, RemoveLine());
}

TEST_P(Package, IsNotRemovedWhileAnAllocationHasADamagedLinkOrRecord) {
  MakeContainers(1);
  const Root root(GetParam().root);
  MustRun(root, InstallLine(root));
  const std::string record = RecordOf("alloc-0");
  const std::map<std::string, std::function<void()>> damages = {
      {"unplugged",
       [&] {
         const json veth = host().Json(Words("ip -j link show type veth master nomad"));
         host().Must({"ip", "link", "set", veth.at(0).at("ifname"), "nomaster"});
       }},
      {"unrecorded", [&] { fs::remove(record); }},
      {"unreadable", [&] { std::ofstream(record) << "{half"; }}};
  for (const auto& [state, damage] : damages) {
    EXPECT_EQ(RunInstalled(root, "ADD", 0).exit_code, 0);
    damage();

    ExpectRefusal(root, Cat(state, "\n1 attachment"));

    EXPECT_EQ(RunInstalled(root, "DEL", 0).exit_code, 0);
  }
  MustRun(root, RemoveLine());
}

}  // namespace
}  // namespace nomad_bridge::test
