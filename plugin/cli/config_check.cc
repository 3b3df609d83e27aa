#include <exception>

#include "base/error.h"
#include "base/file.h"
#include "base/list.h"
#include "base/log.h"
#include "base/text.h"
#include "plugin/cli/command.h"
#include "plugin/cli/terminal.h"
#include "plugin/cni/conflist.h"
#include "plugin/cni/plugin_type.h"
#include "plugin/config/config.h"

namespace nomad_bridge::cli {
namespace {

// Throws what an ADD with it would answer.
std::string CheckFile(const std::string& path) {
  if (!FindStatus(path)) {
    throw Error(Code::kIo, "there is no such file");
  }
  std::string others;
  std::string network;
  for (const cni::PluginConfig& plugin : cni::ReadPluginConfigs(path)) {
    network = plugin.request.id.network;
    if (Contains(cni::PluginTypeNames(), plugin.type)) {
      static_cast<void>(config::ParseConfig(plugin.request, cni::TypeOf(plugin.type)));
    } else {
      others += Cat(others.empty() ? "" : ", ", Quoted(plugin.type));
    }
  }
  return Format("{}: ok, network '{}'{}{}\n",
                path,
                network,
                others.empty() ? "" : "; not ours, not checked: ",
                others);
}

int RunConfigCheck(const Arguments& arguments) {
  int exit = kYes;
  for (const std::string& path : arguments.operands) {
    try {
      Print(CheckFile(path));
    } catch (const std::exception& error) {
      // The reader of the list names the file already.
      const bool is_named = std::string_view(error.what()).find(path) != std::string_view::npos;
      LogLine("{}{}", is_named ? "" : Cat(path, ": "), error.what());
      exit = kNo;
    }
  }
  return exit;
}

}  // namespace

const Command kConfigCheck = {
    .name = "config check",
    .operands = {"FILE...", 1, kAny},
    .summary = "whether a conflist, or a single plugin's config, is valid",
    .text =
        R"(Reads each FILE as an ADD would, and changes nothing. Of what is wrong it names file, key and
what is allowed. Plugins of other names in a list are named, not checked. Exit 1: invalid.
)",
    .run = RunConfigCheck};

}  // namespace nomad_bridge::cli
