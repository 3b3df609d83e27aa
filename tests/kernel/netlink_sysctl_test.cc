// Settings under /proc/sys/net, read back by the test's own hand.
#include <sys/mount.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "netlink/netns.h"
#include "netlink/sysctl.h"
#include "tests/support/world.h"

namespace nomad_bridge::test {
namespace {

using ::testing::HasSubstr;

constexpr const char* kForward = "net/ipv4/ip_forward";
constexpr const char* kNone = "net/ipv4/no_such_setting";

class SysctlTest : public World {};

TEST_F(SysctlTest, WritesWhatDiffersAndSaysSo) {
  ASSERT_EQ(host().Sysctl(kForward), "0");

  EXPECT_TRUE(EnsureSysctl(kForward, "1"));
  EXPECT_EQ(host().Sysctl(kForward), "1");
  EXPECT_FALSE(EnsureSysctl(kForward, "1")) << "nothing was left to write";
  EXPECT_TRUE(EnsureSysctlIfPresent(kForward, "0"));
  EXPECT_EQ(host().Sysctl(kForward), "0");
}

TEST_F(SysctlTest, InAnotherNamespaceItIsThatOnesSetting) {
  InNetns(Netns::Open(guest().path()), [] { EnsureSysctl(kForward, "1"); });

  EXPECT_EQ(guest().Sysctl(kForward), "1");
  EXPECT_EQ(host().Sysctl(kForward), "0");
}

TEST_F(SysctlTest, ALinksNameMayHoldDots) {
  host().Must({"ip", "link", "add", "br.a-1", "type", "bridge"});

  EXPECT_TRUE(EnsureSysctl("net/ipv4/conf/br.a-1/route_localnet", "1"));

  EXPECT_EQ(host().Sysctl("net/ipv4/conf/br.a-1/route_localnet"), "1");
}

TEST_F(SysctlTest, AnAbsentSettingIsAnErrorOrAnAnswer) {
  EXPECT_FALSE(EnsureSysctlIfPresent(kNone, "1"));
  EXPECT_FALSE(IsSysctlOn(kNone));
  try {
    EnsureSysctl(kNone, "1");
    FAIL() << "it was written";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kKernel);
    EXPECT_EQ(error.msg(), "cannot set 'net/ipv4/no_such_setting' to '1'");
    EXPECT_THAT(error.details(), HasSubstr("(ENOENT)"));
  }
}

TEST_F(SysctlTest, AValueTheKernelRefusesIsAnErrorThatNamesIt) {
  try {
    EnsureSysctl(kForward, "perhaps");
    FAIL() << "it was written";
  } catch (const Error& error) {
    EXPECT_EQ(error.msg(), "cannot set 'net/ipv4/ip_forward' to 'perhaps'");
    EXPECT_THAT(error.details(), HasSubstr("(EINVAL)"));
  }
}

TEST_F(SysctlTest, OnIsNeitherZeroNorAbsent) {
  EXPECT_FALSE(IsSysctlOn(kForward));
  host().SetSysctl(kForward, "1");
  EXPECT_TRUE(IsSysctlOn(kForward));
}

TEST_F(SysctlTest, AReadOnlyTreeThatIsRightIsNoError) {
  host().SetSysctl(kForward, "1");
  ASSERT_EQ(::mount("/proc/sys", "/proc/sys", nullptr, MS_BIND, nullptr), 0);
  ASSERT_EQ(::mount(nullptr, "/proc/sys", nullptr, MS_BIND | MS_REMOUNT | MS_RDONLY, nullptr), 0);

  EXPECT_NO_THROW(EnsureSysctl(kForward, "1"));
  EXPECT_THROW(EnsureSysctl(kForward, "0"), Error);

  EXPECT_EQ(::umount2("/proc/sys", MNT_DETACH), 0);
}

}  // namespace
}  // namespace nomad_bridge::test
