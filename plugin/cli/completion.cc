#include <map>

#include "base/text.h"
#include "plugin/cli/command.h"
#include "plugin/cli/terminal.h"

namespace nomad_bridge::cli {
namespace {

// Its holes: the first words; cases of $command with what may follow it; cases of $command with its
// flags.
constexpr char kScript[] =
    R"bash(# bash completion of nomad-bridge: source <(nomad-bridge completion bash)
_nomad_bridge() {
  local current=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} words= flags=
  COMPREPLY=()
  local first='{}' from=(-f)
  case $command in
    '') ;;
{}  esac
  [[ -z $words ]] || ((COMP_CWORD == 2)) || command+=" ${COMP_WORDS[2]}"
  case $command in
{}  esac
  if ((COMP_CWORD == 1)); then
    from=(-W "$first")
  elif [[ -n $words ]] && ((COMP_CWORD == 2)); then
    from=(-W "$words")
  elif [[ $current == -* ]]; then
    from=(-W "$flags")
  else
    case $command in
      list)
        compopt -o nospace
        from=(-W 'job= ns= group= alloc= net= port= addr= veth= state=') ;;
      inspect)  # without compgen -W, which expands what an allocation is called
        local id
        while read -r id _; do
          [[ $id != "$current"* ]] || COMPREPLY+=("$(printf %q "$id")")
        done < <(nomad-bridge list 2>/dev/null | sed 1d)
        return ;;
      completion) from=(-W bash) ;;
      help) from=(-W "$first") ;;
      doctor | gc | metrics | reconcile | version)
        [[ ${COMP_WORDS[COMP_CWORD - 1]} == -*output ]] || from=(-W '') ;;
      install | uninstall)
        compopt -o filenames
        from=(-d) ;;
      *) compopt -o filenames ;;
    esac
  fi
  mapfile -t COMPREPLY < <(compgen "${from[@]}" -- "$current")
}
complete -F _nomad_bridge nomad-bridge
)bash";

int RunCompletion(const Arguments& arguments) {
  if (arguments.operands.front() != "bash") {
    throw UsageError(Format("completion knows bash, and no '{}'", arguments.operands.front()));
  }
  std::string first;
  std::map<std::string_view, std::string> second;  // of commands of two words, by their first
  std::string flags;
  for (const Command* const command : Commands()) {
    const std::size_t space = command->name.find(' ');
    const std::string_view word = command->name.substr(0, space);
    if (!second.contains(word)) {
      first += Cat(first.empty() ? "" : " ", word);
    }
    if (space != command->name.npos) {
      second[word] += Cat(' ', command->name.substr(space + 1));
    }
    std::string names;
    for (const Flag& flag : FlagsOf(*command)) {
      names += Cat(names.empty() ? "" : " ", '-', flag.name);
    }
    flags += Format("    '{}') flags='{}' ;;\n", command->name, names);
  }
  std::string cases;
  for (const auto& [word, words] : second) {
    cases += Format("    {}) words+='{}' ;;\n", word, words);
  }
  Print(Format(kScript, first, cases, flags));
  return kYes;
}

}  // namespace

const Command kCompletion = {.name = "completion",
                             .operands = {"bash", 1, 1},
                             .summary = "prints the completion for bash",
                             .text = "For this shell: source <(nomad-bridge completion bash)\n",
                             .run = RunCompletion};

}  // namespace nomad_bridge::cli
