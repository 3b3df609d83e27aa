#include <utility>

#include "base/list.h"
#include "ipam/allocator.h"
#include "tests/support/scratch_directory.h"
#include "tests/support/test.h"
#include "tests/unit/ipam_names.h"

namespace nomad_bridge::ipam {
namespace {

class Allocator : public ::testing::Test {
 protected:
  void Use(const std::vector<std::vector<RangeSpec>>& specs) { sets_ = MakeRangeSets(specs); }
  void Put(const std::string& name, const std::string& content) const {
    std::ofstream(Cat(data_dir_, "/net/", name)) << content;
  }
  // Leases of Bob: `first` and those after it, `count` in all.
  void Fill(const std::string& first, int count) const {
    for (int i = 0; i < count; ++i) {
      Put(At(first).Plus(static_cast<std::uint64_t>(i)).Text(), "bob\r\neth0");
    }
  }
  [[nodiscard]] std::vector<std::string> Addresses(const Request& request) const {
    std::vector<std::string> addresses;
    for (const Assignment& assignment : Choose(*store_, sets_, request).assignments) {
      addresses.push_back(assignment.address.Text());
    }
    return addresses;
  }
  // What ADD does: choose, then reserve. The address of each set, or nothing if a set is full.
  std::vector<std::string> Allocate(const LeaseOwner& owner) {
    std::vector<std::string> addresses = Addresses({.owner = owner});
    Reserve(*store_, Choose(*store_, sets_, {.owner = owner}).assignments, owner);
    return addresses;
  }
  // The addresses that have a file, also an empty one.
  [[nodiscard]] std::vector<std::string> Files() const {
    std::vector<std::string> files;
    for (const std::string& name : Entries(Cat(data_dir_, "/net"))) {
      if (Ip::Parse(name)) {
        files.push_back(name);
      }
    }
    return files;
  }
  [[nodiscard]] Error Refusal(const Request& request) const {
    return Caught([&] { return Choose(*store_, sets_, request); });
  }

  test::ScratchDirectory directory_;
  const std::string data_dir_ = directory_.path();
  std::unique_ptr<Store> store_ = std::make_unique<Store>(Store::Open(data_dir_, "net"));
  std::vector<RangeSet> sets_;
};

TEST_F(Allocator, GivesOneAddressOfEachSetWithPrefixAndGateway) {
  Use({{Spec("10.0.0.0/24")}, {Spec("fd00::/64")}});
  const Allocation allocation = Choose(*store_, sets_, {.owner = kAlice});
  ASSERT_EQ(allocation.assignments.size(), 2U);
  EXPECT_EQ(allocation.assignments[0].address.Text(), "10.0.0.2/24");
  EXPECT_EQ(allocation.assignments[0].gateway, At("10.0.0.1"));
  EXPECT_EQ(allocation.assignments[1].address.Text(), "fd00::2/64");
  EXPECT_EQ(allocation.assignments[1].gateway, At("fd00::1"));
  EXPECT_EQ(allocation.assignments[1].range_set, 1U);
}

TEST_F(Allocator, PassesOverAddressesInUse) {
  Use({{Spec("10.0.0.0/29")}});
  const auto without = [](const std::vector<std::string>& used) {
    return Request{.is_in_use = [used](const Ip& ip) { return Contains(used, ip.Text()); },
                   .owner = kAlice};
  };
  EXPECT_THAT(Addresses(without({"10.0.0.2", "10.0.0.3"})), ElementsAre("10.0.0.4/29"));
  for (const char* const taken : {"10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5"}) {
    Put(taken, "other\r\neth0");
  }
  EXPECT_EQ(Choose(*store_, sets_, without({"10.0.0.6"})).full_set, 0U);
  Request request = without({"10.0.0.6"});
  request.requested = {At("10.0.0.6")};
  EXPECT_THAT(Addresses(request), ElementsAre("10.0.0.6/29")) << "refused by its element's owner";
}

// The check may need the kernel, so it must not run for each address of a pool that is nearly full.
TEST_F(Allocator, ChecksFewAddressesForUse) {
  Use({{Spec("10.0.0.0/20")}});
  Fill("10.0.0.2", 3000);
  int asked = 0;
  const auto count = [&](const Ip&) {
    ++asked;
    return false;
  };
  EXPECT_EQ(Addresses({.is_in_use = count, .owner = kAlice}).size(), 1U);
  EXPECT_LT(asked, 20);
}

TEST_F(Allocator, WritesNothingWhileChoosing) {
  Use({{Spec("10.0.0.0/24")}});
  static_cast<void>(Choose(*store_, sets_, {.owner = kAlice}));
  EXPECT_THAT(Files(), IsEmpty());
  EXPECT_EQ(store_->LastReserved(0), std::nullopt);
}

TEST_F(Allocator, GivesAnAddressAgainOnlyAfterAllOthers) {
  Use({{Spec("10.0.0.0/29")}});
  EXPECT_THAT(Allocate(kAlice), ElementsAre("10.0.0.2/29"));
  store_->Release(At("10.0.0.2"), kAlice);
  EXPECT_THAT(Allocate(kBob), ElementsAre("10.0.0.3/29"));
  EXPECT_THAT(Allocate(kBob), ElementsAre("10.0.0.4/29"));
  EXPECT_THAT(Allocate(kBob), ElementsAre("10.0.0.5/29"));
  EXPECT_THAT(Allocate(kBob), ElementsAre("10.0.0.6/29"));
  EXPECT_THAT(Allocate(kBob), ElementsAre("10.0.0.2/29")) << "wraps over the gateway";
  EXPECT_EQ(Choose(*store_, sets_, {.owner = kAlice}).full_set, 0U);
}

TEST_F(Allocator, FindsTheOnlyGapWhereverItIs) {
  // Longer than what is looked at one by one.
  Use({{Spec("10.0.0.0/24")}});
  Fill("10.0.0.2", 253);
  for (int gap = 2; gap <= 254; gap += 9) {
    fs::remove(Cat(data_dir_, "/net/10.0.0.", gap));
    for (int mark = 2; mark <= 254; mark += 7) {
      store_->SetLastReserved(0, At(Cat("10.0.0.", mark)));
      ASSERT_THAT(Addresses({.owner = kAlice}), ElementsAre(Cat("10.0.0.", gap, "/24")))
          << "after " << mark;
    }
    Put(Cat("10.0.0.", gap), "bob\r\neth0");
  }
}

TEST_F(Allocator, TakesTheFirstGapAfterTheMark) {
  Use({{Spec("10.0.0.0/24")}});
  Fill("10.0.0.2", 253);
  fs::remove(data_dir_ + "/net/10.0.0.30");
  fs::remove(data_dir_ + "/net/10.0.0.190");
  for (const auto& [mark, gap] :
       {std::pair(2, 30), std::pair(31, 190), std::pair(60, 190), std::pair(191, 30)}) {
    store_->SetLastReserved(0, At(Cat("10.0.0.", mark)));
    EXPECT_THAT(Addresses({.owner = kAlice}), ElementsAre(Cat("10.0.0.", gap, "/24")))
        << "after " << mark;
  }
}

TEST_F(Allocator, ContinuesThroughTheRangesOfASetAndStartsAgain) {
  Use({{Spec("10.0.0.0/24", {.start = At("10.0.0.250")}),
        Spec("10.0.9.0/24", {.end = At("10.0.9.2")})}});
  store_->SetLastReserved(0, At("10.0.0.253"));
  EXPECT_THAT(Allocate(kAlice), ElementsAre("10.0.0.254/24"));
  EXPECT_THAT(Allocate(kAlice), ElementsAre("10.0.9.2/24"));
  EXPECT_THAT(Allocate(kAlice), ElementsAre("10.0.0.250/24"));
  Put("10.0.0.251", "bob\r\neth0");
  EXPECT_THAT(Allocate(kAlice), ElementsAre("10.0.0.252/24"));
}

TEST_F(Allocator, TriesEarlierRangesLastIfTheMarkIsInALaterOne) {
  Use({{Spec("10.0.0.0/24"), Spec("10.0.9.0/24", {.start = At("10.0.9.250")})}});
  store_->SetLastReserved(0, At("10.0.9.253"));
  EXPECT_THAT(Allocate(kAlice), ElementsAre("10.0.9.254/24"));
  EXPECT_THAT(Allocate(kAlice), ElementsAre("10.0.0.2/24"));
}

TEST_F(Allocator, IgnoresLeasesOfTheOtherFamily) {
  Use({{Spec("10.0.0.0/24")}, {Spec("a00:0::/64")}});
  Fill("10.0.0.2", 99);
  Put("a00:65::1", "bob\r\neth0");  // begins with the bytes of 10.0.0.101
  EXPECT_THAT(Allocate(kAlice), ElementsAre("10.0.0.101/24", "a00::2/64"));
}

TEST_F(Allocator, BeginsAtTheStartIfTheMarkIsOutsideTheRanges) {
  Use({{Spec("10.0.0.0/24")}});
  store_->SetLastReserved(0, At("192.168.0.7"));
  EXPECT_THAT(Addresses({.owner = kAlice}), ElementsAre("10.0.0.2/24"));
  store_->SetLastReserved(0, At("fd00::7"));
  EXPECT_THAT(Addresses({.owner = kAlice}), ElementsAre("10.0.0.2/24"));
}

TEST_F(Allocator, PassesOverAGatewayInsideTheRange) {
  Use({{Spec("10.0.0.0/29", {.gateway = At("10.0.0.3")})}});
  EXPECT_THAT(Allocate(kAlice), ElementsAre("10.0.0.1/29"));
  EXPECT_THAT(Allocate(kAlice), ElementsAre("10.0.0.2/29"));
  EXPECT_THAT(Allocate(kAlice), ElementsAre("10.0.0.4/29"));
}

TEST_F(Allocator, HandlesHugeIpv6Ranges) {
  Use({{Spec("fd00::/8")}});
  EXPECT_THAT(Allocate(kAlice), ElementsAre("fd00::2/8"));
  Fill("fd00::3", 0x100 - 3);
  Put("fdff::1", "bob\r\neth0");
  Put("fd00:0:0:1::100", "bob\r\neth0");  // 2^64 addresses after fd00::100
  EXPECT_THAT(Allocate(kAlice), ElementsAre("fd00::100/8"));
  store_->SetLastReserved(0, At("fdff:ffff:ffff:ffff:ffff:ffff:ffff:fffe"));
  EXPECT_THAT(Allocate(kAlice), ElementsAre("fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/8"));
  EXPECT_THAT(Allocate(kAlice), ElementsAre("fd00::101/8"));
}

// Longer than what is looked at one by one.
constexpr int kBlock = 600;

TEST_F(Allocator, LeapsOverASolidBlockToItsVeryEnd) {
  Use({{Spec("10.0.0.0/20")}});
  Fill("10.0.0.2", kBlock - 1);
  const std::string behind = At("10.0.0.0").Plus(kBlock + 1).Text();
  EXPECT_THAT(Addresses({.owner = kAlice}), ElementsAre(behind + "/20"));
  // What became free inside it waits for the next round, but is not forgotten.
  fs::remove(data_dir_ + "/net/10.0.1.200");
  EXPECT_THAT(Addresses({.owner = kAlice}), ElementsAre(behind + "/20"));
}

TEST_F(Allocator, TakesTheFirstAddressOfTheNextRangeAfterAFullOne) {
  Use({{Spec("10.0.0.0/23"), Spec("10.1.0.0/24", {.start = At("10.1.0.10")})}});
  Fill("10.0.0.2", 509);
  EXPECT_THAT(Addresses({.owner = kAlice}), ElementsAre("10.1.0.10/24"));
}

TEST_F(Allocator, FindsAFreeAddressEvenIfEveryLeapHitsALease) {
  Use({{Spec("fd00::/8")}});
  Fill("fd00::2", 300);
  Ip landing = At("fd00::1").Plus(129);  // behind the single steps
  for (int bit = 1; bit <= 65; ++bit) {
    landing = landing.Plus(std::uint64_t{1} << std::min(bit, 62));
    Put(landing.Text(), "bob\r\neth0");
  }
  EXPECT_THAT(Addresses({.owner = kAlice}), ElementsAre(landing.Plus(1).Text() + "/8"));
}

TEST_F(Allocator, ReportsWhichSetIsFull) {
  Use({{Spec("10.0.0.0/24")}, {Spec("fd00::/126", {.end = At("fd00::2")})}});
  EXPECT_THAT(Allocate(kAlice), ElementsAre("10.0.0.2/24", "fd00::2/126"));
  const Allocation allocation = Choose(*store_, sets_, {.owner = kBob});
  EXPECT_EQ(allocation.full_set, 1U);
  EXPECT_THAT(allocation.assignments, IsEmpty());
}

TEST_F(Allocator, PassesOverReservedAddresses) {
  Use({{Spec("10.0.0.0/29")}});
  Put("10.0.0.2", "");
  Put("10.0.0.4", "for the printer\n");
  EXPECT_THAT(Allocate(kAlice), ElementsAre("10.0.0.3/29"));
  EXPECT_THAT(Allocate(kBob), ElementsAre("10.0.0.5/29"));
}

TEST_F(Allocator, GivesAnAttachmentItsPreviousAddressAgain) {
  Use({{Spec("10.0.0.0/24")}, {Spec("fd00::/64")}});
  Put("10.0.0.9", "alice\r\neth0");
  Put("fd00::9", "bob\r\neth0");
  EXPECT_THAT(Addresses({.previous = {At("10.0.0.9"), At("fd00::9")}, .owner = kAlice}),
              ElementsAre("10.0.0.9/24", "fd00::2/64"))
      << "its own lease is kept, somebody else's is not taken";
  EXPECT_THAT(Addresses({.previous = {At("10.0.0.77"), At("192.168.0.1")}, .owner = kAlice}),
              ElementsAre("10.0.0.77/24", "fd00::2/64"))
      << "a free one is taken, one of another network is forgotten";
}

TEST_F(Allocator, PrefersARequestedAddressToAPreviousOne) {
  Use({{Spec("10.0.0.0/24")}});
  EXPECT_THAT(
      Addresses({.requested = {At("10.0.0.50")}, .previous = {At("10.0.0.9")}, .owner = kAlice}),
      ElementsAre("10.0.0.50/24"));
}

TEST_F(Allocator, RefusesARequestedAddressOfAnotherOwner) {
  Use({{Spec("10.0.0.0/24")}});
  Put("10.0.0.50", "bob\r\neth0");
  EXPECT_THAT(Refusal({.requested = {At("10.0.0.50")}, .owner = kAlice}),
              IsError(Code::kConflict, HasSubstr("10.0.0.50"), HasSubstr("'bob'")));
  EXPECT_THAT(Addresses({.requested = {At("10.0.0.50")}, .owner = kBob}),
              ElementsAre("10.0.0.50/24"));
}

TEST_F(Allocator, RefusesARequestThatNoRangeOffers) {
  Use({{Spec("10.0.0.0/24")}});
  for (const char* const address : {"10.0.0.1", "10.0.0.0", "10.0.0.255", "10.0.1.5", "fd00::5"}) {
    EXPECT_THAT(Refusal({.requested = {At(address)}, .owner = kAlice}),
                IsError(Code::kInvalidConfig,
                        Cat("failed to allocate all requested IPs: ", address),
                        HasSubstr("inside a range")))
        << address;
  }
  EXPECT_EQ(Refusal({.requested = {At("fd00::5"), At("10.0.0.5"), At("10.0.1.5")}, .owner = kAlice})
                .msg(),
            "failed to allocate all requested IPs: fd00::5 10.0.1.5");
}

TEST_F(Allocator, RefusesTwoRequestsInOneSet) {
  Use({{Spec("10.0.0.0/24")}});
  EXPECT_THAT(Refusal({.requested = {At("10.0.0.5"), At("10.0.0.6")}, .owner = kAlice}),
              IsError(Code::kInvalidConfig, "failed to allocate all requested IPs: 10.0.0.6"));
}

TEST_F(Allocator, MarksTheLastReservedAddress) {
  Use({{Spec("10.0.0.0/24")}, {Spec("fd00::/64")}});
  Allocate(kAlice);
  EXPECT_EQ(store_->LastReserved(0), At("10.0.0.2"));
  EXPECT_EQ(store_->LastReserved(1), At("fd00::2"));
  EXPECT_EQ(store_->FindOwner(At("fd00::2")), kAlice);
}

TEST_F(Allocator, DoesNotMoveTheMarkForALeaseThatIsKept) {
  Use({{Spec("10.0.0.0/24")}});
  Allocate(kAlice);
  Allocate(kBob);
  const Request again{.previous = {At("10.0.0.2")}, .owner = kAlice};
  Reserve(*store_, Choose(*store_, sets_, again).assignments, kAlice);
  EXPECT_EQ(store_->LastReserved(0), At("10.0.0.3"));
}

TEST_F(Allocator, ReservesAllOrNothing) {
  Use({{Spec("10.0.0.0/24")}, {Spec("fd00::/64")}});
  const Allocation allocation = Choose(*store_, sets_, {.owner = kAlice});
  Put("fd00::2", "bob\r\neth0");
  EXPECT_EQ(Caught([&] { Reserve(*store_, allocation.assignments, kAlice); }).code(),
            Code::kConflict);
  EXPECT_THAT(Files(), ElementsAre("fd00::2"));
  EXPECT_EQ(store_->FindOwner(At("fd00::2")), kBob);
}

}  // namespace
}  // namespace nomad_bridge::ipam
