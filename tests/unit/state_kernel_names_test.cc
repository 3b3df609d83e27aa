#include "netlink/nft/element.h"
#include "plugin/state/kernel_names.h"
#include "tests/support/test.h"

namespace nomad_bridge {
namespace {

const AttachmentId kWho{"nomad", "5f3c1a2b-0000-4000-8000-000000000001", "eth0"};
const cni::Labels kLabels = {{"NOMAD_JOB_ID", "billing"},
                             {"NOMAD_GROUP_NAME", "api"},
                             {"NOMAD_ALLOC_ID", "5f3c1a2b-0000-4000-8000-000000000001"}};

TEST(HostVethName, NeverChanges) {
  EXPECT_THAT(state::HostVethName(kWho), MatchesRegex("veth[0-9a-f]{11}"));
  // Written down once: another value would orphan every link of a running node on an upgrade.
  EXPECT_EQ(state::HostVethName({"nomad", "a", "eth0"}), "vethbca8776911e");
}

TEST(HostVethName, IsKnownByItsForm) {
  EXPECT_TRUE(state::IsHostVethName(state::HostVethName(kWho)));
  for (const std::string& other :
       SplitFields("veth veth1234567890 veth1234567890ab vethbca8776911g vethBCA8776911E "
                   "tap0bca8776911e",
                   " ")) {
    EXPECT_FALSE(state::IsHostVethName(other)) << other;
  }
}

TEST(HostVethName, DistinguishesNetworkContainerAndInterface) {
  EXPECT_NE(state::HostVethName({"ab", "c", "eth0"}), state::HostVethName({"a", "bc", "eth0"}));
  EXPECT_NE(state::HostVethName({"a", "b", "eth0"}), state::HostVethName({"a", "b", "eth1"}));
}

TEST(LinkAlias, CarriesIdentityThenLabels) {
  const std::string alias = state::LinkAlias(kWho, kLabels);
  EXPECT_THAT(
      alias,
      StartsWith(
          "nomad-bridge net=nomad id=5f3c1a2b-0000-4000-8000-000000000001 if=eth0 job=billing"));
  EXPECT_TRUE(state::IsAliasOf(alias, kWho));
}

TEST(LinkAlias, IsOneLineOfAtMost255BytesForAnyLabels) {
  const cni::Labels hostile = {{"NOMAD_JOB_ID", std::string(4096, 'x')},
                               {"evil\n\"key", "\x01\xff\xc3\xa9"}};
  const std::string alias = state::LinkAlias(kWho, hostile);
  EXPECT_LE(alias.size(), 255U);
  EXPECT_TRUE(IsUtf8(alias));
  EXPECT_THAT(alias, Not(HasSubstr("\n")));
  EXPECT_TRUE(state::IsAliasOf(alias, kWho));
}

TEST(LinkAlias, DiffersForAnInterfaceWhoseNameBeginsTheSame) {
  EXPECT_FALSE(
      state::IsAliasOf(state::LinkAlias({"nomad", "a", "eth01"}, {}), {"nomad", "a", "eth0"}));
  EXPECT_FALSE(state::IsAliasOf("", kWho));
}

TEST(LinkAlias, IsRecognisedForAnIdLongerThanTheAlias) {
  const AttachmentId id{"nomad", std::string(400, 'c'), "eth0"};
  EXPECT_TRUE(state::IsAliasOf(state::LinkAlias(id, kLabels), id));
}

TEST(ElementComment, BeginsWithTheOwnersKey) {
  const std::string comment = state::ElementComment(kWho, kLabels);
  EXPECT_EQ(nft::Element{.comment = comment}.owner(), state::HostVethName(kWho));
}

TEST(ElementComment, NamesTheAllocationOnceAndTheNetwork) {
  EXPECT_EQ(state::ElementComment(kWho, kLabels),
            Cat(state::HostVethName(kWho),
                " alloc=5f3c1a2b-0000-4000-8000-000000000001 job=billing group=api net=nomad"));
}

TEST(ElementComment, NamesTheContainerIfItIsNotAnAllocation) {
  EXPECT_EQ(state::ElementComment({"podman", "c0ffee", "eth0"}, {}),
            Cat(state::HostVethName({"podman", "c0ffee", "eth0"}), " id=c0ffee net=podman"));
}

TEST(ElementComment, IsAtMost128BytesAndSafeToPrint) {
  const std::string comment =
      state::ElementComment(kWho, {{"NOMAD_JOB_ID", std::string(500, '"')}});
  EXPECT_LE(comment.size(), nft::kMaxCommentBytes);
  EXPECT_THAT(comment, Not(HasSubstr("\"")));
}

TEST(LinkAlias, IsReadBack) {
  const auto parsed = state::ParseAlias(state::LinkAlias(kWho, kLabels));
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->id, kWho);
  EXPECT_EQ(parsed->labels, cni::Shorten(kLabels));
  EXPECT_TRUE(state::ParseAlias(state::LinkAlias(kWho, {}))->labels.empty());
  for (const char* const foreign : {"", "uplink", "nomad-bridge", "nomad-bridge net=a if=b"}) {
    EXPECT_FALSE(state::ParseAlias(foreign)) << foreign;
  }
}

}  // namespace
}  // namespace nomad_bridge
