// containerd's ctr, which attaches by go-cni, Nomad's own library.
#include "tests/clients/client_world.h"
#include "tests/clients/containerd_daemon.h"
#include "tests/clients/layer.h"

namespace nomad_bridge::test {
namespace {

// A directory that ctr is built with. It may be missing, or full of the machine's: a layer over its
// parent keeps what we make there to ourselves, and an empty one hides what is there.
class Cover {
 public:
  Cover(const std::string& parent, const std::string& directory)
      : layer_(LayerOver(parent), parent), empty_(Empty(directory), directory) {}

 private:
  static std::vector<std::string> Empty(const std::string& directory) {
    fs::create_directories(directory);
    return Words("-t tmpfs tmpfs -o mode=0755");
  }

  Mounted layer_;
  Mounted empty_;
};

// containerd and what it starts; all ends with the test.
class Containerd : public ClientWorld {
 protected:
  Containerd() : daemon_(StartDaemon()) {}

  // The list that go-cni finds. ctr publishes no ports, so they stand in the file.
  static void UseList(json list) {
    for (json& plugin : list.at("plugins")) {
      if (plugin.value("capabilities", json::object()).value("portMappings", false)) {
        plugin.erase("capabilities");
        plugin["runtimeConfig"]["portMappings"] = {
            {{"hostPort", 8080}, {"containerPort", 80}, {"protocol", "tcp"}}};
      }
    }
    WriteFile("/etc/cni/net.d/10-test.conflist", list.dump());
  }

  [[nodiscard]] static Command Ctr(const std::vector<std::string>& arguments) {
    Command command{.argv = {"ctr", "--address", kSocket}, .variables = {}};
    command.argv.insert(command.argv.end(), arguments.begin(), arguments.end());
    return command;
  }
  // A container that serves its name.
  [[nodiscard]] static Command RunCommand(const std::string& name,
                                          const std::vector<std::string>& options) {
    Command command = Ctr({"run", "--cni", "--runc-binary", kNoCgroups});
    command.argv.insert(command.argv.end(), options.begin(), options.end());
    command.argv.insert(command.argv.end(), {"--rootfs", MakeRoot(name), name});
    command.argv.insert(command.argv.end(), kServe.begin(), kServe.end());
    return command;
  }
  static void Kill(const std::string& name) {
    Must(Ctr({"task", "kill", "--signal", "SIGKILL", name}));
  }

 private:
  static Process StartDaemon() {
    fs::create_directory_symlink(kPlugins, "/opt/cni/bin");
    return StartContainerd();
  }

  Cover opt_{"/opt", "/opt/cni"};
  Cover etc_{"/etc", "/etc/cni"};
  Process daemon_;
};

class EveryList : public Containerd, public ::testing::WithParamInterface<const char*> {};

INSTANTIATE_TEST_SUITE_P(Containerd,
                         EveryList,
                         ::testing::Values("nomad_bridge", "nomad_builtin_bridge"),
                         [](const auto& list) { return std::string(list.param); });

TEST_P(EveryList, AContainerServesItsPortAndLeavesNoTrace) {
  UseList(Conflist(GetParam()));
  Must(Ctr({"run",
            "--rm",
            "--cni",
            "--runc-binary",
            kNoCgroups,
            "--rootfs",
            MakeRoot("early"),
            "early",
            "/bin/busybox",
            "true"}));
  const Snapshot before = TakeSnapshot();

  Process web = Process::Start(RunCommand("web", {"--rm"}));

  EXPECT_EQ(AwaitPage(outside(), kHostIp4, 8080), "web");
  EXPECT_THAT(AliasesOn("nomad"), Each(HasSubstr("nomad-bridge")));
  Kill("web");
  static_cast<void>(web.Wait());
  EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
}

TEST_P(EveryList, AStaleContainerGivesItsPortToTheNextContainer) {
  UseList(Conflist(GetParam()));
  Must(RunCommand("first", {"--detach"}));
  EXPECT_EQ(AwaitPage(outside(), kHostIp4, 8080), "first");
  EXPECT_THAT(Execute(RunCommand("second", {"--rm"})), Exits(Ne(0), Err(HasSubstr("8080"))));

  // ctr never runs DEL for a container that runs by itself.
  Kill("first");
  Process third = Process::Start(RunCommand("third", {"--rm"}));

  EXPECT_EQ(AwaitPage(outside(), kHostIp4, 8080), "third");
  Kill("third");
  static_cast<void>(third.Wait());
}

}  // namespace
}  // namespace nomad_bridge::test
