#include <algorithm>
#include <array>
#include <exception>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/list.h"
#include "base/text.h"
#include "plugin/cli/attachment_view.h"
#include "plugin/cli/command.h"
#include "plugin/cli/doctor.h"
#include "plugin/cli/named_attachments.h"
#include "plugin/cli/nomad_config.h"
#include "plugin/cli/terminal.h"
#include "plugin/state/host.h"

namespace nomad_bridge::cli {
namespace {

// The placeholders {} of the script are, in this order: the first words of commands; cases of
// $command with the words that may follow it; cases of $command with its flags and the kinds of its
// operands; cases of a flag with the kind of its value. Kinds are the words of a usage line. bash
// splits "ns=p" and "-output=x" into three words.
constexpr char kBash[] =
    R"bash(# bash completion of nomad-bridge: source <(nomad-bridge completion bash)
_nomad_bridge() {
  local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
  local command=${COMP_WORDS[1]} first='{}' from=(-W '')
  local words= flags= kinds= key= value
  COMPREPLY=()
  case $command in
    '') ;;
{}  esac
  [[ -z $words ]] || ((COMP_CWORD == 2)) || command+=" ${COMP_WORDS[2]}"
  case $command in
{}  esac
  if [[ $current == = ]]; then
    key=$before current=
  elif ((COMP_CWORD > 2)) && [[ $before == = ]]; then
    key=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  if [[ $key == -* ]]; then
    before=$key key=
  fi
  case "$command ${before/#--/-}" in
{}  esac
  if ((COMP_CWORD == 1)); then
    from=(-W "$first")
  elif [[ -n $words ]] && ((COMP_CWORD == 2)); then
    from=(-W "$words")
  elif [[ $current == -* ]]; then
    from=(-W "$flags")
  else
    case "|$kinds|" in
      '||') ;;
      *[[:lower:]]*) from=(-W "$kinds") ;;
      '|COMMAND|') from=(-W "$first") ;;
      *'|FILE|'* | *'|CONFLIST|'*)
        compopt -o filenames
        from=(-f) ;;
      '|DIR|')
        compopt -o filenames
        from=(-d) ;;
      *)  # without compgen -W, which expands what an allocation is called
        while read -r value; do
          [[ $value != "$current"* ]] || COMPREPLY+=("$(printf %q "$value")")
        done < <(nomad-bridge completion -values "${key:-$kinds}" 2>/dev/null)
        [[ ${COMPREPLY[0]} != *= ]] || compopt -o nospace
        return ;;
    esac
  fi
  mapfile -t COMPREPLY < <(compgen "${from[@]}" -- "$current")
}
complete -F _nomad_bridge nomad-bridge
)bash";

// Returns "ALLOC|PORT" for "[ALLOC|PORT]", and "FILE" for "FILE...".
std::string KindsOf(std::string_view shown) {
  std::string kinds(shown);
  std::erase_if(kinds, [](char each) { return each == '[' || each == ']' || each == '.'; });
  return kinds;
}

std::string BashScript() {
  std::vector<std::string> first;
  std::string second;
  std::string commands;
  std::string values;
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
    commands += Format("    '{}') flags='{}' kinds='{}' ;;\n",
                       command->name,
                       names,
                       KindsOf(command->operands.text));
    for (const Flag& flag : command->flags) {
      if (flag.value != nullptr) {
        values += Format("    '{} -{}') kinds='{}' ;;\n", command->name, flag.name, flag.value);
      }
    }
  }
  return Format(kBash, Joined(first, " "), second, commands, values);
}

using Values = std::set<std::string>;

void AddNetworksOfConfigs(Values& values) {
  for (const std::string& file : FindNodeConfigFiles()) {
    try {
      for (const cni::PluginConfig& plugin : cni::ReadPluginConfigs(file)) {
        values.insert(plugin.request.id.network);
      }
    } catch (const Error&) {  // `config check` reports what is wrong
      continue;
    }
  }
}

// Adds the values that the attachments of this node have for a filter's key.
void AddOfAttachments(const Inventory& inventory, std::string_view key, Values& values) {
  for (const Attachment& attachment : inventory.attachments) {
    const std::vector<std::string> all = ValuesOf(attachment, key);
    values.insert(all.begin(), all.end());
  }
}

// Returns the values for a key of filters, or for a word of a usage line; none for other kinds.
Values ValuesOfKind(std::string_view kind) {
  Values values;
  if (kind == "CHECK") {
    const std::vector<std::string_view> ids = CheckIds();
    values.insert(ids.begin(), ids.end());
  } else if (kind == "FILTER") {
    for (const std::string_view key : kFilterKeys) {
      values.insert(Cat(key, '='));
    }
  } else if (kind == "NETWORK") {
    AddNetworksOfConfigs(values);
  } else if (kind == "state") {
    std::ranges::transform(kStateNames, std::inserter(values, values.end()), [](const auto& state) {
      return std::string(state.second);
    });
    values.erase(std::string(Text(State::kUnknown)));
  } else {
    state::Host host = state::Host::OpenToLook();
    const Inventory inventory = TakeInventory(host);
    if (kind == "ALLOC") {
      for (const Attachment& attachment : inventory.attachments) {
        values.insert({ShortId(attachment.Allocation()), attachment.Label(cni::kJob)});
      }
    } else if (kind == "PORT") {
      AddOfAttachments(inventory, "port", values);
    } else if (Contains(kFilterKeys, kind)) {
      AddOfAttachments(inventory, kind, values);
    }
  }
  return values;
}

// Returns the values for `kinds`, for example "ALLOC|PORT". Skips data that cannot be read, without
// an error: the operator has not run a command yet.
std::string ValuesText(std::string_view kinds) {
  std::string text;
  while (!kinds.empty()) {
    try {
      for (const std::string& value : ValuesOfKind(TakeUntil('|', kinds))) {
        text += value.empty() ? "" : Cat(Printable(value), '\n');
      }
    } catch (const std::exception&) {
      continue;
    }
  }
  return text;
}

int RunCompletion(const Arguments& arguments) {
  if (const std::string* const key = arguments.Find("values")) {
    Print(ValuesText(*key));
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
    Flag{"values", "KIND", "for the script: what a word of a usage line can be here"}};

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
