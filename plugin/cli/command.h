// The command line, for people. A runtime sets CNI_COMMAND, and then the arguments are not looked
// at.
//
// A Command says what one is called and takes, what help says of it, and the function. Each is a
// constant beside its function, in the file of its name (uninstall: install.cc); command_line.cc
// has the table of them.
//
// Shapes     Exit codes: see Exit. Flags are `-name`, `--name`, `-name VALUE` or `-name=VALUE`, in
//            any place, also before the command, and never abbreviated. Every command has -help
//            and -no-color.
// Cost       Nothing before main(): all of it is constant-initialised, so an ADD does not pay for
//            it.
// Output     Data goes to stdout, remarks and errors to stderr.
// Errors     A function throws UsageError for what it does not understand, CannotTell for what it
//            cannot see, and Error for what failed: exit 2, 2 and 1.
#pragma once

#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/mismatch.h"

namespace nomad_bridge::cli {

enum Exit : int {
  kYes = 0,      // yes, fine, done
  kNo = 1,       // no, something found, something failed
  kUnknown = 2,  // misunderstood, or it cannot be told: no root, unreadable
};

class CannotTell : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

class UsageError : public CannotTell {
  using CannotTell::CannotTell;
};

struct Flag {
  const char* name;   // without '-'
  const char* value;  // "FILE"; nullptr if it takes none
  std::string_view meaning;
  char letter = 0;  // "-n", which means the same; 0: none
};

constexpr Flag kDryRunFlag{"dry-run", nullptr, "changes nothing, and says what it would", 'n'};
constexpr Flag kJsonFlag{"json", nullptr, "one JSON document (docs/schema)"};

// What was typed behind a command's name.
struct Arguments {
  std::vector<std::string> operands;
  std::map<std::string, std::string, std::less<>> flags;  // by their whole names

  [[nodiscard]] bool Has(std::string_view flag) const { return flags.contains(flag); }
  // What was typed behind it; nullptr without it.
  [[nodiscard]] const std::string* Find(std::string_view flag) const {
    const auto found = flags.find(flag);
    return found != flags.end() ? &found->second : nullptr;
  }
};

// With kDryRunFlag: kLook.
[[nodiscard]] inline Mode ModeOf(const Arguments& arguments) {
  return arguments.Has(kDryRunFlag.name) ? Mode::kLook : Mode::kRepair;
}

struct Operands {
  std::string_view text;  // "DIR", "[FILTER...]"
  std::size_t min = 0;
  std::size_t max = 0;
};

// Of `max`.
constexpr std::size_t kAny = static_cast<std::size_t>(-1);

struct Command {
  std::string_view name;  // may be two words: "config check"
  Operands operands;
  std::string_view summary;  // one line, for the list of commands
  std::string_view text;     // whole lines
  std::span<const Flag> flags;
  int (*run)(const Arguments&);
};

extern const Command kCompletion;
extern const Command kConfigCheck;
extern const Command kDoctor;
extern const Command kGc;
extern const Command kHelp;
extern const Command kInspect;
extern const Command kInstall;
extern const Command kList;
extern const Command kMetrics;
extern const Command kPolicyApply;
extern const Command kPolicyCheck;
extern const Command kPolicyShow;
extern const Command kPolicyStatus;
extern const Command kPolicyTest;
extern const Command kReconcile;
extern const Command kUninstall;
extern const Command kUp;
extern const Command kDown;
extern const Command kVersion;

// All, in the order of help.
[[nodiscard]] std::span<const Command* const> Commands();

// Its own, and those that every command has.
[[nodiscard]] std::vector<Flag> FlagsOf(const Command& command);

// `arguments` without the program's name, at least one. Returns the exit code; errors are on
// stderr.
[[nodiscard]] int RunCommandLine(const std::vector<std::string>& arguments);

// Throws CannotTell unless we are root: "reconcile needs root".
void RequireRoot(std::string_view command);

}  // namespace nomad_bridge::cli
