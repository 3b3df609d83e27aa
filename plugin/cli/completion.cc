#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "plugin/cli/command.h"
#include "plugin/cli/command_line.h"
#include "plugin/cli/terminal.h"

namespace nomad_bridge::cli {
namespace {

// What bash asks for at each place, as cases of $command.
std::string FlagCases() {
  std::string cases;
  for (const Command* const command : Commands()) {
    std::string flags;
    for (const std::span<const Flag> some : {command->flags, CommonFlags()}) {
      for (const Flag& flag : some) {
        flags += Cat(flags.empty() ? "" : " ", '-', flag.name);
      }
    }
    cases += Format("    '{}') flags='{}' ;;\n", command->name, flags);
  }
  return cases;
}

std::string FirstWords() {
  std::string words;
  std::string_view last;
  for (const Command* const command : Commands()) {
    const std::string_view word = command->name.substr(0, command->name.find(' '));
    if (std::exchange(last, word) != word) {
      words += Cat(words.empty() ? "" : " ", word);
    }
  }
  return words;
}

// After a first word that has several commands.
std::string SecondWords() {
  std::string cases;
  for (const Command* const command : Commands()) {
    if (const std::size_t space = command->name.find(' '); space != command->name.npos) {
      cases += Format("    {}) words+=\" {}\" ;;\n",
                      command->name.substr(0, space),
                      command->name.substr(space + 1));
    }
  }
  return cases;
}

int RunCompletion(const Arguments& arguments) {
  if (arguments.operands.front() != "bash") {
    throw UsageError(Format("completion knows bash, and no '{}'", arguments.operands.front()));
  }
  Print(Format(R"bash(# bash completion of nomad-bridge: source <(nomad-bridge completion bash)
_nomad_bridge() {
  local current=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} words= flags=
  local first='{}'
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    COMPREPLY=($(compgen -W "$first" -- "$current"))
    return
  fi
  case $command in
    '') ;;
{}  esac
  if [[ -n $words ]]; then
    if ((COMP_CWORD == 2)); then
      COMPREPLY=($(compgen -W "$words" -- "$current"))
      return
    fi
    command+=" ${COMP_WORDS[2]}"
  fi
  case $command in
{}  esac
  if [[ $current == -* ]]; then
    COMPREPLY=($(compgen -W "$flags" -- "$current"))
    return
  fi
  case $command in
    list)
      compopt -o nospace
      COMPREPLY=($(compgen -W 'job= ns= group= alloc= net= port= addr= veth= state=' -- "$current")) ;;
    inspect)
      COMPREPLY=($(compgen -W "$(nomad-bridge list 2>/dev/null | sed -n '1d;/^[0-9]* attachment/q;s/ .*//p')" -- "$current")) ;;
    completion) COMPREPLY=($(compgen -W bash -- "$current")) ;;
    help) COMPREPLY=($(compgen -W "$first" -- "$current")) ;;
    doctor | gc | metrics | reconcile | version)
      [[ ${COMP_WORDS[COMP_CWORD - 1]} == -*output ]] && COMPREPLY=($(compgen -f -- "$current")) ;;
    install | uninstall)
      compopt -o filenames
      COMPREPLY=($(compgen -d -- "$current")) ;;
    *)
      compopt -o filenames
      COMPREPLY=($(compgen -f -- "$current")) ;;
  esac
}
complete -F _nomad_bridge nomad-bridge
)bash",
               FirstWords(),
               SecondWords(),
               FlagCases()));
  return kYes;
}

}  // namespace

const Command kCompletion = {.name = "completion",
                             .operands = "bash",
                             .summary = "prints the completion for bash",
                             .text = "For this shell: source <(nomad-bridge completion bash)\n",
                             .min_operands = 1,
                             .max_operands = 1,
                             .run = RunCompletion};

}  // namespace nomad_bridge::cli
