// One command of the command line: what it is called and takes, what help says, and the function. Each
// is a constant beside its function, in the file of its name; command_line.cc has the table of them.
//
// Shapes     Exit codes: see Exit. Flags are `-name`, `--name`, `-name VALUE` or `-name=VALUE`, in any
//            place; a beginning that only one flag has will do. Every command has -help and -no-color.
// Cost       Nothing before main(): all of it is constant-initialised, so an ADD does not pay for it.
// Errors     A function throws UsageError for what it does not understand, CannotTell for what it cannot
//            see, and Error for what failed: exit 2, 2 and 1.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

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
};

constexpr Flag kJsonFlag{"json", nullptr, "one JSON document (docs/schema)"};

// What was typed behind a command's name.
struct Arguments {
  std::vector<std::string> operands;
  std::map<std::string, std::string, std::less<>> flags;  // by their whole names

  [[nodiscard]] bool Has(std::string_view flag) const { return flags.contains(flag); }
  [[nodiscard]] std::optional<std::string> Value(std::string_view flag) const;
};

struct Command {
  std::string_view name;      // may be two words: "config check"
  std::string_view operands;  // "DIR", "[FILTER...]"
  std::string_view summary;   // one line, for the list of commands
  std::string_view text;      // whole lines
  std::span<const Flag> flags;
  std::size_t min_operands = 0;
  std::size_t max_operands = 0;
  int (*run)(const Arguments&);
};

// Of `max_operands`.
constexpr std::size_t kAny = static_cast<std::size_t>(-1);

extern const Command kCompletion;
extern const Command kConfigCheck;
extern const Command kDoctor;
extern const Command kGc;
extern const Command kHelp;
extern const Command kInspect;
extern const Command kInstall;
extern const Command kList;
extern const Command kMetrics;
extern const Command kReconcile;
extern const Command kUninstall;
extern const Command kUp;
extern const Command kVersion;

// Throws CannotTell unless we are root: "reconcile needs root".
void RequireRoot(std::string_view command);

}  // namespace nomad_bridge::cli
