// Runs other programs to their end, but never for ever.
//
// Shapes   exit_code is the program's exit code, or 128 + the signal that ended it. out and err are
//          complete. Stdin is a file with the input; stdout and stderr are files, too, so nothing
//          blocks on a pipe.
// Limits   Kills a program that has not ended after kProgramPatience, and throws.
// Where    The child runs in the caller's network namespace (see Node to run it elsewhere).
#pragma once

#include <sys/types.h>

#include "tests/support/test.h"

namespace nomad_bridge::test {

// The first ADD under an emulated kernel of Debian 11 loads a dozen modules, which takes it 40 s.
constexpr std::chrono::seconds kProgramPatience{100};

// NOLINTNEXTLINE(bugprone-exception-escape): nlohmann's move, whose assertions confuse the check
struct Outcome {
  int exit_code = -1;
  std::string out;
  std::string err;
  nlohmann::json json;  // stdout, if it is exactly one JSON document; else null

  // For messages of failed assertions.
  [[nodiscard]] std::string Text() const;
};
std::ostream& operator<<(std::ostream& stream, const Outcome& outcome);

// nullopt: the variable is not there.
using Variables = std::map<std::string, std::optional<std::string>>;

struct Command {
  std::vector<std::string> argv;  // argv[0] is looked for in PATH
  std::string input;
  Variables variables;  // on top of, or instead of, our own environment
  bool inherits_environment = true;
  std::function<void()> in_child =
      nullptr;  // the last thing before exec; async-signal-safe not needed: one thread
};

class Process {
 public:
  [[nodiscard]] static Process Start(const Command& command);
  Process(Process&& other) noexcept;
  Process& operator=(Process&&) = delete;
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  // Kills what still runs.
  ~Process();

  [[nodiscard]] pid_t pid() const { return pid_; }
  // Call it only once.
  [[nodiscard]] Outcome Wait();
  // Returns the outcome of a process that other code has waited for, with `status`.
  [[nodiscard]] Outcome Collect(int status);

 private:
  Process(pid_t pid, UniqueFd out, UniqueFd err);

  pid_t pid_;
  UniqueFd out_;
  UniqueFd err_;
};

[[nodiscard]] Outcome Execute(const Command& command);
// Writes a file that can be executed.
void WriteProgram(const std::string& path, const std::string& text);
// Returns `outcome` if its exit code is 0. Throws with what was printed otherwise.
// NOLINTNEXTLINE(modernize-use-nodiscard): most callers want the exception alone
Outcome Succeeded(Outcome outcome);
[[nodiscard]] Outcome Execute(const std::vector<std::string>& argv, const std::string& input = "");
// Returns the stdout of a program. Throws with its command line and output if it fails.
// NOLINTNEXTLINE(modernize-use-nodiscard): most callers ignore the output
std::string Must(const Command& command);

}  // namespace nomad_bridge::test
