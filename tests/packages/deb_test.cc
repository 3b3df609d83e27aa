// The Debian package on Debian 12 and 13: installed, upgraded and removed on a node that is at
// work.
#include "tests/packages/root.h"
#include "tests/support/world.h"

namespace nomad_bridge::test {
namespace {

constexpr int kAttachments = 20;
constexpr int kFirstPort = 8000;
constexpr const char* kProgram = "/opt/cni/bin/nomad-bridge";

struct Release : Named {
  std::string root;
};

class Package : public World, public ::testing::WithParamInterface<Release> {
 protected:
  // dpkg -i of what was built, or of the same with a higher version.
  static std::vector<std::string> InstallLine(const Root& root) {
    root.Put(ReleaseFile("nomad-bridge_", "_amd64.deb"), "/tmp/nomad-bridge.deb");
    return {"dpkg", "--install", "/tmp/nomad-bridge.deb"};
  }
  static std::vector<std::string> UpgradeLine(const Root& root) {
    InstallLine(root);
    EXPECT_THAT(root.Run({"sh",
                          "-euc",
                          "dpkg-deb --raw-extract /tmp/nomad-bridge.deb /tmp/tree\n"
                          "sed -i 's/^Version: .*/&+next/' /tmp/tree/DEBIAN/control\n"
                          "dpkg-deb --build /tmp/tree /tmp/next.deb\n"
                          "rm -r /tmp/tree"}),
                Exits(0));
    return {"dpkg", "--install", "/tmp/next.deb"};
  }
  static void MustRun(const Root& root, const std::vector<std::string>& argv) {
    ASSERT_THAT(root.Run(argv), Exits(0));
  }
  static std::string Status(const Root& root) {
    return root.Run({"dpkg-query", "--show", "--showformat=${db:Status-Status}", "nomad-bridge"})
        .out;
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

INSTANTIATE_TEST_SUITE_P(Debian,
                         Package,
                         ::testing::Values(Release{{"Bookworm"}, "bookworm"},
                                           Release{{"Trixie"}, "trixie"}),
                         kNameOf);

TEST_P(Package, InstallsWhatItSays) {
  const Root root(GetParam().root);

  MustRun(root, InstallLine(root));

  EXPECT_THAT(root.Run({kProgram}).err, StartsWith("CNI nomad-bridge plugin v"));
  EXPECT_EQ(fs::read_symlink(root.Path("/usr/sbin/nomad-bridge")), kProgram);
  for (const char* const file : {"/usr/lib/systemd/network/10-nomad-bridge.network",
                                 "/usr/lib/NetworkManager/conf.d/10-nomad-bridge.conf",
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
  const std::string page =
      Must({.argv = {"zcat", root.Path("/usr/share/man/man8/nomad-bridge.8.gz")}});
  EXPECT_THAT(page, AllOf(HasSubstr(".SS install\n"), HasSubstr(".SS reconcile\n")));
  for (const char* const name : {"bridge", "host-local", "firewall", "portmap", "loopback"}) {
    EXPECT_FALSE(fs::exists(root.Path(Cat("/opt/cni/bin/", name)))) << name;
  }
}

TEST_P(Package, LeavesNothingAfterAPurge) {
  const Root root(GetParam().root);
  const std::vector<std::string> before = root.Files();
  MustRun(root, InstallLine(root));
  MustRun(root, {"nomad-bridge", "install", "/opt/cni/bin"});
  fs::create_directories("/run/nomad-bridge/nomad");
  std::ofstream(root.Path("/opt/cni/bin/dhcp")) << "another plugin";

  MustRun(root, {"dpkg", "--purge", "nomad-bridge"});

  EXPECT_TRUE(fs::remove(root.Path("/opt/cni/bin/dhcp"))) << "not ours";
  fs::remove_all(root.Path("/tmp/nomad-bridge.deb"));
  fs::remove(root.Path("/opt/cni/bin"));
  fs::remove(root.Path("/opt/cni"));
  EXPECT_EQ(root.Files(), before);
  EXPECT_FALSE(fs::exists("/run/nomad-bridge"));
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
  EXPECT_THAT(root.Run({"dpkg-query", "--show", "nomad-bridge"}).out, HasSubstr("+next"));
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

  EXPECT_THAT(root.Run({"dpkg", "--remove", "nomad-bridge"}),
              Exits(Ne(0),
                    Err(AllOf(HasSubstr("2 attachments"),
                              HasSubstr("would never be taken back"),
                              HasSubstr("NOMAD_BRIDGE_REMOVE=force dpkg --remove nomad-bridge")))));

  EXPECT_EQ(Status(root), "installed");
  EXPECT_EQ(RunInstalled(root, "DEL", 1).exit_code, 0);

  EXPECT_THAT(root.Run({"dpkg", "--remove", "nomad-bridge"}, {{"NOMAD_BRIDGE_REMOVE", "force"}}),
              Exits(0));
  EXPECT_FALSE(fs::exists(root.Path(kProgram)));
  EXPECT_EQ(AskFor(0), "number 0") << "what is in the kernel goes on";

  MustRun(root, InstallLine(root));
  EXPECT_EQ(RunInstalled(root, "DEL", 0).exit_code, 0);
  MustRun(root, {"dpkg", "--remove", "nomad-bridge"});
}

TEST_P(Package, IsNotRemovedWhileAnAllocationRunsWhoseLinkOrRecordIsDamaged) {
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

    EXPECT_THAT(root.Run({"dpkg", "--remove", "nomad-bridge"}),
                Exits(Ne(0),
                      Err(AllOf(HasSubstr(Cat(state, "\n1 attachment")),
                                HasSubstr("would never be taken back")))));

    EXPECT_EQ(Status(root), "installed");
    EXPECT_EQ(RunInstalled(root, "DEL", 0).exit_code, 0);
  }
  MustRun(root, {"dpkg", "--remove", "nomad-bridge"});
}

}  // namespace
}  // namespace nomad_bridge::test
