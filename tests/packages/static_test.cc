// The static binary in root file systems that have nothing it was built with.
#include "tests/packages/root.h"
#include "tests/support/world.h"

namespace nomad_bridge::test {
namespace {

constexpr const char* kStaticProgram = "/opt/cni/bin/nomad-bridge";

// One of the binaries of the release, unpacked.
std::string Unpacked(const std::string& architecture) {
  const std::string directory = Cat("/run/unpacked/", architecture);
  fs::create_directories(directory);
  Must({.argv = {"tar",
                 "-xzf",
                 ReleaseFile(Cat("nomad-bridge-linux-", architecture, "-"), ".tgz"),
                 "-C",
                 directory}});
  return Cat(directory, "/nomad-bridge");
}

struct Where : Named {
  std::string root;
};

class StaticBinary : public World, public ::testing::WithParamInterface<Where> {
 protected:
  // A verb of the first container, by the program in `root`.
  [[nodiscard]] Outcome RunIn(const Root& root, const std::string& verb, const json& config) {
    Command command = PluginCommand(verb, config.dump(), {{"CNI_PATH", "/opt/cni/bin"}});
    command.argv = {kStaticProgram};
    return Execute(root.In(std::move(command)));
  }
};

INSTANTIATE_TEST_SUITE_P(Roots,
                         StaticBinary,
                         ::testing::Values(Where{{"Debian11"}, "bullseye"},
                                           Where{{"Debian12"}, "bookworm"},
                                           Where{{"EmptyRoot"}, ""},
                                           Where{{"Busybox"}, "busybox"}),
                         kNameOf);

TEST_P(StaticBinary, MakesAnAttachmentAnywhere) {
  const bool has_busybox = GetParam().root == "busybox";
  const Root root(has_busybox ? "" : GetParam().root);
  root.Put(Unpacked("amd64"), kStaticProgram);
  if (has_busybox) {
    root.Put("/bin/busybox", "/bin/busybox");
    EXPECT_EQ(root.Run({"/bin/busybox", "sh", "-c", kStaticProgram}).exit_code, 0);
  }
  const json config = Publish({Port(8080, 80)}, DualStack());

  const Outcome add = RunIn(root, "ADD", config);

  ASSERT_EQ(add.exit_code, 0) << add;
  EXPECT_EQ(add.err, "");
  EXPECT_THAT(AddressesOn(container(), "eth0"), ElementsAre("172.26.64.2/20", "fd00:26::2/64"));
  Serve(container(), Protocol::kTcp, {"172.26.64.2"}, 80, "here");
  EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "here");
  EXPECT_THAT(RunIn(root, "CHECK", WithResult(config, add.json)), Exits(0));
  EXPECT_THAT(RunIn(root, "DEL", config), Exits(0));
  EXPECT_FALSE(HasInterface(container(), "eth0"));
  EXPECT_FALSE(HasRecord("alloc-1"));
  EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "");
}

}  // namespace
}  // namespace nomad_bridge::test
