#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "plugin/cli/command.h"
#include "plugin/cli/plugin_directory.h"
#include "plugin/cli/terminal.h"
#include "plugin/cni/plugin_type.h"

namespace nomad_bridge::cli {
namespace {

void UninstallEntry(const PluginDirectory& directory, const std::string& name) {
  const std::string path = directory.Path(name);
  switch (Inspect(path, name == kProgram, "")) {
    case Finding::kAbsent:
      return;
    case Finding::kSame:
    case Finding::kOurs:
      EnsureFileGone(path);
      return Print(Cat(path, ": removed\n"));
    case Finding::kForeign:
    case Finding::kDirectory:
      return Print(Cat(path, ": not ours, left\n"));
  }
}

// Not put back: what the next allocation runs as `bridge` is the operator's decision.
void NameKept(const PluginDirectory& directory, const std::string& path) {
  std::vector<std::string> names = Entries(path);
  std::ranges::sort(names);
  for (const std::string& name : names) {
    if (const std::size_t at = name.find(kKeptAs); at != std::string::npos) {
      Print(Format("{}: left; 'mv' makes it {} again\n", directory.Path(name), name.substr(0, at)));
    }
  }
}

int RunUninstall(const Arguments& arguments) {
  const PluginDirectory directory(arguments.operands.front());
  // The program is the first: links to it go before it.
  std::vector<std::string> names = cni::PluginTypeNames();
  std::ranges::reverse(names);
  for (const std::string& name : names) {
    UninstallEntry(directory, name);
  }
  NameKept(directory, arguments.operands.front());
  return kYes;
}

}  // namespace

const Command kUninstall = {
    .name = "uninstall",
    .operands = "DIR",
    .summary = "removes from DIR what install put there",
    .text =
        R"(Removes nomad-bridge from DIR, and the links and copies of it under the names of the
reference plugins. Nothing is put back: what install kept as NAME.before-nomad-bridge, and
what is not ours, stays and is named. Attachments that run go on, but have no DEL then.
)",
    .least = 1,
    .most = 1,
    .run = RunUninstall};

}  // namespace nomad_bridge::cli
