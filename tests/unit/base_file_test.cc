#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "base/file_lock.h"
#include "base/text.h"

namespace nomad_bridge {
namespace {

class FileTest : public ::testing::Test {
 protected:
  FileTest() {
    std::string pattern = "/tmp/nomad-bridge-test-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~FileTest() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string Path(const std::string& name) const { return folder_ + "/" + name; }

  std::string folder_;
};

TEST_F(FileTest, CreateFileIsWholeOrRefusesATakenName) {
  EXPECT_TRUE(CreateFile(Path("a"), "first"));
  EXPECT_FALSE(CreateFile(Path("a"), "second"));
  EXPECT_EQ(FindFile(Path("a")), "first");
}

TEST_F(FileTest, ReplaceFileLeavesNothingElse) {
  ReplaceFile(Path("a"), "first");
  ReplaceFile(Path("a"), "second");
  EXPECT_EQ(FindFile(Path("a")), "second");
  EXPECT_EQ(Entries(folder_).size(), 1U);
}

TEST_F(FileTest, AbsentIsAnAnswer) {
  EXPECT_EQ(FindFile(Path("none")), std::nullopt);
  EXPECT_EQ(FindFile(Path("none/deeper")), std::nullopt);
  EXPECT_TRUE(Entries(Path("none")).empty());
  EnsureFileGone(Path("none"));
}

TEST_F(FileTest, EnsureFolderMakesParentsAndRefusesAFile) {
  EnsureFolder(Path("a/b/c"));
  EXPECT_TRUE(std::filesystem::is_directory(Path("a/b/c")));
  ReplaceFile(Path("file"), "");
  EXPECT_THROW(EnsureFolder(Path("file")), Error);
  EXPECT_THROW(EnsureFolder(Path("file/below")), Error);
}

TEST_F(FileTest, ErrorsNameThePath) {
  try {
    static_cast<void>(CreateFile(Path("none/a"), ""));
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kIo);
    EXPECT_NE(error.msg().find(Path("none/a")), std::string::npos);
    EXPECT_NE(error.details().find("ENOENT"), std::string::npos);
  }
}

TEST_F(FileTest, ARangeLockKeepsOthersFromItsByteOnly) {
  const RangeLock held = RangeLock::Take(Path("lock"), 7, "seven");
  EXPECT_FALSE(RangeLock::TryTake(Path("lock"), 7));
  EXPECT_TRUE(RangeLock::TryTake(Path("lock"), 8));
}

TEST_F(FileTest, ALockIsFreeAgainWhenItsHolderIsGone) {
  { const RangeLock held = RangeLock::Take(Path("lock"), ~0ULL, "all ones"); }
  EXPECT_TRUE(RangeLock::TryTake(Path("lock"), ~0ULL));
}

TEST_F(FileTest, AWaiterGetsTheLockWhenItIsReleased) {
  auto held = std::make_unique<FileLock>(FileLock::Take(Path("lock"), "the lock"));
  std::thread release([&] { held.reset(); });
  const FileLock got = FileLock::Take(Path("lock"), "the lock");
  release.join();
}

}  // namespace
}  // namespace nomad_bridge
