#include <algorithm>
#include <exception>
#include <set>
#include <string>

#include "base/text.h"
#include "plugin/cli/doctor.h"
#include "plugin/cli/nomad_config.h"
#include "plugin/cli/terminal.h"
#include "plugin/cni/plugin_type.h"

namespace nomad_bridge::cli {
namespace {

// Where there are none. Other runtimes need none of Nomad's, whose directory has to be known.
void CheckForAnyConflist(Examination& node) {
  const std::string directory = ConfigDirectory();
  const auto nomads = std::ranges::find_if(
      node.running, [](const Attachment* each) { return !each->Label(cni::kJob).empty(); });
  if (nomads != node.running.end() && node.Configs().empty() && IsNomadConfigKnown()) {
    node.Warn(Format("'{}' has no network config, and allocations of network '{}' run: the next "
                     "one finds none",
                     directory,
                     (*nomads)->id.network),
              Fix::Advice("put it back, or name Nomad's cni_config_dir in /etc/nomad.d"));
  }
}

// The bridge that `plugin` attaches allocations to; nullopt of one that attaches none, or that
// cannot be read, which CheckConflists() says.
std::optional<std::string> FindBridge(const cni::PluginConfig& plugin) {
  try {
    const std::optional<config::Config> config = FindConfig(plugin);
    return config && cni::TypeOf(plugin.type).Provides(cni::Part::kLink)
               ? std::optional(config->link.bridge)
               : std::nullopt;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

struct OtherBridges {
  std::size_t attachments = 0;
  std::set<std::string> names;
};

// Those that Nomad's running allocations of `network` are on beside `bridge`. Other runtimes ask no
// CHECK.
OtherBridges FindOtherBridges(const Examination& node,
                              const std::string& network,
                              const std::string& bridge) {
  OtherBridges others;
  for (const Attachment* const attachment : node.running) {
    const state::Record& record = *attachment->record;
    if (attachment->id.network == network && !attachment->Label(cni::kJob).empty() &&
        record.IsLive(cni::Part::kLink) && record.link.bridge != bridge) {
      ++others.attachments;
      others.names.insert(record.link.bridge);
    }
  }
  return others;
}

}  // namespace

void CheckConflists(Examination& node) {
  CheckForAnyConflist(node);
  for (const ConfigFile& file : node.Configs()) {
    const Fix fix = Fix::Advice(
        Cat("correct it until this says ok: nomad-bridge config check ", ShellWord(file.path)));
    if (!file.error.empty()) {
      node.Fail(file.error, fix);
    }
    for (const cni::PluginConfig& plugin : file.plugins) {
      try {
        static_cast<void>(FindConfig(plugin));
      } catch (const std::exception& error) {
        node.Fail(Format("{}: {}", file.path, error.what()), fix);
      }
    }
  }
}

void CheckConflistBridges(Examination& node) {
  for (const ConfigFile& file : node.Configs()) {
    for (const cni::PluginConfig& plugin : file.plugins) {
      const std::optional<std::string> bridge = FindBridge(plugin);
      if (!bridge) {
        continue;
      }
      const std::string& network = plugin.request.id.network;
      const OtherBridges others = FindOtherBridges(node, network, *bridge);
      if (others.attachments != 0) {
        const std::string names = Joined(others.names, "', '");
        node.Warn(
            Format("{} names bridge '{}', and {} of network '{}' {} on '{}': each CHECK fails, "
                   "so that a restart of Nomad's agent replaces their namespaces",
                   file.path,
                   *bridge,
                   Counted(others.attachments, "running attachment"),
                   network,
                   others.attachments == 1 ? "is" : "are",
                   names),
            Fix::Advice(Format("let it name '{}' until they have been started anew", names)));
      }
    }
  }
}

}  // namespace nomad_bridge::cli
