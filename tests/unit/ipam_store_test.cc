#include <csignal>
#include <iterator>

#include <sys/resource.h>
#include <sys/stat.h>

#include "ipam/store.h"
#include "tests/support/scratch_directory.h"
#include "tests/support/test.h"
#include "tests/unit/ipam_names.h"

namespace nomad_bridge::ipam {
namespace {

// Files are read with the standard library, not with the code under test.
class LeaseStore : public ::testing::Test {
 protected:
  [[nodiscard]] std::string Path(const std::string& name) const {
    return data_dir_ + "/net/" + name;
  }
  [[nodiscard]] std::string Read(const std::string& name) const {
    std::ifstream file(Path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void Write(const std::string& name, const std::string& content) const {
    fs::create_directories(data_dir_ + "/net");
    std::ofstream(Path(name), std::ios::binary) << content;
  }
  [[nodiscard]] std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(data_dir_ + "/net")) {
      names.push_back(entry.path().filename());
    }
    return names;
  }
  [[nodiscard]] Store Open() const { return Store::Open(data_dir_, "net"); }

  test::ScratchDirectory directory_;
  const std::string data_dir_ = directory_.path();
};

TEST_F(LeaseStore, WritesWhatTheReferencePluginWrites) {
  Store store = Open();
  ASSERT_TRUE(store.Reserve(At("10.0.0.5"), kAlice));
  ASSERT_TRUE(store.Reserve(At("fd00:0:0::5"), kAlice));
  store.SetLastReserved(0, At("10.0.0.5"));
  EXPECT_EQ(Read("10.0.0.5"), "alice\r\neth0");
  EXPECT_EQ(Read("fd00::5"), "alice\r\neth0");
  EXPECT_EQ(Read("last_reserved_ip.0"), "10.0.0.5");
  EXPECT_THAT(Names(), UnorderedElementsAre("10.0.0.5", "fd00::5", "last_reserved_ip.0", "lock"));
  struct stat status {};
  ASSERT_EQ(::stat(Path("10.0.0.5").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
  ASSERT_EQ(::stat(Path("").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0755U);
}

TEST_F(LeaseStore, ReservesAnAddressOnce) {
  Store store = Open();
  EXPECT_TRUE(store.IsFree(At("10.0.0.5")));
  EXPECT_TRUE(store.Reserve(At("10.0.0.5"), kAlice));
  EXPECT_FALSE(store.IsFree(At("10.0.0.5")));
  EXPECT_FALSE(store.Reserve(At("10.0.0.5"), kBob));
  EXPECT_FALSE(store.Reserve(At("10.0.0.5"), kAlice));
  EXPECT_EQ(store.FindOwner(At("10.0.0.5")), kAlice);
}

TEST_F(LeaseStore, ReleasesALeaseOfItsOwnerOnly) {
  Store store = Open();
  ASSERT_TRUE(store.Reserve(At("10.0.0.5"), kAlice));
  store.Release(At("10.0.0.5"), kBob);
  store.Release(At("10.0.0.5"), {.container_id = "alice", .ifname = "eth1"});
  EXPECT_EQ(store.FindOwner(At("10.0.0.5")), kAlice);
  store.Release(At("10.0.0.5"), kAlice);
  EXPECT_EQ(store.FindOwner(At("10.0.0.5")), std::nullopt);
  store.Release(At("10.0.0.5"), kAlice);
}

TEST_F(LeaseStore, ReadsAnOldLeaseWithoutInterfaceAsOneForAllInterfaces) {
  Write("10.0.0.5", "alice\n");
  Store store = Open();
  EXPECT_EQ(store.FindOwner(At("10.0.0.5")), (LeaseOwner{.container_id = "alice", .ifname = ""}));
  store.Release(At("10.0.0.5"), kBob);
  EXPECT_FALSE(store.IsFree(At("10.0.0.5")));
  store.Release(At("10.0.0.5"), kAlice);
  EXPECT_TRUE(store.IsFree(At("10.0.0.5")));
}

TEST_F(LeaseStore, TreatsAFileThatIsNotALeaseAsAReservation) {
  for (const char* const text : {"",
                                 "\n",
                                 "for the printer\n",
                                 "alice\neth0",
                                 "alice and bob\r\neth0",
                                 "alice\r\neth0\r\nfor ever",
                                 "?\r\neth0"}) {
    Write("10.0.0.5", text);
    Store store = Open();
    EXPECT_FALSE(store.IsFree(At("10.0.0.5"))) << text;
    EXPECT_EQ(store.FindOwner(At("10.0.0.5")), std::nullopt) << text;
    EXPECT_FALSE(store.Reserve(At("10.0.0.5"), kAlice)) << text;
    store.Release(At("10.0.0.5"), kAlice);
    EXPECT_EQ(Read("10.0.0.5"), text);
    EXPECT_THAT(store.Leases(), IsEmpty()) << text;
  }
}

TEST_F(LeaseStore, LeavesOtherFilesAlone) {
  Write("notes.txt", "mine");
  Write("10.0.0.5.new", "alice\r\neth0");
  Write("10.0.0.9", std::string(300'000, 'x'));
  Write("10.0.0.10", "\n");
  fs::create_directory(Path("10.0.0.6"));
  fs::create_directory(Path("backup"));
  fs::create_symlink("nowhere", Path("10.0.0.7"));
  const std::size_t count = Names().size();
  Store store = Open();
  for (const char* const address : {"10.0.0.6", "10.0.0.7", "10.0.0.9", "10.0.0.10"}) {
    EXPECT_FALSE(store.IsFree(At(address))) << address;
    EXPECT_FALSE(store.Reserve(At(address), kAlice)) << address;
    EXPECT_EQ(store.FindOwner(At(address)), std::nullopt) << address;
    store.Release(At(address), kAlice);
  }
  EXPECT_THAT(store.Leases(), IsEmpty());
  EXPECT_EQ(Names().size(), count + 1) << "the lock, and nothing gone";
}

TEST_F(LeaseStore, ListsLeasesWithTheirOwners) {
  Write("10.0.0.7", "");
  Store store = Open();
  ASSERT_TRUE(store.Reserve(At("10.0.0.5"), kAlice));
  ASSERT_TRUE(store.Reserve(At("fd00::5"), kBob));
  store.SetLastReserved(1, At("fd00::5"));
  ASSERT_EQ(store.Leases().size(), 2U) << "neither the empty file nor the mark";
  for (const Lease& lease : store.Leases()) {
    EXPECT_EQ(lease.address, At(lease.owner == kAlice ? "10.0.0.5" : "fd00::5"));
    EXPECT_EQ(lease.owner, lease.address.is_ipv4() ? kAlice : kBob);
  }
}

TEST_F(LeaseStore, KeepsAMarkPerSetAndIgnoresAnInvalidOne) {
  Store store = Open();
  EXPECT_EQ(store.LastReserved(0), std::nullopt);
  store.SetLastReserved(0, At("10.0.0.5"));
  store.SetLastReserved(1, At("fd00::5"));
  EXPECT_EQ(store.LastReserved(0), At("10.0.0.5"));
  EXPECT_EQ(store.LastReserved(1), At("fd00::5"));
  Write("last_reserved_ip.0", "");
  EXPECT_EQ(store.LastReserved(0), std::nullopt);
}

TEST_F(LeaseStore, KnowsWhenALeaseWasWritten) {
  const std::int64_t before = ::time(nullptr);
  Store store = Open();
  EXPECT_EQ(store.WrittenAt(At("10.0.0.5")), std::nullopt);
  ASSERT_TRUE(store.Reserve(At("10.0.0.5"), kAlice));
  // The file system's clock ticks later than time(2)'s by up to a jiffy.
  EXPECT_GE(store.WrittenAt(At("10.0.0.5")).value(), before - 1);
  EXPECT_LE(store.WrittenAt(At("10.0.0.5")).value(), ::time(nullptr));
}

TEST_F(LeaseStore, CreatesNothingInOpenIfExists) {
  EXPECT_FALSE(Store::OpenIfExists(data_dir_, "net").has_value());
  EXPECT_FALSE(Store::OpenIfExists(data_dir_ + "/none", "net").has_value());
  EXPECT_TRUE(fs::is_empty(data_dir_));
  { const Store store = Open(); }
  EXPECT_TRUE(Store::OpenIfExists(data_dir_, "net").has_value());
}

TEST_F(LeaseStore, NamesAFileInPlaceOfItsDirectory) {
  std::ofstream(data_dir_ + "/net") << "a file";
  EXPECT_THAT(Caught([&] { return Open(); }), IsError(Code::kIo, HasSubstr(data_dir_ + "/net")));
  EXPECT_FALSE(Store::OpenIfExists(data_dir_, "net").has_value());
}

TEST_F(LeaseStore, LeavesNoPartlyWrittenLease) {
  Store store = Open();
  // The kernel refuses the write after the file was created, as on a full disk.
  const rlimit unlimited{.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};
  const rlimit four_bytes{.rlim_cur = 4, .rlim_max = RLIM_INFINITY};
  std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &four_bytes), 0);
  EXPECT_THROW(static_cast<void>(store.Reserve(At("10.0.0.5"), kAlice)), Error);
  EXPECT_THROW(store.SetLastReserved(0, At("10.0.0.5")), Error);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &unlimited), 0);
  EXPECT_THAT(Names(), UnorderedElementsAre("lock"));
  EXPECT_TRUE(store.Reserve(At("10.0.0.5"), kAlice));
}

}  // namespace
}  // namespace nomad_bridge::ipam
