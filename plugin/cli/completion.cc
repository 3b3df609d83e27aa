#include <array>
#include <set>
#include <span>
#include <utility>

#include "base/list.h"
#include "base/text.h"
#include "plugin/cli/attachment_view.h"
#include "plugin/cli/command.h"
#include "plugin/cli/filters.h"
#include "plugin/cli/terminal.h"
#include "plugin/state/host.h"

namespace nomad_bridge::cli {
namespace {

// Its holes: the first words; cases of $command with what may follow it; cases of $command with its
// flags; the keys of filters. bash takes "ns=p" for three words.
constexpr char kBash[] =
    R"bash(# bash completion of nomad-bridge: source <(nomad-bridge completion bash)
_nomad_bridge() {
  local current=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} words= flags= key= value
  COMPREPLY=()
  local first='{}' from=(-f)
  case $command in
    '') ;;
{}  esac
  [[ -z $words ]] || ((COMP_CWORD == 2)) || command+=" ${COMP_WORDS[2]}"
  case $command in
{}  esac
  if [[ $current == = ]]; then
    key=${COMP_WORDS[COMP_CWORD - 1]} current=
  elif ((COMP_CWORD > 2)) && [[ ${COMP_WORDS[COMP_CWORD - 1]} == = ]]; then
    key=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  if ((COMP_CWORD == 1)); then
    from=(-W "$first")
  elif [[ -n $words ]] && ((COMP_CWORD == 2)); then
    from=(-W "$words")
  elif [[ $current == -* ]]; then
    from=(-W "$flags")
  else
    case $command$key in
      list)
        compopt -o nospace
        from=(-W '{}') ;;
      list* | inspect)  # without compgen -W, which expands what an allocation is called
        while read -r value; do
          [[ $value != "$current"* ]] || COMPREPLY+=("$(printf %q "$value")")
        done < <(nomad-bridge completion -values "${key:-id}" 2>/dev/null)
        return ;;
      completion) from=(-W 'bash fish zsh') ;;
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

// Its holes: the first words with what they mean; cases of $command with what may follow it; cases
// of $command with its flags; the keys of filters.
constexpr char kZsh[] =
    R"zsh(#compdef nomad-bridge
# zsh completion of nomad-bridge: in a directory of $fpath as _nomad-bridge, or after compinit
# source <(nomad-bridge completion zsh)
_nomad_bridge() {
  local -a first flags following
  local command=$words[2]
  first=(
{}  )
  ((CURRENT == 2)) && { _describe command first; return }
  case $command in
    '') ;;
{}  esac
  if (($#following)); then
    ((CURRENT == 3)) && { compadd -a following; return }
    command+=" $words[3]"
  fi
  case $command in
{}  esac
  if [[ $words[CURRENT] == -* ]]; then
    _describe -o flag flags
    return
  fi
  case $command in
    list)
      if compset -P '*='; then
        compadd -- ${(f)"$(nomad-bridge completion -values ${IPREFIX%=} 2>/dev/null)"}
      else
        compadd -S '' -- {}
      fi ;;
    inspect) compadd -- ${(f)"$(nomad-bridge completion -values id 2>/dev/null)"} ;;
    completion) compadd bash fish zsh ;;
    help) _describe command first ;;
    install | uninstall) _path_files -/ ;;
    *) _files ;;
  esac
}
if [[ $funcstack[1] == _nomad-bridge ]]; then
  _nomad_bridge "$@"
else
  compdef _nomad_bridge nomad-bridge
fi
)zsh";

// Behind it: a line for each command, and for each of its flags.
constexpr char kFish[] =
    R"fish(# fish completion of nomad-bridge: nomad-bridge completion fish | source
function __nomad_bridge_filters
  set -l key (string split -m 1 = -- (commandline -ct))
  if test (count $key) -eq 2
    for value in (nomad-bridge completion -values $key[1] 2>/dev/null)
      echo $key[1]=$value
    end
  else
    string split ' ' -- '{}'
  end
end
complete -c nomad-bridge -f
complete -c nomad-bridge -n '__fish_seen_subcommand_from list' -a '(__nomad_bridge_filters)'
complete -c nomad-bridge -n '__fish_seen_subcommand_from inspect' -a '(nomad-bridge completion -values id 2>/dev/null)'
complete -c nomad-bridge -n '__fish_seen_subcommand_from completion' -a 'bash fish zsh'
complete -c nomad-bridge -n '__fish_seen_subcommand_from install uninstall' -a '(__fish_complete_directories)'
complete -c nomad-bridge -n '__fish_seen_subcommand_from check up' -F
)fish";

// "config", and "check" behind it, or nothing.
struct Name {
  std::string first;
  std::string second;
};

Name NameOf(const Command& command) {
  const std::size_t space = command.name.find(' ');
  return {.first = std::string(command.name.substr(0, space)),
          .second = space == command.name.npos ? "" : std::string(command.name.substr(space + 1))};
}

// Each first word once, with what it means.
std::vector<std::pair<std::string, std::string>> FirstWords() {
  std::vector<std::pair<std::string, std::string>> words;
  for (const Command* const command : Commands()) {
    const std::string first = NameOf(*command).first;
    if (words.empty() || words.back().first != first) {
      words.emplace_back(first, command->summary);
    }
  }
  return words;
}

// What `line` makes of the first and the second word of each command that has two.
template <typename Line>
std::string SecondWords(const Line& line) {
  std::string text;
  for (const Command* const command : Commands()) {
    if (const Name name = NameOf(*command); !name.second.empty()) {
      text += line(name);
    }
  }
  return text;
}

std::string BashScript() {
  const std::string first = Joined(FirstWords(), " ", [](const auto& word) { return word.first; });
  std::string flags;
  for (const Command* const command : Commands()) {
    const std::string names =
        Joined(FlagsOf(*command), " ", [](const Flag& flag) { return Cat('-', flag.name); });
    flags += Format("    '{}') flags='{}' ;;\n", command->name, names);
  }
  const auto second = [](const Name& name) {
    return Format("    {}) words+=\" {}\" ;;&\n", name.first, name.second);
  };
  return Format(kBash, first, SecondWords(second), flags, FilterWords());
}

// An entry of _describe: a colon ends the word.
std::string Described(std::string_view word, std::string_view meaning) {
  return ShellWord(Cat(word, ':', meaning));
}

std::string ZshScript() {
  std::string first;
  for (const auto& [word, meaning] : FirstWords()) {
    first += Cat("    ", Described(word, meaning), '\n');
  }
  std::string flags;
  for (const Command* const command : Commands()) {
    flags += Format("    '{}') flags=(", command->name);
    for (const Flag& flag : FlagsOf(*command)) {
      flags += Cat("\n      ", Described(Cat('-', flag.name), flag.meaning));
    }
    flags += ") ;;\n";
  }
  const auto second = [](const Name& name) {
    return Format("    {}) following+=({}) ;|\n", name.first, name.second);
  };
  return Format(kZsh, first, SecondWords(second), flags, FilterWords());
}

std::string FishScript() {
  std::string text = Format(kFish, FilterWords());
  for (const auto& [word, meaning] : FirstWords()) {
    text += Format("complete -c nomad-bridge -n __fish_use_subcommand -a {} -d {}\n",
                   word,
                   ShellWord(meaning));
  }
  text += SecondWords([](const Name& name) {
    return Format(
        "complete -c nomad-bridge -n '__fish_seen_subcommand_from {}; and not "
        "__fish_seen_subcommand_from {}' -a {}\n",
        name.first,
        name.second,
        name.second);
  });
  for (const Command* const command : Commands()) {
    const Name name = NameOf(*command);
    const std::string here =
        Cat("__fish_seen_subcommand_from ",
            name.first,
            name.second.empty() ? "" : Cat("; and __fish_seen_subcommand_from ", name.second));
    for (const Flag& flag : FlagsOf(*command)) {
      text += Format("complete -c nomad-bridge -n '{}' -o {} -d {}{}\n",
                     here,
                     flag.name,
                     ShellWord(flag.meaning),
                     flag.value == nullptr ? "" : " -r");
    }
  }
  return text;
}

// Of all attachments here; "id": what inspect takes.
std::string Values(const std::string& key) {
  if (key == "state") {
    const auto known = std::span(kStateNames).first(static_cast<std::size_t>(State::kUnknown));
    return Cat(Joined(known, "\n"), '\n');
  }
  state::Host host = state::Host::Open();
  std::set<std::string> values;
  for (const Attachment& attachment : TakeInventory(host).attachments) {
    if (key == "id") {
      values.insert(ShortId(attachment.Allocation()));
    } else if (Contains(kFilterKeys, key)) {
      for (const std::string& value : ValuesOf(attachment, key)) {
        values.insert(Printable(value));
      }
    }
  }
  std::string text;
  for (const std::string& value : values) {
    text += Cat(value, value.empty() ? "" : "\n");
  }
  return text;
}

int RunCompletion(const Arguments& arguments) {
  if (const std::string* const key = arguments.Find("values")) {
    Print(Values(*key));
    return kYes;
  }
  const std::string shell = arguments.operands.empty() ? "" : arguments.operands.front();
  if (shell != "bash" && shell != "zsh" && shell != "fish") {
    throw UsageError(Format("completion knows bash, zsh and fish, and no '{}'", shell));
  }
  Print(shell == "bash" ? BashScript() : shell == "zsh" ? ZshScript() : FishScript());
  return kYes;
}

constexpr std::array kCompletionFlags = {
    Flag{"values", "KEY", "for the scripts: what a filter of list can be here"}};

}  // namespace

const Command kCompletion = {.name = "completion",
                             .operands = {"bash|zsh|fish", 0, 1},
                             .summary = "prints the completion for a shell",
                             .text = R"(For this shell:
  source <(nomad-bridge completion bash)
  source <(nomad-bridge completion zsh)
  nomad-bridge completion fish | source
)",
                             .flags = kCompletionFlags,
                             .run = RunCompletion};

}  // namespace nomad_bridge::cli
