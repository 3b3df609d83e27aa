#include <atomic>
#include <thread>

#include <fcntl.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/file_lock.h"
#include "tests/support/scratch_directory.h"
#include "tests/support/soon.h"
#include "tests/support/test.h"

namespace nomad_bridge {
namespace {

// Whether this process waits for a lock, according to proc(5).
bool IsWaitingForALock() {
  std::istringstream locks(FindFile("/proc/locks").value_or(""));
  for (std::string line; std::getline(locks, line);) {
    if (line.find("-> FLOCK") != std::string::npos &&
        line.find(Cat(' ', ::getpid(), ' ')) != std::string::npos) {
      return true;
    }
  }
  return false;
}

class File : public ::testing::Test {
 protected:
  [[nodiscard]] std::string Path(const std::string& name) const { return directory_ + "/" + name; }

  test::ScratchDirectory scratch_{"/tmp"};
  const std::string directory_ = scratch_.path();
};

using Directory = File;
using Lock = File;

TEST_F(File, IsCreatedWholeOrNotAtAllIfItsNameIsTaken) {
  EXPECT_TRUE(CreateFile(Path("a"), "first"));
  EXPECT_FALSE(CreateFile(Path("a"), "second"));
  EXPECT_EQ(FindFile(Path("a")), "first");
}

TEST_F(File, IsReplacedAndLeavesNothingElse) {
  ReplaceFile(Path("a"), "first");
  ReplaceFile(Path("a"), "second");
  EXPECT_EQ(FindFile(Path("a")), "second");
  EXPECT_EQ(Entries(directory_).size(), 1U);
}

// A program that has the file open goes on reading the old file. Nobody ever sees half a file.
TEST_F(File, IsReplacedByAnother) {
  ReplaceFile(Path("a"), "first");
  const UniqueFd reader(::open(Path("a").c_str(), O_RDONLY | O_CLOEXEC));
  ReplaceFile(Path("a"), "second");
  EXPECT_EQ(ReadAll(reader.get(), "a", 100), "first");
}

TEST_F(File, MayBeAbsent) {
  EXPECT_EQ(FindFile(Path("none")), std::nullopt);
  EXPECT_EQ(FindFile(Path("none/deeper")), std::nullopt);
  EXPECT_TRUE(Entries(Path("none")).empty());
  EnsureFileGone(Path("none"));
}

TEST_F(Directory, IsCreatedWithItsParentsAndNotInPlaceOfAFile) {
  EnsureDirectory(Path("a/b/c"));
  EXPECT_TRUE(fs::is_directory(Path("a/b/c")));
  ReplaceFile(Path("file"), "");
  EXPECT_THROW(EnsureDirectory(Path("file")), Error);
  EXPECT_THROW(EnsureDirectory(Path("file/below")), Error);
}

TEST_F(File, IsNamedInErrors) {
  const Error error = Caught([&] { return CreateFile(Path("none/a"), ""); });
  EXPECT_EQ(error.code(), Code::kIo);
  EXPECT_NE(error.msg().find(Path("none/a")), std::string::npos);
  EXPECT_NE(error.details().find("ENOENT"), std::string::npos);
}

TEST_F(Lock, HoldsOnlyItsByte) {
  const FileLock held = FileLock::Take(Path("lock"), 7, LockKind::kAttachment, "seven");
  EXPECT_FALSE(FileLock::TryTake(Path("lock"), 7, LockKind::kAttachment));
  EXPECT_TRUE(FileLock::TryTake(Path("lock"), 8, LockKind::kAttachment));
}

TEST_F(Lock, IsFreeAfterItsHolderIsDestroyed) {
  { const FileLock held = FileLock::Take(Path("lock"), ~0ULL, LockKind::kAttachment, "all ones"); }
  EXPECT_TRUE(FileLock::TryTake(Path("lock"), ~0ULL, LockKind::kAttachment));
}

TEST_F(Lock, GoesToAWaiterWhenItIsReleased) {
  auto held = std::make_unique<FileLock>(
      FileLock::Take(Path("lock"), std::nullopt, LockKind::kLeases, "the lock"));
  std::atomic<bool> is_released = false;
  std::atomic<bool> came_after_release = false;
  std::thread waiter([&] {
    const FileLock got = FileLock::Take(Path("lock"), std::nullopt, LockKind::kLeases, "the lock");
    came_after_release = is_released.load();
  });

  EXPECT_TRUE(test::Soon(IsWaitingForALock));
  is_released = true;
  held.reset();
  waiter.join();

  EXPECT_TRUE(came_after_release);
}

// Whether this thread may wait for a lock of `kind` now.
class LockOrder : public File {
 protected:
  [[nodiscard]] bool Allows(LockKind kind) {
    try {
      static_cast<void>(FileLock::Take(Path("lock"), next_byte_++, kind, "a lock"));
      return true;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kInternal);
      return false;
    }
  }

 private:
  std::uint64_t next_byte_ = 100;
};

TEST_F(LockOrder, IsOwnAttachmentThenPoolThenLeasesOrRules) {
  const FileLock own = FileLock::Take(Path("lock"), 1, LockKind::kAttachment, "our own");
  EXPECT_FALSE(Allows(LockKind::kAttachment));
  EXPECT_TRUE(Allows(LockKind::kPool));
  const FileLock pool = FileLock::Take(Path("lock"), 2, LockKind::kPool, "a full pool");
  EXPECT_FALSE(Allows(LockKind::kAttachment));
  EXPECT_FALSE(Allows(LockKind::kPool));
  EXPECT_TRUE(Allows(LockKind::kLeases));
  EXPECT_TRUE(Allows(LockKind::kRules));
}

TEST_F(LockOrder, KeepsLeasesAndRulesApart) {
  for (const LockKind last : {LockKind::kLeases, LockKind::kRules}) {
    const FileLock held = FileLock::Take(Path("lock"), 1, last, "the last");
    EXPECT_FALSE(Allows(LockKind::kAttachment));
    EXPECT_FALSE(Allows(LockKind::kPool));
    EXPECT_FALSE(Allows(LockKind::kLeases));
    EXPECT_FALSE(Allows(LockKind::kRules));
  }
  EXPECT_TRUE(Allows(LockKind::kAttachment)) << "all of them were released";
}

TEST_F(LockOrder, LetsAnotherAttachmentBeTriedAtAnyTime) {
  const FileLock own = FileLock::Take(Path("lock"), 1, LockKind::kAttachment, "our own");
  const FileLock rules = FileLock::Take(Path("lock"), 2, LockKind::kRules, "the rules");
  EXPECT_TRUE(FileLock::TryTake(Path("lock"), 3, LockKind::kAttachment));
}

TEST_F(LockOrder, FollowsALockThatIsMoved) {
  std::optional<FileLock> kept;
  {
    FileLock own = FileLock::Take(Path("lock"), 1, LockKind::kAttachment, "our own");
    kept = std::move(own);
  }
  EXPECT_FALSE(Allows(LockKind::kAttachment));
  kept.reset();
  EXPECT_TRUE(Allows(LockKind::kAttachment));
}

}  // namespace
}  // namespace nomad_bridge
