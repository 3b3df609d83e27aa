// Settings under /proc/sys/net, read back by the test's own hand.
#include <sys/mount.h>

#include "netlink/core/netns.h"
#include "netlink/core/sysctl.h"
#include "tests/support/world.h"

namespace nomad_bridge::test {
namespace {

constexpr const char* kForward = "net/ipv4/ip_forward";
constexpr const char* kNone = "net/ipv4/no_such_setting";

class Sysctl : public World {};

TEST_F(Sysctl, IsWrittenOnlyIfItDiffers) {
  ASSERT_EQ(host().Sysctl(kForward), "0");

  EXPECT_TRUE(netlink::EnsureSysctl(kForward, "1"));
  EXPECT_EQ(host().Sysctl(kForward), "1");
  EXPECT_FALSE(netlink::EnsureSysctl(kForward, "1")) << "nothing was left to write";
  netlink::SetSysctlIfPossible(kForward, "0");
  EXPECT_EQ(host().Sysctl(kForward), "0");
}

TEST_F(Sysctl, BelongsToTheNamespace) {
  netlink::InNetns(netlink::Netns::Open(container().path()),
                   [] { netlink::EnsureSysctl(kForward, "1"); });

  EXPECT_EQ(container().Sysctl(kForward), "1");
  EXPECT_EQ(host().Sysctl(kForward), "0");
}

TEST_F(Sysctl, WorksForALinkWithADotInItsName) {
  host().Must({"ip", "link", "add", "br.a-1", "type", "bridge"});

  EXPECT_TRUE(netlink::EnsureSysctl("net/ipv4/conf/br.a-1/route_localnet", "1"));

  EXPECT_EQ(host().Sysctl("net/ipv4/conf/br.a-1/route_localnet"), "1");
}

TEST_F(Sysctl, IsAnErrorIfAbsentUnlessOptional) {
  EXPECT_NO_THROW(netlink::SetSysctlIfPossible(kNone, "1"));
  EXPECT_FALSE(netlink::IsSysctlOn(kNone));
  EXPECT_THAT(
      Caught([] { netlink::EnsureSysctl(kNone, "1"); }),
      IsError(
          Code::kKernel, "cannot set 'net/ipv4/no_such_setting' to '1'", HasSubstr("(ENOENT)")));
}

TEST_F(Sysctl, RefusedValueIsNamedInTheError) {
  const Error error = Caught([] { netlink::EnsureSysctl(kForward, "perhaps"); });
  EXPECT_EQ(error.msg(), "cannot set 'net/ipv4/ip_forward' to 'perhaps'");
  EXPECT_THAT(error.details(), HasSubstr("(EINVAL)"));
}

TEST_F(Sysctl, IsOnIfNeitherZeroNorAbsent) {
  EXPECT_FALSE(netlink::IsSysctlOn(kForward));
  host().SetSysctl(kForward, "1");
  EXPECT_TRUE(netlink::IsSysctlOn(kForward));
}

TEST_F(Sysctl, MayBeReadOnlyIfItsValueIsRight) {
  host().SetSysctl(kForward, "1");
  ASSERT_EQ(::mount("/proc/sys", "/proc/sys", nullptr, MS_BIND, nullptr), 0);
  ASSERT_EQ(::mount(nullptr, "/proc/sys", nullptr, MS_BIND | MS_REMOUNT | MS_RDONLY, nullptr), 0);

  EXPECT_NO_THROW(netlink::EnsureSysctl(kForward, "1"));
  EXPECT_THROW(netlink::EnsureSysctl(kForward, "0"), Error);

  EXPECT_EQ(::umount2("/proc/sys", MNT_DETACH), 0);
}

}  // namespace
}  // namespace nomad_bridge::test
