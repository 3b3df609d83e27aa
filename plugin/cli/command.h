// The command line, for people. If a runtime has set CNI_COMMAND, the arguments are ignored.
//
// A Command has the name, the arguments, the help text and the function of one command. Each
// Command is a constant next to its function. command_line.cc has the table of all commands.
//
// Shapes     Exit codes: see Exit. Flags are `-name`, `--name`, `-name VALUE` or `-name=VALUE`.
//            They may be anywhere, also before the command, and are never abbreviated. Every
//            command has -help and -no-color.
// Cost       Nothing runs before main(): all data is constant-initialised, so an ADD does not pay
//            for it.
// Output     Data goes to stdout, remarks and errors to stderr.
// Errors     A function throws UsageError if it does not understand its arguments, CannotTell if it
//            cannot read what it needs, and Error if an operation failed. The exit codes are 2, 2
//            and 1.
#pragma once

#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/finding.h"

namespace nomad_bridge::cli {

enum Exit : int {
  kYes = 0,      // yes, fine, done
  kNo = 1,       // no, something found, something failed
  kUnknown = 2,  // bad arguments, or no answer: not root, or a file is unreadable
};

class CannotTell : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

class UsageError : public CannotTell {
  using CannotTell::CannotTell;
};

struct Flag {
  const char* name;   // without '-'
  const char* value;  // "FILE"; nullptr if the flag takes no value
  std::string_view meaning;
  char letter = 0;  // the short form: "-n"; 0 if there is none
};

constexpr Flag kDryRunFlag{"dry-run", nullptr, "changes nothing; prints what it would change", 'n'};
constexpr Flag kJsonFlag{"json", nullptr, "one JSON document (docs/schema)"};

// The words after a command's name.
struct Arguments {
  std::vector<std::string> operands;
  std::map<std::string, std::string, std::less<>> flags;  // by name, not letter

  [[nodiscard]] bool Has(std::string_view flag) const { return flags.contains(flag); }
  // Returns the flag's value; nullptr if the flag was not typed.
  [[nodiscard]] const std::string* Find(std::string_view flag) const {
    const auto found = flags.find(flag);
    return found != flags.end() ? &found->second : nullptr;
  }
};

// Returns kLook if the flag kDryRunFlag is set.
[[nodiscard]] inline Mode ModeOf(const Arguments& arguments) {
  return arguments.Has(kDryRunFlag.name) ? Mode::kLook : Mode::kRepair;
}

struct Operands {
  std::string_view text;  // "DIR", "[FILTER...]"
  std::size_t min = 0;
  std::size_t max = 0;
};

// The value of `max` for any number of operands.
constexpr std::size_t kAny = static_cast<std::size_t>(-1);

struct Command {
  std::string_view name;  // may be two words: "config check"
  Operands operands;
  std::string_view summary;  // one line, for the list of commands
  std::string_view text;     // the help text: complete lines
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
extern const Command kTest;
extern const Command kUninstall;
extern const Command kUp;
extern const Command kDown;
extern const Command kVersion;

// Returns all commands in the order in which `help` lists them.
[[nodiscard]] std::span<const Command* const> Commands();

// Returns the command's own flags, followed by the flags that every command has.
[[nodiscard]] std::vector<Flag> FlagsOf(const Command& command);

// Runs a command. `arguments` does not have the program's name, and is not empty. Prints errors on
// stderr, and returns the exit code.
[[nodiscard]] int RunCommandLine(const std::vector<std::string>& arguments);

// Throws CannotTell unless we are root: "reconcile needs root".
void RequireRoot(std::string_view command);

}  // namespace nomad_bridge::cli
