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

std::string BashScript() {
  std::vector<std::string> first;
  std::string second;
  std::string flags;
  for (const Command* const command : Commands()) {
    std::string_view rest = command->name;
    std::string word(TakeUntil(' ', rest));
    if (!rest.empty()) {
      second += Format("    {}) words+=\" {}\" ;;&\n", word, rest);
    }
    if (!Contains(first, word)) {
      first.push_back(std::move(word));
    }
    const std::string names =
        Joined(FlagsOf(*command), " ", [](const Flag& flag) { return Cat('-', flag.name); });
    flags += Format("    '{}') flags='{}' ;;\n", command->name, names);
  }
  return Format(kBash, Joined(first, " "), second, flags, FilterWords());
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
  if (shell != "bash") {
    throw UsageError(Format("there is completion for bash alone, not for '{}'", shell));
  }
  Print(BashScript());
  return kYes;
}

constexpr std::array kCompletionFlags = {
    Flag{"values", "KEY", "for the script: what a filter of list can be here"}};

}  // namespace

const Command kCompletion = {.name = "completion",
                             .operands = {"bash", 0, 1},
                             .summary = "prints the completion for bash",
                             .text = R"(For this shell:
  source <(nomad-bridge completion bash)
)",
                             .flags = kCompletionFlags,
                             .run = RunCompletion};

}  // namespace nomad_bridge::cli
