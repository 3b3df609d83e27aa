// Leases in one directory with the reference plugin, host-local; and on a file system without
// inodes.
#include "ipam/allocator.h"
#include "tests/support/config.h"
#include "tests/support/isolation.h"
#include "tests/support/mounted.h"
#include "tests/support/test.h"

namespace nomad_bridge::ipam {
namespace {

constexpr const char* kReference = "/usr/lib/cni/host-local";
constexpr const char* kDataDir = "/run/leases";
const LeaseOwner kOurs{.container_id = "ours", .ifname = "eth0"};

Ip At(const std::string& text) {
  return Ip::Parse(text).value();
}

std::vector<RangeSet> Sets() {
  return MakeRangeSets({{{.path = "ipam.ranges[0][0]", .subnet = *Cidr::Parse("10.0.0.0/29")}},
                        {{.path = "ipam.ranges[1][0]", .subnet = *Cidr::Parse("fd00::/64")}}});
}

test::Command ReferenceCommand(const std::string& verb, const std::string& container) {
  const std::string config =
      Cat(R"({"cniVersion":"1.0.0","name":"net","type":"bridge","ipam":{
      "type":"host-local","dataDir":")",
          kDataDir,
          R"(","ranges":[[{"subnet":"10.0.0.0/29"}],[{"subnet":"fd00::/64"}]]}})");
  return {.argv = {kReference},
          .input = config,
          .variables = {{"CNI_COMMAND", verb},
                        {"CNI_CONTAINERID", container},
                        {"CNI_NETNS", "/run/netns/none"},
                        {"CNI_IFNAME", "eth0"},
                        {"CNI_PATH", "/usr/lib/cni"}}};
}

test::Outcome Reference(const std::string& verb, const std::string& container) {
  return test::Execute(ReferenceCommand(verb, container));
}

std::vector<std::string> ReferenceAdd(const std::string& container) {
  const test::Outcome outcome = Reference("ADD", container);
  EXPECT_EQ(outcome.exit_code, 0) << outcome;
  std::vector<std::string> addresses;
  for (const json& ip : outcome.json.value("ips", json::array())) {
    addresses.push_back(ip.at("address"));
  }
  return addresses;
}

std::vector<std::string> OurAdd(const LeaseOwner& owner) {
  Store store = Store::Open(kDataDir, "net");
  const Allocation allocation = Choose(store, Sets(), {.owner = owner});
  Reserve(store, allocation.assignments, owner);
  std::vector<std::string> addresses;
  for (const Assignment& assignment : allocation.assignments) {
    addresses.push_back(assignment.address.Text());
  }
  return addresses;
}

std::vector<std::string> Names() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(Cat(kDataDir, "/net"))) {
    names.push_back(entry.path().filename());
  }
  return names;
}

class SharedLeases : public ::testing::Test {
  test::FreshState state_;
};

TEST_F(SharedLeases, ContinueWhereTheOtherPluginStopped) {
  EXPECT_THAT(ReferenceAdd("theirs-1"), UnorderedElementsAre("10.0.0.2/29", "fd00::2/64"));
  EXPECT_THAT(OurAdd(kOurs), UnorderedElementsAre("10.0.0.3/29", "fd00::3/64"));
  EXPECT_THAT(ReferenceAdd("theirs-2"), UnorderedElementsAre("10.0.0.4/29", "fd00::4/64"));
  EXPECT_THAT(OurAdd({"more", "eth0"}), UnorderedElementsAre("10.0.0.5/29", "fd00::5/64"));
}

TEST_F(SharedLeases, OwnerIsKnownIfTheReferenceWroteTheLease) {
  ReferenceAdd("theirs");
  Store store = Store::Open(kDataDir, "net");
  EXPECT_EQ(store.FindOwner(At("10.0.0.2")), (LeaseOwner{"theirs", "eth0"}));
  EXPECT_EQ(store.FindOwner(At("fd00::2")), (LeaseOwner{"theirs", "eth0"}));
  EXPECT_EQ(store.LastReserved(0), At("10.0.0.2"));
  EXPECT_EQ(store.LastReserved(1), At("fd00::2"));
  store.Release(At("10.0.0.2"), {"theirs", "eth0"});
  store.Release(At("fd00::2"), {"theirs", "eth0"});
  EXPECT_THAT(Names(), UnorderedElementsAre("lock", "last_reserved_ip.0", "last_reserved_ip.1"));
}

TEST_F(SharedLeases, AreCheckedAndReleasedByTheReferenceIfWeWroteThem) {
  OurAdd(kOurs);
  EXPECT_NE(Reference("CHECK", "nobody").exit_code, 0);
  EXPECT_EQ(Reference("CHECK", "ours").exit_code, 0);
  EXPECT_THAT(Reference("ADD", "ours"),
              test::Exits(Ne(0), test::Out(HasSubstr("duplicate allocation"))));
  EXPECT_EQ(Reference("DEL", "nobody").exit_code, 0);
  EXPECT_EQ(Reference("CHECK", "ours").exit_code, 0);
  EXPECT_EQ(Reference("DEL", "ours").exit_code, 0);
  EXPECT_THAT(Names(), UnorderedElementsAre("lock", "last_reserved_ip.0", "last_reserved_ip.1"));
}

TEST_F(SharedLeases, FillThePoolForBoth) {
  for (const char* const container : {"a", "b", "c", "d", "e"}) {
    OurAdd({container, "eth0"});
  }
  EXPECT_THAT(Reference("ADD", "theirs"),
              test::Exits(Ne(0), test::Out(HasSubstr("no IP addresses available in range set"))));
  ASSERT_EQ(Reference("DEL", "c").exit_code, 0);
  ReferenceAdd("theirs");
  const Store store = Store::Open(kDataDir, "net");
  EXPECT_EQ(Choose(store, Sets(), {.owner = kOurs}).full_set, 0U);
}

TEST_F(SharedLeases, AreLockedAgainstTheReference) {
  const Store store = Store::Open(kDataDir, "net");
  test::Command adding = ReferenceCommand("ADD", "theirs");
  adding.argv = {"timeout", "1", kReference};
  EXPECT_EQ(test::Execute(adding).exit_code, 124) << "it did not wait";
  EXPECT_THAT(store.Leases(), IsEmpty());
}

// Wherever in the middle the last inode is used up: between the leases, between a lease and its
// mark.
TEST_F(SharedLeases, AreAllOrNothingWithoutAFreeInode) {
  fs::create_directory(kDataDir);
  // The root, net, lock, then 10.0.0.2, last_reserved_ip.0, fd00::2 and last_reserved_ip.1.
  for (int inodes = 3; inodes <= 7; ++inodes) {
    const bool is_enough = inodes == 7;
    const test::Mounted tmpfs({"-t", "tmpfs", "-o", Cat("nr_inodes=", inodes), "none"}, kDataDir);
    try {
      OurAdd(kOurs);
      EXPECT_TRUE(is_enough) << inodes << " inodes";
    } catch (const Error& error) {
      EXPECT_FALSE(is_enough) << error.what();
      EXPECT_EQ(error.code(), Code::kIo);
    }
    const Store store = Store::Open(kDataDir, "net");
    EXPECT_EQ(store.Leases().size(), is_enough ? 2U : 0U) << inodes << " inodes";
  }
}

}  // namespace
}  // namespace nomad_bridge::ipam
