#include "base/append_log.h"
#include "base/file.h"
#include "tests/support/scratch_directory.h"
#include "tests/support/test.h"

namespace nomad_bridge {
namespace {

class Appended : public ::testing::Test {
 protected:
  [[nodiscard]] AppendLog TheLog() const { return AppendLog(path_); }
  void Append(const std::string& line) const { TheLog().Append(Cat('\n', line, '\n'), "a line"); }
  [[nodiscard]] std::string Path(const std::string& name) const {
    return Cat(scratch_.path(), '/', name);
  }

  test::ScratchDirectory scratch_;
  const std::string path_ = Path("log");
};

TEST_F(Appended, IsNothingIfNobodyReads) {
  Append("a");
  EXPECT_FALSE(fs::exists(path_));
  EXPECT_EQ(TheLog().Read().lines, "");
}

TEST_F(Appended, IsReadOnceFromWhereTheLastEnded) {
  const FileLock lock = TheLog().Lock("a log");
  Append("a");
  const AppendLog::Part first = TheLog().Read();
  EXPECT_EQ(first.lines, "\na\n");
  Append("b");
  EXPECT_EQ(TheLog().Read(first.end).lines, "\nb\n");
  AppendLog::Punch(lock, first.end);
  EXPECT_EQ(TheLog().Read(first.end).lines, "\nb\n");
  EXPECT_EQ(TheLog().Read(6).lines, "") << "its end";
}

TEST_F(Appended, IsReadAsFarAsItsLastWholeLine) {
  std::ofstream(path_) << "\na\n\nhal";
  const AppendLog::Part part = TheLog().Read();
  EXPECT_EQ(part.lines, "\na\n\n");
  EXPECT_EQ(part.end, 4);
}

TEST_F(Appended, IsReadFromTheBeginningOfAFileThatWasReplaced) {
  std::ofstream(path_) << "\na\n";
  EXPECT_EQ(TheLog().Read(4096).lines, "\na\n");
}

TEST_F(Appended, IsLeftOutIfTheLogIsFullOrTheLineTooLong) {
  std::ofstream(path_) << std::string(1 << 20, '\n');
  Append("a");
  EXPECT_EQ(fs::file_size(path_), 1U << 20U);
  fs::resize_file(path_, 0);
  Append(std::string(5000, 'a'));
  EXPECT_EQ(fs::file_size(path_), 0U);
  Append("a");
  EXPECT_EQ(fs::file_size(path_), 3U);
}

TEST_F(Appended, DoesNotFollowALink) {
  std::ofstream(Path("other")) << "";
  fs::create_symlink(Path("other"), path_);
  Append("a");
  EXPECT_EQ(fs::file_size(Path("other")), 0U);
}

}  // namespace
}  // namespace nomad_bridge
