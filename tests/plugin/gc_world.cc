#include "tests/plugin/gc_world.h"

#include <iterator>

namespace nomad_bridge::test {

TEST_P(GcOfForeignAttachments, KeepsTheLeaseOfALivingContainer) {
  UseAll();
  Node& other = AddContainer("other");
  json plugin = GetParam().plugin;
  plugin["ipam"] = {
      {"type", "host-local"}, {"subnet", "172.26.70.0/24"}, {"dataDir", "/var/run/cni"}};
  std::vector<json> plugins = {plugin};
  std::ranges::copy(GetParam().behind_it, std::back_inserter(plugins));
  const Network network{.list = ListOf(plugins, "nomad"), .path = kReferenceDirectory};
  const Attached living = MustAdd(network, As("living", other));
  const std::string accepted = host().Must(Words("iptables -S CNI-FORWARD"));
  const std::string lease = AddressOf(living.result);

  EXPECT_THAT(Output("gc"), HasSubstr("; nothing to take back\n"));
  EXPECT_TRUE(Leased().contains(lease));

  // Its time is no proof: the clock may have been stepped since.
  host().Must({"touch", "-d", "@0", Cat("/var/run/cni/nomad/", lease)});
  EXPECT_THAT(RunLine("gc"), Exits(0));
  EXPECT_TRUE(Leased().contains(lease));
  EXPECT_EQ(host().Must(Words("iptables -S CNI-FORWARD")), accepted);

  other.Kill();
  EXPECT_THAT(RunLine("gc"), Exits(0));
  EXPECT_FALSE(Leased().contains(lease));
}

TEST_P(GcOfRecordedAttachments, KeepsTheAttachmentOfALivingContainerWithoutAPath) {
  UseAll();
  Node& other = AddContainer("other");
  json plugin = GetParam().plugin;
  plugin["ipam"] = {
      {"type", "host-local"}, {"subnet", "172.26.70.0/30"}, {"dataDir", "/var/run/cni"}};
  const Network network{.list = ListOf({plugin}, "nomad"), .path = MixedPath({"host-local"})};
  const std::string lease = AddressOf(MustAdd(network, As("living", other)).result);
  ASSERT_TRUE(HasRecord("living"));
  std::optional<Process> inside;
  other.Do([&] {
    inside.emplace(Process::Start({.argv = {"sleep", "60"}, .input = "", .variables = {}}));
  });
  other.Kill();

  EXPECT_THAT(Output("gc"), HasSubstr("; nothing to take back\n"));
  EXPECT_THAT(RunLine("doctor records leases").out,
              AllOf(HasSubstr("1 of 1 in use"), HasSubstr("1 failure, 0 warnings")));
  Attached late = As("late", AddContainer("late"));
  EXPECT_THAT(AddTo(network, late), Fails(101)) << "its range has one address";

  inside.reset();
  EXPECT_THAT(RunLine("gc"), Exits(0));
  EXPECT_FALSE(Leased().contains(lease));
}

}  // namespace nomad_bridge::test
