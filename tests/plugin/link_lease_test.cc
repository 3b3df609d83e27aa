// Leases on disk: their format, and that the reference host-local plugin and ours can take over
// from each other.
#include <filesystem>
#include <fstream>

#include <sys/stat.h>

#include "tests/support/world.h"

namespace nomad_bridge::test {
namespace {

namespace fs = std::filesystem;

class LeaseFile : public World {
 protected:
  // The reference plugin on the same network: same name, ranges and data dir.
  Outcome HostLocal(const std::string& verb, const std::string& container_id) {
    const json config = {
        {"cniVersion", "1.0.0"},
        {"name", "nomad"},
        {"type", "bridge"},
        {"ipam",
         {{"type", "host-local"}, {"subnet", "172.26.64.0/20"}, {"dataDir", "/var/run/cni"}}}};
    return Execute({.argv = {"/usr/lib/cni/host-local"},
                    .input = config.dump(),
                    .variables = {{"CNI_COMMAND", verb},
                                  {"CNI_CONTAINERID", container_id},
                                  {"CNI_NETNS", container().path()},
                                  {"CNI_IFNAME", "eth0"},
                                  {"CNI_PATH", "/usr/lib/cni"}}});
  }

  static void WriteLease(const std::string& address, const std::string& text) {
    fs::create_directories(kLeases);
    std::ofstream(Cat(kLeases, "/", address)) << text;
  }

  static unsigned int ModeOf(const std::string& path) {
    struct stat status {};
    EXPECT_EQ(::stat(path.c_str(), &status), 0) << path;
    return status.st_mode & 07777U;
  }
};

TEST_F(LeaseFile, IsTheReferencePluginsFile) {
  Attach(DualStack());

  EXPECT_EQ(Lease("172.26.64.2"), "alloc-1\r\neth0");
  EXPECT_EQ(Lease("fd00:26::2"), "alloc-1\r\neth0");
  EXPECT_EQ(Lease("last_reserved_ip.0"), "172.26.64.2");
  EXPECT_EQ(Lease("last_reserved_ip.1"), "fd00:26::2");
  EXPECT_EQ(ModeOf(Cat(kLeases, "/172.26.64.2")), 0600U);
  EXPECT_EQ(ModeOf(kLeases), 0755U);
  std::set<std::string> files;
  for (const std::string& name : Entries(kLeases)) {
    files.insert(name);
  }
  EXPECT_EQ(files,
            (std::set<std::string>{
                "172.26.64.2", "fd00:26::2", "last_reserved_ip.0", "last_reserved_ip.1", "lock"}));
}

TEST_F(LeaseFile, IsInTheDirectoryOfTheConfig) {
  const json config = Config(R"({"ipam": {"dataDir": "/var/lib/cni/networks/deep"}})");

  Attach(config);

  EXPECT_EQ(FindFile("/var/lib/cni/networks/deep/nomad/172.26.64.2"), "alloc-1\r\neth0");
  EXPECT_FALSE(fs::exists(kLeases));
  Detach(config);
  EXPECT_THAT(Leased("/var/lib/cni/networks/deep/nomad"), IsEmpty());
}

TEST_F(LeaseFile, IsUnderstoodByTheReferencePlugin) {
  Attach(Config());

  // Its CHECK finds ours; its next address is the one behind ours; its DEL gives ours back.
  const Outcome check = HostLocal("CHECK", "alloc-1");
  EXPECT_EQ(check.exit_code, 0) << check;
  const Outcome add = HostLocal("ADD", "theirs");
  EXPECT_THAT(AddressesIn(add.json), ElementsAre("172.26.64.3/20")) << add;
  const Outcome del = HostLocal("DEL", "alloc-1");
  EXPECT_EQ(del.exit_code, 0) << del;
  EXPECT_EQ(Leased(), (std::set<std::string>{"172.26.64.3"}));
}

TEST_F(LeaseFile, OfTheReferencePluginIsRespected) {
  ASSERT_THAT(AddressesIn(HostLocal("ADD", "theirs").json), ElementsAre("172.26.64.2/20"));

  EXPECT_THAT(AddressesIn(Attach(Config())), ElementsAre("172.26.64.3/20"));
  Detach(Config());
  EXPECT_EQ(Lease("172.26.64.2"), "theirs\r\neth0");
}

TEST_F(LeaseFile, OfTheReferencePluginForTheSameContainerGoesWithDel) {
  ASSERT_EQ(HostLocal("ADD", "alloc-1").exit_code, 0);

  Detach(Config());

  EXPECT_THAT(Leased(), IsEmpty());
}

TEST_F(LeaseFile, LeftEmptyByAKillIsReplaced) {
  WriteLease("172.26.64.2", "");

  EXPECT_THAT(AddressesIn(Attach(Config())), ElementsAre("172.26.64.2/20"));
}

TEST_F(LeaseFile, DirectoryMayHoldJunk) {
  WriteLease("not-an-address", "junk");
  WriteLease("172.26.64.2", "?");
  WriteLease("last_reserved_ip.0", "rubbish");
  fs::create_directories(Cat(kLeases, "/172.26.64.3"));

  EXPECT_THAT(AddressesIn(Attach(Config())), ElementsAre("172.26.64.4/20"));
  Detach(Config());
  EXPECT_EQ(Lease("not-an-address"), "junk");
  EXPECT_EQ(Lease("172.26.64.2"), "?");
}

TEST_F(LeaseFile, IsFoundAmong4000Others) {
  // All but the last 93 addresses of the /20, and every one of them behind the mark.
  for (int i = 2; i < 4002; ++i) {
    WriteLease(Cat("172.26.", 64 + i / 256, ".", i % 256), Cat("other-", i, "\r\neth0"));
  }
  WriteLease("last_reserved_ip.0", "172.26.64.1");

  EXPECT_THAT(AddressesIn(Attach(Config())), ElementsAre("172.26.79.162/20"));
  EXPECT_TRUE(Ping(container(), "172.26.64.1"));
  Detach(Config());
  EXPECT_EQ(Leased().size(), 4000U);
}

TEST_F(LeaseFile, OfTheLastFreeAddressAmong4000IsFoundAndThenThePoolIsFull) {
  for (int i = 2; i < 4095; ++i) {
    if (i != 1234) {
      WriteLease(Cat("172.26.", 64 + i / 256, ".", i % 256), Cat("other-", i, "\r\neth0"));
    }
  }

  EXPECT_THAT(AddressesIn(Attach(Config())), ElementsAre("172.26.68.210/20"));
  const Outcome full = RunPlugin("ADD", Config(), As("alloc-2", AddContainer("second")));
  EXPECT_EQ(ErrorCode(full), 101) << full;
  EXPECT_EQ(Leased().size(), 4093U);
}

}  // namespace
}  // namespace nomad_bridge::test
