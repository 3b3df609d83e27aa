// A commit for which the kernel has to load a module. Only under a kernel that has modules: see
// tests/with-kernel.
#include <sys/stat.h>

#include "netlink/core/netns.h"
#include "netlink/nft/socket.h"
#include "tests/support/scratch_directory.h"
#include "tests/support/world.h"

namespace nomad_bridge::test {
namespace {

// While this object exists, the program that the kernel starts to load a module first changes the
// ruleset of this process's network namespace, as another program might. The kernel starts that
// program in the machine's first namespaces.
class ChangedWhileLoading {
 public:
  explicit ChangedWhileLoading(const Node& node) : node_(node) {
    struct stat ns {};
    EXPECT_EQ(::stat("/proc/self/ns/net", &ns), 0);
    const std::string program = Cat(directory_.path(), "/modprobe");
    std::ofstream(program)
        << "#!/bin/sh\n"
        << "ns=$(find /proc -maxdepth 3 -path '/proc/[0-9]*/ns/net' -lname 'net:?" << ns.st_ino
        << "?' 2>/dev/null | head -n 1)\n"
        << "nsenter --net=\"$ns\" nft add table ip foreign\n"
        << "exec " << former_ << " \"$@\"\n";
    fs::permissions(program, fs::perms::owner_all);
    node_.SetSysctl("kernel/modprobe", program);
  }
  ~ChangedWhileLoading() { node_.SetSysctl("kernel/modprobe", former_); }
  ChangedWhileLoading(const ChangedWhileLoading&) = delete;
  ChangedWhileLoading& operator=(const ChangedWhileLoading&) = delete;

 private:
  const Node& node_;
  const std::string former_ = node_.Sysctl("kernel/modprobe");
  const ScratchDirectory directory_{"/tmp"};
};

class ModuleOfACommit : public World {};

TEST_F(ModuleOfACommit, LoadingAllowsAnotherChangeThatTheReplyReports) {
  const nft::TableId table{.name = "t"};
  nft::Batch batch;
  batch.AddTable(table);
  batch.AddChain(table, {.name = "c", .hook = nft::Hook{.type = "nobodys"}});
  batch.AddChain(table, {.name = "d"});
  nft::Socket socket = nft::Socket::In(netlink::Netns::Current());
  {
    const ChangedWhileLoading loading(host());
    const nft::CommitReply reply = socket.Commit(batch, socket.Generation());
    EXPECT_TRUE(reply.generation_passed);
    EXPECT_TRUE(reply.refused.empty());
  }
  EXPECT_THAT(host().Must({"nft", "list", "tables"}), ::testing::StrEq("table ip foreign\n"));

  const nft::CommitReply reply = socket.Commit(batch, socket.Generation());
  EXPECT_FALSE(reply.generation_passed);
  ASSERT_EQ(reply.refused.size(), 1U);
  EXPECT_EQ(reply.refused.front().message, 1U);
  EXPECT_EQ(reply.refused.front().error, ENOENT);
}

}  // namespace
}  // namespace nomad_bridge::test
