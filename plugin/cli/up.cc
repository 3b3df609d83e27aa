#include <algorithm>
#include <array>
#include <filesystem>

#include "base/list.h"
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

// Adds to `found` that Nomad finds no network, and which chains of other programs drop what our
// rules accept. Only their owners can change them. REQUIRES: the bridges are up
FindingList FindWarnings(state::Host& host,
                         const Arguments& arguments,
                         const std::vector<std::string>& files,
                         FindingList found) {
  if (std::optional<Finding> none =
          arguments.operands.empty() ? FindNoNetwork(files) : std::nullopt) {
    found.push_back(*std::move(none));
  }
  // Without our tables, our rules accept nothing yet.
  if (const std::optional<firewall::About> about = firewall::FindAbout(host.nft)) {
    Append(found, firewall::FindForeignDrops(host.nft, about->accept_mark_bit));
  }
  return found;
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

// Brings up a network of ours in a file. Returns what was made or, in mode kLook, what would be
// made; null if nothing has to be made.
Json BringUp(state::Host& host, state::Record record, Mode mode) {
  // Without a gateway, this may be the node's own bridge to its LAN, and the program that sets it
  // up may run after us.
  const bool is_left_out = !record.link.bridge.empty() && record.link.gateways.empty();
  std::vector<std::string> missing;
  if (!is_left_out) {
    link::DescribeBridge(host, record);
    missing = Prepare(host, record, mode);
  }
  const std::string& bridge = is_left_out ? record.link.bridge : record.link.gateway_ifname;
  if (bridge.empty() && missing.empty()) {
    return {};
  }
  return {{"network", record.id.network},
          {"state",
           is_left_out       ? "left out"
           : missing.empty() ? "up"
                             : "to make"},
          {"bridge", OrNull(bridge)},
          {"addresses", ArrayOf(record.link.gateways, &Cidr::Text)},
          {"missing", missing}};
}

// Appends the networks of a file to `networks`, and missing bridges that only the operator makes to
// `warnings`.
void BringUpAll(state::Host& host,
                const std::string& file,
                Mode mode,
                Json& networks,
                FindingList& warnings) {
  for (const cni::PluginConfig& plugin : cni::ReadPluginConfigs(file)) {
    if (const std::optional<config::Config> config = FindConfig(plugin)) {
      Json network = BringUp(host, IntentOfNetwork(host, plugin, *config), mode);
      if (!network.is_null()) {
        network["file"] = file;
        networks.push_back(std::move(network));
      }
      if (std::optional<Finding> missing = FindMissingBridge(host, plugin, *config)) {
        warnings.push_back(*std::move(missing));
      }
    }
  }
}

std::string ShowNetwork(const Json& network) {
  const std::string name = PlainText(network.at("network"));
  const std::string bridge = PlainText(network.at("bridge"));
  const Json& missing = network.at("missing");
  if (network.at("state") == "left out") {
    return Format(
        "network '{}' is left out: the bridge '{}' gets no gateway of ours\n", name, bridge);
  }
  return missing.empty() ? Format("network '{}' is up: {} {}\n",
                                  name,
                                  bridge,
                                  Joined(network.at("addresses"), " ", PlainText))
                         : Joined(missing, "", [&](const Json& each) {
                             return Format("network '{}': {}\n", name, PlainText(each));
                           });
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
  const Mode mode = ModeOf(arguments);
  Json networks = Json::array();
  Json failed = Json::array();
  FindingList warnings;
  for (const std::string& file : files) {
    try {
      BringUpAll(host, file, mode, networks, warnings);
    } catch (const std::exception& error) {
      LogLine("cannot bring up what '{}' configures: {}", file, error.what());
      failed.push_back({{"file", file}, {"error", error.what()}});
    }
  }
  if (!arguments.Has("json")) {
    // First: what follows may fail, and the networks are up.
    Print(Folded(Joined(networks, "", ShowNetwork), 2));
  }
  const Json document = {
      {"dryRun", mode == Mode::kLook},
      {"networks", networks},
      {"failed", failed},
      {"warnings",
       ArrayOf(FindWarnings(host, arguments, files, std::move(warnings)), FindingJson)}};
  if (arguments.Has("json")) {
    PrintDocument(document);
  }
  for (const Json& warning : document.at("warnings")) {
    LogLine("{}", ShowWithFix(warning));
  }
  if (!arguments.operands.empty() && files.empty()) {
    LogLine("'{}' has no network config yet", arguments.operands.front());
  }
  const bool is_up =
      std::ranges::all_of(networks, [](const Json& each) { return each.at("missing").empty(); });
  return is_up && failed.empty() ? kYes : kNo;
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
