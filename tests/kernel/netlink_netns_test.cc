// Namespaces: what counts as one, and that we always come back.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "netlink/core/netns.h"
#include "tests/support/world.h"

namespace nomad_bridge::test {
namespace {

class NetnsHandle : public World {
 protected:
  // What the kernel says this process is in.
  [[nodiscard]] static netlink::NetnsId Here() { return IdOf("/proc/self/ns/net"); }

  [[nodiscard]] static netlink::NetnsId IdOf(const std::string& path) {
    struct stat status {};
    EXPECT_EQ(::stat(path.c_str(), &status), 0) << path;
    return {.device = status.st_dev, .inode = status.st_ino};
  }

  // Expects that Open() refuses `path` for `reason` and Find() answers nothing.
  static void ExpectNone(const std::string& path, const std::string& reason) {
    EXPECT_FALSE(netlink::Netns::Find(path)) << path;
    const Error error = Caught([&] { return netlink::Netns::Open(path); });
    EXPECT_EQ(error.code(), Code::kInvalidEnvironment) << path;
    EXPECT_EQ(error.msg(), "cannot open CNI_NETNS '" + path + "'");
    EXPECT_THAT(error.details(), HasSubstr(reason));
    EXPECT_THAT(error.what(), Not(HasSubstr("not found")));
  }
};

class InNetns : public NetnsHandle {};

TEST_F(NetnsHandle, CurrentRefersToThisProcess) {
  EXPECT_EQ(netlink::Netns::Current().id(), Here());
}

TEST_F(NetnsHandle, OpensABindMountOfAnotherNamespace) {
  const netlink::Netns ns = netlink::Netns::Open(container().path());

  EXPECT_EQ(ns.id(), IdOf(container().path()));
  EXPECT_FALSE(ns.id() == Here());
  EXPECT_NE(::fcntl(ns.fd(), F_GETFD) & FD_CLOEXEC, 0) << "a child would inherit it";
}

TEST_F(NetnsHandle, OpensTheNamespaceOfAProcess) {
  EXPECT_EQ(netlink::Netns::Open("/proc/self/ns/net").id(), Here());
  const std::optional<netlink::Netns> found = netlink::Netns::Find(container().path());
  ASSERT_TRUE(found);
  EXPECT_EQ(found->id(), IdOf(container().path()));
}

TEST_F(NetnsHandle, RefusesAnyOtherFileWithTheReason) {
  EnsureDirectory("/run/odd");
  ReplaceFile("/run/odd/file", "plain");
  // Opening it would wait for a writer for ever.
  ASSERT_EQ(::mkfifo("/run/odd/fifo", 0600), 0);

  ExpectNone("/run/odd/file", "it is no network namespace");
  ExpectNone("/run/odd/fifo", "it is no network namespace");
  ExpectNone("/run/odd", "it is no network namespace");
  ExpectNone("/proc/self/ns/mnt", "it is no network namespace");
  ExpectNone("/run/odd/absent", "ENOENT");
  ExpectNone("", "ENOENT");
}

TEST_F(NetnsHandle, RefusesAPathWhoseNamespaceHasEnded) {
  const std::string path = container().path();
  KillContainer(container());
  ReplaceFile(path, "");

  ExpectNone(path, "it is no network namespace");
}

TEST_F(InNetns, ActsThereAndComesBack) {
  const netlink::NetnsId home = Here();
  netlink::NetnsId seen;

  netlink::InNetns(netlink::Netns::Open(container().path()), [&] { seen = Here(); });

  EXPECT_EQ(seen, IdOf(container().path()));
  EXPECT_EQ(Here(), home);
}

TEST_F(InNetns, ComesBackFromAnExceptionToo) {
  const netlink::NetnsId home = Here();

  EXPECT_THROW(netlink::InNetns(netlink::Netns::Open(container().path()),
                                [] { throw std::runtime_error("inside"); }),
               std::runtime_error);

  EXPECT_EQ(Here(), home);
}

TEST_F(NetnsHandle, FindsTheNamespaceInWhichASocketWasOpened) {
  UniqueFd socket;
  netlink::InNetns(netlink::Netns::Open(container().path()),
                   [&] { socket = UniqueFd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)); });

  EXPECT_EQ(netlink::Netns::OfSocket(socket.get()).id(), IdOf(container().path()));
}

}  // namespace
}  // namespace nomad_bridge::test
