#include <algorithm>
#include <array>
#include <cstdlib>
#include <exception>
#include <numeric>
#include <utility>

#include <getopt.h>
#include <unistd.h>

#include "base/list.h"
#include "base/log.h"
#include "base/text.h"
#include "plugin/cli/command.h"
#include "plugin/cli/terminal.h"
#include "plugin/cni/plugin_type.h"
#include "plugin/cni/version.h"

namespace nomad_bridge::cli {
namespace {

constexpr std::array kCommands = {
    &kList,
    &kInspect,
    &kDoctor,
    &kReconcile,
    &kGc,
    &kUp,
    &kDown,
    &kMetrics,
    &kConfigCheck,
    &kInstall,
    &kUninstall,
    &kVersion,
    &kCompletion,
    &kHelp,
};

constexpr std::array<Flag, 2> kCommonFlags = {
    Flag{"no-color", nullptr, "no colours; nor with NO_COLOR or NOMAD_CLI_NO_COLOR"},
    Flag{"help", nullptr, "says this"}};

constexpr std::string_view kIntroduction =
    R"(A CNI plugin: runtimes start it with CNI_COMMAND and a network config on stdin. For people:

)";

constexpr std::string_view kConventions = R"(
`nomad-bridge help COMMAND` says more. Exit codes: 0 yes, fine, done; 1 no, something found or
failed; 2 misunderstood, or it cannot be told (no root, unreadable).
)";

// Levenshtein's: how many characters to add, take away or change.
std::size_t Distance(std::string_view one, std::string_view other) {
  std::vector<std::size_t> row(other.size() + 1);
  std::iota(row.begin(), row.end(), 0U);
  for (std::size_t i = 0; i < one.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < other.size(); ++j) {
      const std::size_t changed = diagonal + (one[i] == other[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

// "; did you mean 'list'?", if any of `known` is near.
std::string Suggest(std::string_view typed, const std::vector<std::string_view>& known) {
  constexpr std::size_t kFar = 4;
  const auto distance = [&](std::string_view name) { return Distance(typed, name); };
  const auto nearest = std::ranges::min_element(known, {}, distance);
  const bool is_near = nearest != known.end() &&
                       distance(*nearest) < std::min(kFar, std::max(typed.size(), std::size_t{1}));
  return is_near ? Format("; did you mean '{}'?", *nearest) : "";
}

std::string Spelled(const Flag& flag) {
  return Cat('-', flag.name, flag.value == nullptr ? "" : Cat(' ', flag.value));
}

std::string UsageLine(const Command& command) {
  std::string usage = Cat("Usage: nomad-bridge ", command.name);
  for (const Flag& flag : command.flags) {
    usage += Format(" [{}]", Spelled(flag));
  }
  return Cat(usage, command.operands.text.empty() ? "" : " ", command.operands.text);
}

std::string HelpOf(const Command& command) {
  Table flags;
  for (const Flag& flag : FlagsOf(command)) {
    flags.Add({Spelled(flag), std::string(flag.meaning)});
  }
  return Cat(UsageLine(command), "\n\n", command.text, "\nFlags:\n", flags.Text());
}

std::string Overview() {
  Table commands;
  for (const Command* const command : kCommands) {
    commands.Add(
        {Cat(command->name, command->operands.text.empty() ? "" : " ", command->operands.text),
         std::string(command->summary)});
  }
  return Cat(kIntroduction, commands.Text(), kConventions);
}

// The command that `words` begin with; they lose its name.
const Command& Take(std::vector<std::string>& words) {
  std::vector<std::string_view> names;
  for (const Command* const command : kCommands) {
    names.push_back(command->name);
    const bool is_two = command->name.find(' ') != command->name.npos && words.size() > 1;
    if (command->name == (is_two ? Cat(words[0], ' ', words[1]) : words[0])) {
      words.erase(words.begin(), words.begin() + (is_two ? 2 : 1));
      return *command;
    }
  }
  throw UsageError(Format(
      "unknown command '{}'{}\nTry 'nomad-bridge help'", words[0], Suggest(words[0], names)));
}

// getopt's message would neither say what is near nor that a beginning is ambiguous in our words.
UsageError WrongFlag(const Command& command, const std::string& typed, bool lacks_value) {
  if (lacks_value) {
    return UsageError(Format("{} wants a value\n{}", typed, UsageLine(command)));
  }
  std::string name = typed.substr(std::min(typed.find_first_not_of('-'), typed.size()));
  name = name.substr(0, name.find('='));
  std::vector<std::string_view> known;
  for (const Flag& flag : FlagsOf(command)) {
    known.emplace_back(flag.name);
  }
  return UsageError(Format(
      "{} has no flag '{}'{}\n{}", command.name, typed, Suggest(name, known), UsageLine(command)));
}

// With glibc's getopt_long_only, which takes `-json` and `--json` for the same, costs no start-up
// time and is everywhere. CLI11, Debian's header-only library, reads `-json` as `-j -s -o -n`.
Arguments Parse(const Command& command, std::vector<std::string> words) {
  const std::vector<Flag> flags = FlagsOf(command);
  std::vector<option> options;
  options.reserve(flags.size() + 1);
  for (const Flag& flag : flags) {
    options.push_back(
        {.name = flag.name, .has_arg = flag.value == nullptr ? no_argument : required_argument});
  }
  options.push_back({});
  words.insert(words.begin(), "nomad-bridge");
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) {
    argv.push_back(word.data());
  }
  const int count = static_cast<int>(argv.size());
  argv.push_back(nullptr);

  Arguments arguments;
  int index = 0;
  int found = 0;
  ::opterr = 0;
  while ((found = ::getopt_long_only(count, argv.data(), ":", options.data(), &index)) != -1) {
    if (found != 0) {
      throw WrongFlag(command, argv.at(static_cast<std::size_t>(::optind) - 1), found == ':');
    }
    const Flag& flag = flags.at(static_cast<std::size_t>(index));
    arguments.flags[flag.name] = ::optarg == nullptr ? "" : ::optarg;
  }
  arguments.operands.assign(argv.begin() + ::optind, argv.end() - 1);
  return arguments;
}

int Run(std::vector<std::string> words) {
  const std::string& first = words.at(0);
  if (Contains(std::array{"-help", "--help", "-h"}, first)) {
    words = {"help"};
  } else if (first == "-version" || first == "--version") {
    words = {"version"};
  }
  const Command& command = Take(words);
  const Arguments arguments = Parse(command, std::move(words));
  if (arguments.Has("no-color")) {
    ::setenv("NO_COLOR", "1", 1);
  }
  if (arguments.Has("help")) {
    Print(HelpOf(command));
    return kYes;
  }
  const auto& [shown, min, max] = command.operands;
  const std::size_t count = arguments.operands.size();
  if (count < min || count > max || Contains(arguments.operands, "")) {
    throw UsageError(Format("{} takes {}\n{}",
                            command.name,
                            shown.empty() ? "no operands" : shown,
                            UsageLine(command)));
  }
  return command.run(arguments);
}

int RunHelp(const Arguments& arguments) {
  std::vector<std::string> words = arguments.operands;
  Print(words.empty() ? Overview() : HelpOf(Take(words)));
  return kYes;
}

int RunVersion(const Arguments& /*arguments*/) {
  cni::PrintVersionBanner(cni::TypeOf("nomad-bridge"), STDOUT_FILENO);
  return kYes;
}

}  // namespace

const Command kHelp = {.name = "help",
                       .operands = {"[COMMAND]", 0, 2},
                       .summary = "what there is, and how a command is used",
                       .text = "Without COMMAND: a line about each.\n",
                       .run = RunHelp};

const Command kVersion = {.name = "version",
                          .summary = "which release this is, and which versions of CNI it speaks",
                          .text = "The same two lines as without any arguments, on stdout.\n",
                          .run = RunVersion};

std::span<const Command* const> Commands() {
  return kCommands;
}

std::vector<Flag> FlagsOf(const Command& command) {
  std::vector<Flag> flags(command.flags.begin(), command.flags.end());
  flags.insert(flags.end(), kCommonFlags.begin(), kCommonFlags.end());
  return flags;
}

void RequireRoot(std::string_view command) {
  if (::geteuid() != 0) {
    throw CannotTell(Cat(command, " needs root"));
  }
}

int RunCommandLine(const std::vector<std::string>& arguments) {
  try {
    return Run(arguments);
  } catch (const CannotTell& error) {
    LogLine("{}", error.what());
    return kUnknown;
  } catch (const std::exception& error) {
    LogLine("{}", error.what());
    return kNo;
  }
}

}  // namespace nomad_bridge::cli
