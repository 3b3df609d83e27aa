#include <array>
#include <filesystem>

#include "base/log.h"
#include "base/text.h"
#include "firewall/about.h"
#include "firewall/foreign_drops.h"
#include "plugin/attachment/segment.h"
#include "plugin/cli/command.h"
#include "plugin/cli/document.h"
#include "plugin/cli/nomad_config.h"
#include "plugin/cli/terminal.h"
#include "plugin/cni/plugin_type.h"
#include "plugin/link/bridge.h"
#include "plugin/rules/bridge_netfilter.h"
#include "plugin/rules/check_ruleset.h"
#include "plugin/state/host.h"

namespace nomad_bridge::cli {
namespace {

// Returns the record that an ADD would write first. Adds the gateways that the bridge gets if the
// addresses come from the first range of each set.
state::Record IntentOfNetwork(state::Host& host,
                              const cni::PluginConfig& plugin,
                              const config::Config& asked) {
  const config::Config config = rules::WithoutUnsupportedDefaults(asked, host);
  state::Record record = state::IntentOf(plugin.request, cni::TypeOf(plugin.type), config, {});
  for (const ipam::RangeSet& set : config.ipam.ranges) {
    const ipam::Range& range = set.front();
    if (config.link.is_gateway) {
      record.link.gateways.push_back({range.gateway, range.subnet.prefix_length});
    }
    record.rules.forward_hook.ipv6 =
        record.rules.forward_hook.ipv6 || !range.subnet.address.is_ipv4();
  }
  return record;
}

// Logs which chains of other programs drop what our rules accept. Only their owners can change
// them.
void WarnOfForeignDrops(state::Host& host) {
  const std::optional<firewall::About> about = firewall::FindAbout(host.nft);
  if (!about) {
    return;  // our rules accept nothing yet
  }
  for (const Finding& drop : firewall::FindForeignDrops(host.nft, about->accept_mark_bit)) {
    LogLine("{}", drop.TextWithFix());
  }
}

// Creates what the attachment of `record` would share with others. In mode kLook, creates nothing,
// and returns what is missing.
std::vector<std::string> Prepare(state::Host& host, const state::Record& record, Mode mode) {
  if (mode == Mode::kRepair) {
    attachment::EnsureNetwork(host, record.Finished());
    return {};
  }
  // A reconcile does not report a missing bridge that no attachment needs yet, so the bridge is
  // checked here.
  Findings findings(mode);
  if (const state::Record finished = record.Finished(); finished.IsLive(cni::Part::kLink)) {
    link::CheckBridge(host, finished, findings);
  }
  rules::CheckRuleset(host, findings, nullptr);
  return findings.TextsLeft();
}

// A network of ours in a file: what was made or, in mode kLook, what would be made.
struct BroughtUp {
  std::string network;
  std::string file;
  std::string bridge;  // or the gateway of a VLAN; empty if none has to be made
  std::vector<Cidr> addresses = {};
  bool is_left_out = false;
  std::vector<std::string> missing = {};  // only in mode kLook
};

std::vector<BroughtUp> BringUp(state::Host& host, const std::string& file, Mode mode) {
  std::vector<BroughtUp> all;
  for (const cni::PluginConfig& plugin : cni::ReadPluginConfigs(file)) {
    const std::optional<config::Config> config = FindConfig(plugin);
    if (!config) {
      continue;
    }
    state::Record record = IntentOfNetwork(host, plugin, *config);
    BroughtUp each = {
        .network = plugin.request.id.network, .file = file, .bridge = record.link.gateway_ifname};
    if (!record.link.bridge.empty() && record.link.gateways.empty()) {
      // This may be the node's own bridge to its LAN, and the program that sets it up may run after
      // us.
      each.bridge = record.link.bridge;
      each.is_left_out = true;
    } else {
      link::DescribeBridge(host, record);
      each.missing = Prepare(host, record, mode);
      each.addresses = record.link.gateways;
    }
    if (!each.bridge.empty() || !each.missing.empty()) {
      all.push_back(std::move(each));
    }
  }
  return all;
}

std::string TextOf(const BroughtUp& each) {
  if (each.is_left_out) {
    return Format("network '{}' is left out: the bridge '{}' gets no gateway of ours\n",
                  each.network,
                  each.bridge);
  }
  std::string text;
  for (const std::string& missing : each.missing) {
    text += Format("network '{}': {}\n", each.network, missing);
  }
  return !text.empty() ? text
                       : Format("network '{}' is up: {} {}\n",
                                each.network,
                                each.bridge,
                                Joined(each.addresses, " "));
}

Json ToJson(const BroughtUp& each) {
  return {{"network", each.network},
          {"file", each.file},
          {"state",
           each.is_left_out       ? "left out"
           : each.missing.empty() ? "up"
                                  : "to make"},
          {"bridge", each.bridge.empty() ? Json() : Json(each.bridge)},
          {"addresses", ArrayOf(each.addresses, &Cidr::Text)},
          {"missing", each.missing}};
}

// Returns the files in the operands, or the configs of the node.
std::vector<std::string> ConfigFilesOf(const Arguments& arguments) {
  if (arguments.operands.empty()) {
    return FindNodeConfigFiles();
  }
  const std::string& typed = arguments.operands.front();
  std::vector<std::string> files = cni::FindConfigFiles(typed);
  if (std::error_code none; !std::filesystem::is_directory(typed, none) &&
                            (files.empty() || !std::filesystem::exists(typed, none))) {
    throw CannotTell(
        Format("'{}' is no directory, and no file *.conflist, *.conf or *.json", typed));
  }
  return files;
}

int RunUp(const Arguments& arguments) {
  RequireRoot("up");
  state::Host host = state::Host::Open();
  const std::vector<std::string> files = ConfigFilesOf(arguments);
  int exit = kYes;
  Json networks = Json::array();
  Json failed = Json::array();
  for (const std::string& file : files) {
    try {
      for (const BroughtUp& each : BringUp(host, file, ModeOf(arguments))) {
        networks.push_back(ToJson(each));
        Print(arguments.Has("json") ? "" : TextOf(each));
        exit = each.missing.empty() ? exit : kNo;
      }
    } catch (const std::exception& error) {
      LogLine("cannot bring up what '{}' configures: {}", file, error.what());
      failed.push_back({{"file", file}, {"error", error.what()}});
      exit = kNo;
    }
  }
  if (arguments.Has("json")) {
    PrintDocument(
        {{"dryRun", ModeOf(arguments) == Mode::kLook}, {"networks", networks}, {"failed", failed}});
  }
  if (arguments.operands.empty()) {
    if (const std::optional<Finding> warning = FindNoNetwork(files)) {
      LogLine("{}", warning->TextWithFix());
    }
  } else if (files.empty()) {
    LogLine("'{}' has no network config yet", arguments.operands.front());
  }
  WarnOfForeignDrops(host);  // needs the bridges, which are up now
  return exit;
}

constexpr std::array kUpFlags = {kDryRunFlag, kJsonFlag};

}  // namespace

const Command kUp = {
    .name = "up",
    .operands = {"[CONFLIST|DIR]", 0, 1},
    .summary = "makes the networks before their first allocation",
    .text =
        R"(Makes for each config with a plugin of ours: the bridge, the node's addresses
on it, forwarding, and the rules that all allocations share. Services can then
bind to the bridge's address before the first allocation. A bridge that gets no
gateway of ours is left out.

Without an operand, reads the configs in Nomad's cni_config_dir; if Nomad sets
none, in /opt/cni/config; if that has none, in /etc/cni/net.d. Takes from
/etc/cni/net.d only lists with a plugin of type nomad-bridge: other runtimes
have theirs there, too.

Exit 1: a network failed; the others are up. With -dry-run: something would be
made.
)",
    .flags = kUpFlags,
    .run = RunUp};

}  // namespace nomad_bridge::cli
