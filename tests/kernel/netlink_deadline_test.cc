// A kernel that does not answer: a socket filter drops every reply before the socket receives it.
#include <cstddef>

#include <linux/filter.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "base/file_lock.h"
#include "netlink/conntrack/conntrack.h"
#include "netlink/nft/socket.h"
#include "tests/kernel/rtnl_world.h"

namespace nomad_bridge::test {
namespace {

const nft::TableId kTable{.family = nft::TableFamily::kInet, .name = "t"};

struct SilentCase : Named {
  std::string what;  // the request, as the error has to name it
  void (*request)();
};

template <typename Act>
void OnEveryNetlinkSocket(const Act& act) {
  constexpr int kMaxFds = 256;
  for (int fd = 0; fd < kMaxFds; ++fd) {
    int domain = 0;
    socklen_t size = sizeof domain;
    if (::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_NETLINK) {
      act(fd);
    }
  }
}

// From now on no netlink socket of this process receives anything, and none waits for the whole
// deadline.
void Silence() {
  int silenced = 0;
  OnEveryNetlinkSocket([&](int fd) {
    timeval timeout{};
    socklen_t size = sizeof timeout;
    ASSERT_EQ(::getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, &size), 0);
    EXPECT_EQ(std::chrono::seconds(timeout.tv_sec), kTimeout);
    timeout = {.tv_sec = 0, .tv_usec = 50'000};
    ASSERT_EQ(::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout), 0);
    sock_filter drop = BPF_STMT(BPF_RET | BPF_K, 0);
    const sock_fprog program{.len = 1, .filter = &drop};
    ASSERT_EQ(::setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program), 0);
    ++silenced;
  });
  EXPECT_GT(silenced, 0);
}

void Unsilence() {
  OnEveryNetlinkSocket([](int fd) {
    const int ignored = 0;
    EXPECT_EQ(::setsockopt(fd, SOL_SOCKET, SO_DETACH_FILTER, &ignored, sizeof ignored), 0);
  });
}

template <typename Socket>
Socket Silent() {
  Socket socket = Socket::In(netlink::Netns::Current());
  Silence();
  return socket;
}

const SilentCase kSilent[] = {
    {"RtnlRequest",
     "cannot look at interface 'lo'",
     [] { static_cast<void>(Silent<rtnl::Socket>().FindLink("lo")); }},
    {"RtnlDump",
     "cannot list the routes",
     [] { static_cast<void>(Silent<rtnl::Socket>().Routes()); }},
    {"RtnlChange",
     "cannot delete interface 'eth7'",
     [] { Silent<rtnl::Socket>().EnsureLinkGone("eth7"); }},
    {"NftRequest",
     "cannot read the generation of the nf_tables ruleset",
     [] { static_cast<void>(Silent<nft::Socket>().Generation()); }},
    {"NftDump",
     "cannot read the tables",
     [] { static_cast<void>(Silent<nft::Socket>().Tables()); }},
    {"NftBatch",
     "cannot change the nf_tables ruleset",
     [] {
       nft::Batch batch;
       batch.AddTable(kTable);
       nft::Socket socket = nft::Socket::In(netlink::Netns::Current());
       const std::uint32_t generation = socket.Generation();
       Silence();
       static_cast<void>(socket.Commit(batch, generation));
     }},
    {"ConntrackDelete",
     "cannot remove stale UDP flows from conntrack",
     [] { Silent<conntrack::Conntrack>().Forget({{.port = 53}}); }},
    {"ConntrackDump",
     "cannot list UDP entries of conntrack",
     [] { Silent<conntrack::Conntrack>().ForgetOneByOne({{.port = 53}}); }},
};

class SilentKernel : public RtnlWorld, public ::testing::WithParamInterface<SilentCase> {};

TEST_P(SilentKernel, EndsInCode11ThatNamesTheRequest) {
  EXPECT_THAT(Thrown(GetParam().request),
              IsError(Code::kTryAgain, GetParam().what, "the kernel did not answer in time"));
}

INSTANTIATE_TEST_SUITE_P(Netlink, SilentKernel, ::testing::ValuesIn(kSilent), kNameOf);

class SilentKernelForAWhile : public RtnlWorld {};

TEST_F(SilentKernelForAWhile, LeavesASocketThatWorksAgain) {
  nft::Socket nft = nft::Socket::In(netlink::Netns::Current());
  nft::Batch batch;
  batch.AddTable(kTable);
  const std::uint32_t generation = nft.Generation();
  Silence();
  EXPECT_EQ(Thrown([&] { return net_.FindLink("lo"); }).code(), Code::kTryAgain);
  EXPECT_EQ(Thrown([&] { return nft.Commit(batch, generation); }).code(), Code::kTryAgain);
  Unsilence();
  EXPECT_EQ(net_.FindLink("lo").value().name, "lo");
  EXPECT_TRUE(nft.FindTable(kTable)) << "the kernel had done it";
  EXPECT_EQ(nft.Generation(), nft::NextGeneration(generation));
}

}  // namespace
}  // namespace nomad_bridge::test
