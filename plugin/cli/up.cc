#include <string>
#include <vector>

#include "base/list.h"
#include "base/log.h"
#include "base/text.h"
#include "plugin/attachment/prepare.h"
#include "plugin/cli/command.h"
#include "plugin/cli/terminal.h"
#include "plugin/cni/conflist.h"
#include "plugin/cni/plugin_type.h"
#include "plugin/state/host.h"

namespace nomad_bridge::cli {
namespace {

std::vector<std::string> FilesFor(const Arguments& arguments) {
  return arguments.operands.empty() ? cni::FindDefaultConfigFiles()
                                    : cni::FindConfigFiles(arguments.operands.front());
}

// Returns what was made, one line per network of ours in `file`.
std::string BringUp(state::Host& host, const std::string& file) {
  std::string text;
  for (const cni::PluginConfig& plugin : cni::ReadPluginConfigs(file)) {
    if (!Contains(cni::PluginTypeNames(), plugin.type)) {
      continue;
    }
    const attachment::Prepared prepared =
        attachment::PrepareNetwork(host, plugin.request, cni::TypeOf(plugin.type));
    if (prepared.gateway_ifname.empty()) {
      continue;
    }
    text += Format("network '{}' is up: {}", plugin.request.id.network, prepared.gateway_ifname);
    for (const Cidr& gateway : prepared.gateways) {
      text += Cat(' ', gateway);
    }
    text += '\n';
  }
  return text;
}

int RunUp(const Arguments& arguments) {
  RequireRoot("up");
  state::Host host = state::Host::Open();
  const std::vector<std::string> files = FilesFor(arguments);
  int exit = kYes;
  for (const std::string& file : files) {
    try {
      Print(BringUp(host, file));
    } catch (const std::exception& error) {
      LogLine("cannot bring up what '{}' configures: {}", file, error.what());
      exit = kNo;
    }
  }
  if (files.empty()) {
    LogLine("{}", "there is no network config yet");
  }
  return exit;
}

}  // namespace

const Command kUp = {
    .name = "up",
    .operands = "[CONFLIST|DIR]",
    .summary = "makes bridge, gateway and table of the networks, without an allocation",
    .text =
        R"(For each config that has a plugin of ours: the bridge, the node's addresses on it, forwarding
and the rules that all allocations share, so that services can bind to the bridge's address before
the first allocation. Without an operand: the configs in /opt/cni/config, or if there are none in
/etc/cni/net.d. Exit 1: one of them failed; the others are up all the same.
)",
    .most = 1,
    .run = RunUp};

}  // namespace nomad_bridge::cli
