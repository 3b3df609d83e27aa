#include <algorithm>
#include <array>
#include <cstdlib>
#include <exception>
#include <utility>

#include <unistd.h>

#include "base/list.h"
#include "base/log.h"
#include "base/nearest.h"
#include "base/text.h"
#include "plugin/cli/command.h"
#include "plugin/cli/commit.h"
#include "plugin/cli/terminal.h"
#include "plugin/cni/plugin_type.h"
#include "plugin/cni/version.h"

namespace nomad_bridge::cli {
namespace {

constexpr std::array kCommands = {
    &kList,        &kInspect,    &kDoctor,      &kTest,         &kMetrics,
    &kConfigCheck, &kReconcile,  &kGc,          &kUp,           &kDown,
    &kPolicyCheck, &kPolicyTest, &kPolicyApply, &kPolicyStatus, &kPolicyShow,
    &kInstall,     &kUninstall,  &kVersion,     &kCompletion,   &kHelp,
};

// The groups in the list of commands. `first` is the first command of the group.
struct Group {
  std::string_view title;
  const Command* first;
};
constexpr std::array kGroups = {Group{"Look", &kList},
                                Group{"Repair", &kReconcile},
                                Group{"Policy", &kPolicyCheck},
                                Group{"Install", &kInstall}};

constexpr std::array<Flag, 2> kCommonFlags = {
    Flag{"no-color", nullptr, "no colours, as with NO_COLOR or NOMAD_CLI_NO_COLOR"},
    Flag{"help", nullptr, "says this", 'h'}};

constexpr std::string_view kIntroduction =
    R"(A CNI plugin: runtimes start it with CNI_COMMAND and a network config on stdin.
For people:
)";

constexpr std::string_view kConventions = R"(
`nomad-bridge help COMMAND` says more. Exit codes: 0 yes, fine, done; 1 no,
something found or failed; 2 wrong arguments, or no answer (not root, a file
cannot be read).
)";

constexpr std::array kHelpFlags = {"-help", "--help", "-h"};

bool IsFlag(const std::string& word) {
  return word.size() > 1 && word.front() == '-';
}

std::string Spelled(const Flag& flag) {
  return Cat('-',
             flag.name,
             flag.value == nullptr ? "" : Cat(' ', flag.value),
             flag.letter == 0 ? "" : Cat(", -", flag.letter));
}

std::string UsageLine(const Command& command) {
  constexpr std::size_t kColumns = 80;
  std::string usage = Cat("Usage: nomad-bridge ", command.name);
  const std::size_t indent = usage.size();
  std::size_t column = indent;
  const auto add = [&](std::string_view word) {
    if (column + 1 + word.size() > kColumns) {
      usage += Cat('\n', std::string(indent, ' '));
      column = indent;
    }
    usage += Cat(' ', word);
    column += 1 + word.size();
  };
  for (const Flag& flag : command.flags) {
    add(Format("[{}]", Spelled(flag)));
  }
  if (!command.operands.text.empty()) {
    add(command.operands.text);
  }
  return usage;
}

std::string HelpOf(const Command& command) {
  Table flags;
  for (const Flag& flag : FlagsOf(command)) {
    flags.Add({Spelled(flag), std::string(flag.meaning)});
  }
  return Cat(UsageLine(command), "\n\n", command.text, "\nFlags:\n", flags.Text());
}

// Returns a line about each command whose name begins with `words`.
std::string LinesOf(const std::string& words) {
  Table commands;
  for (const Command* const command : kCommands) {
    if (command->name.starts_with(words)) {
      commands.Add(
          {Cat(command->name, command->operands.text.empty() ? "" : " ", command->operands.text),
           std::string(command->summary)});
    }
  }
  return commands.Text();
}

// If the first word of `words` begins the names of several commands and no second word follows,
// returns the lines of these commands; otherwise returns an empty text.
std::string GroupOf(const std::vector<std::string>& words) {
  return words.size() == 1 || (words.size() > 1 && IsFlag(words[1])) ? LinesOf(words[0] + ' ') : "";
}

// Removes the name of a command from the beginning of `words`, and returns the command. Throws
// UsageError if no command has the name.
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
  const bool begins_two = words.size() > 1 && std::ranges::any_of(names, [&](const auto& name) {
                            return name.starts_with(Cat(words[0], ' '));
                          });
  const std::string typed = begins_two ? Cat(words[0], ' ', words[1]) : words[0];
  throw UsageError(
      Format("unknown command '{}'{}\nTry 'nomad-bridge help'", typed, Suggestion(typed, names)));
}

// Returns the lines of all commands, under the titles of their groups.
std::string ListOfCommands() {
  const std::string lines = LinesOf("");
  std::string_view rest = lines;
  std::string text;
  for (const Command* const command : kCommands) {
    const auto group = std::ranges::find(kGroups, command, &Group::first);
    text += Cat(
        group != kGroups.end() ? Format("\n{}:\n", group->title) : "", TakeUntil('\n', rest), '\n');
  }
  return text;
}

UsageError WrongFlag(const Command& command, const std::string& typed, std::string_view name) {
  std::vector<std::string_view> known;
  for (const Flag& flag : FlagsOf(command)) {
    known.emplace_back(flag.name);
  }
  return UsageError(Format("{} has no flag '{}'{}\n{}",
                           command.name,
                           typed,
                           Suggestion(name, known),
                           UsageLine(command)));
}

// Finds a flag by its whole name or its letter only: an abbreviation would change its meaning once
// there is another flag.
const Flag* FindFlag(const std::vector<Flag>& flags, std::string_view name) {
  const auto flag = std::ranges::find_if(flags, [&](const Flag& each) {
    return name == each.name || (each.letter != 0 && name == std::string_view(&each.letter, 1));
  });
  return flag == flags.end() ? nullptr : &*flag;
}

using Word = std::vector<std::string>::const_iterator;

// Takes the flag at `word` and its value, which may be the next word. Returns the last word taken.
Word TakeFlag(const Command& command, Word word, Word end, Arguments& arguments) {
  const std::vector<Flag> flags = FlagsOf(command);
  const std::size_t name_start = std::min(word->find_first_not_of('-'), word->size());
  const std::size_t name_end = std::min(word->find('='), word->size());
  const std::string name = word->substr(name_start, name_end - name_start);
  const bool has_value = name_end < word->size();
  const Flag* const flag = FindFlag(flags, name);
  if (flag == nullptr || (has_value && flag->value == nullptr)) {
    throw WrongFlag(command, *word, name);
  }
  std::string& value = arguments.flags[flag->name];
  value = has_value ? word->substr(name_end + 1) : "";
  if (flag->value == nullptr || has_value) {
    return word;
  }
  if (word + 1 == end) {
    throw UsageError(Format("{} wants a value\n{}", *word, UsageLine(command)));
  }
  value = *(word + 1);
  return word + 1;
}

// Parses by hand: CLI11, Debian's header-only library, reads `-json` as `-j -s -o -n`, and getopt
// accepts abbreviations.
Arguments Parse(const Command& command, const std::vector<std::string>& words) {
  Arguments arguments;
  for (Word word = words.begin(); word != words.end(); ++word) {
    if (*word == "--") {
      arguments.operands.insert(arguments.operands.end(), word + 1, words.end());
      break;
    }
    if (IsFlag(*word)) {
      word = TakeFlag(command, word, words.end(), arguments);
    } else {
      arguments.operands.push_back(*word);
    }
  }
  return arguments;
}

// Returns whether a flag of this name takes a value, so that the next word is its value. The
// command is not known yet, so the flag of any command counts.
bool AwaitsValue(const std::string& word) {
  const std::string name = word.substr(std::min(word.find_first_not_of('-'), word.size()));
  return std::ranges::any_of(kCommands, [&](const Command* command) {
    return std::ranges::any_of(command->flags, [&](const Flag& flag) {
      return name == flag.name && flag.value != nullptr;
    });
  });
}

// Moves flags that are typed before the command to the end.
void MoveFlagsBehind(std::vector<std::string>& words) {
  auto command = words.begin();
  while (command != words.end() && IsFlag(*command)) {
    command += AwaitsValue(*command) && command + 1 != words.end() ? 2 : 1;
  }
  if (command != words.end()) {
    std::rotate(words.begin(), command, words.end());
  }
}

int Run(std::vector<std::string> words) {
  const std::string& first = words.at(0);
  if (Contains(kHelpFlags, first)) {
    words = {"help"};
  } else if (first == "-version" || first == "--version") {
    words = {"version"};
  }
  MoveFlagsBehind(words);
  if (const std::string group = GroupOf(words); !group.empty()) {
    if (words.size() == 1 || !Contains(kHelpFlags, words[1])) {
      throw UsageError(
          Format("'{}' needs a second word:\n{}Try 'nomad-bridge help'", words[0], group));
    }
    words = {"help", words[0]};
  }
  const Command& command = Take(words);
  const Arguments arguments = Parse(command, words);
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
  if (words.empty()) {
    Print(Cat(kIntroduction, ListOfCommands(), kConventions));
  } else if (const std::string group = GroupOf(words); !group.empty()) {
    Print(group);
  } else {
    Print(HelpOf(Take(words)));
  }
  return kYes;
}

int RunVersion(const Arguments& /*arguments*/) {
  // The lines that Nomad's fingerprint reads stay as they are.
  cni::PrintVersionBanner(cni::TypeOf("nomad-bridge"), STDOUT_FILENO);
  Print(Format("commit {}\n", BuildCommit()));
  return kYes;
}

}  // namespace

const Command kHelp = {.name = "help",
                       .operands = {"[COMMAND]", 0, 2},
                       .summary = "lists the commands, or says how one is used",
                       .text = "Without COMMAND: a line about each command.\n",
                       .run = RunHelp};

const Command kVersion = {.name = "version",
                          .summary = "prints the release, and the versions of CNI",
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
