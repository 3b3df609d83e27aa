// down, the opposite of up: removes what the attachments of a node, or of one of its networks, have
// shared. Refuses while there are attachments.
//
// Locks  Holds the rules' lock from the search for attachments to the end. An ADD writes its record
//        before it takes that lock: either we see the record, or the ADD makes the rules again.
#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "base/error.h"
#include "base/file_lock.h"
#include "base/finding.h"
#include "base/list.h"
#include "base/log.h"
#include "base/text.h"
#include "firewall/about.h"
#include "firewall/static_rules.h"
#include "firewall/table.h"
#include "plugin/cli/command.h"
#include "plugin/cli/inventory.h"
#include "plugin/cli/nomad_config.h"
#include "plugin/cli/terminal.h"
#include "plugin/foreign/other_firewalls.h"
#include "plugin/link/bridge.h"
#include "plugin/link/given_gateways.h"

namespace nomad_bridge::cli {
namespace {

std::string_view Removed(Mode mode) {
  return mode == Mode::kRepair ? "removed" : "would be removed";
}

// Throws if an attachment of `network` or on `bridge` remains. An empty `network` stands for all,
// an empty `bridge` for none. An attachment without a readable record counts, too.
void RequireIdle(state::Host& host, const std::string& network, const std::string& bridge) {
  const Inventory inventory = TakeInventory(host);
  std::vector<std::string> names;
  for (const Attachment& attachment : inventory.attachments) {
    if (network.empty() || attachment.id.network == network ||
        (!bridge.empty() && BridgeOf(attachment, inventory) == bridge)) {
      names.push_back(attachment.Allocation());
    }
  }
  if (!names.empty()) {
    throw Error(Code::kConflict,
                Format("{} still has {}: {}",
                       network.empty() ? "this node" : Format("network '{}'", network),
                       Counted(names.size(), "attachment"),
                       Joined(names, ", ")),
                "stop their allocations first; 'nomad-bridge gc' takes back what is stale");
  }
}

// Returns the bit of our mark. By the mark we find our accepting rules that have lost their
// comment.
int MarkBit(state::Host& host) {
  const std::optional<firewall::About> about = firewall::FindAbout(host.nft);
  return about ? about->accept_mark_bit : firewall::ForwardHook().accept_mark_bit;
}

// Removes our tables, and the rules in iptables' tables that accept our mark. Returns a line for
// each.
std::string RemoveRules(state::Host& host, Mode mode) {
  std::string text;
  nft::Batch batch;
  const int mark_bit = MarkBit(host);  // the table shows it
  for (const nft::TableFamily family : {nft::TableFamily::kInet, nft::TableFamily::kBridge}) {
    const nft::TableId table = firewall::TableId(family);
    if (host.nft.FindTable(table)) {
      batch.DeleteTable(table);
      text += Format("table {}: {}\n", nft::Text(table), Removed(mode));
    }
  }
  for (const std::string& rule : firewall::PlanAcceptsGone(host.nft, mark_bit, batch)) {
    text += Format("{}: {}\n", rule, Removed(mode));
  }
  if (mode == Mode::kLook) {
    return text;
  }
  if (!text.empty()) {
    nft::RetryOnGenerations(host.nft, "remove our rules", {}, [&](std::uint32_t generation) {
      return nft::TryCommit(host.nft, batch, generation);
    });
  }
  foreign::EnsureLegacyAcceptsGone(mark_bit);
  return text;
}

// Returns whether an ADD that needs the bridge has begun since we looked for attachments. Our lock
// does not stop it: it creates its links before it takes the rules' lock.
bool IsWanted(state::Host& host, const rtnl::Link& bridge) {
  return std::ranges::any_of(host.records.All(), [&](const state::Record& record) {
    return record.link.bridge == bridge.name;
  });
}

std::string RemoveBridge(state::Host& host, const rtnl::Link& link, Mode mode) {
  if (IsWanted(host, link)) {
    return Format("bridge {}: kept, an ADD needs it\n", link.name);
  }
  if (!host.net.Ports(link.index).empty()) {
    return Format("bridge {}: kept, something is plugged into it\n", link.name);
  }
  if (mode == Mode::kRepair) {
    host.net.EnsureLinkGone(link.name);
  }
  return Format("bridge {}: {}\n", link.name, Removed(mode));
}

std::string RemoveLinks(state::Host& host, Mode mode) {
  std::string text;
  for (const rtnl::Link& link : host.net.Links()) {
    if (link.kind != "bridge") {
      continue;
    }
    if (link::IsOursAlone(host.net, link)) {
      text += RemoveBridge(host, link, mode);
    } else if (mode == Mode::kRepair && !IsWanted(host, link)) {
      host.net.EnsureLocalhostFilterGone(link);
    }
  }
  return text;
}

// Returns the bridges in the network configs of this node, by network.
std::map<std::string, std::string> ConfiguredBridges() {
  std::map<std::string, std::string> bridges;
  for (const std::string& file : FindNodeConfigFiles()) {
    try {
      for (const cni::PluginConfig& plugin : cni::ReadPluginConfigs(file)) {
        if (const std::optional<config::Config> config = FindConfig(plugin)) {
          bridges.try_emplace(plugin.request.id.network, config->link.bridge);
        }
      }
    } catch (const Error& error) {
      LogLine("{}, ignoring the file", error.what());
    }
  }
  std::erase_if(bridges, [](const auto& each) { return each.second.empty(); });
  return bridges;
}

// Returns the bridge of a network whose config is gone: the records name it, or it has the gateway
// of the network. Empty if the bridge is gone, too.
std::string BridgeWithoutConfig(state::Host& host, const std::string& network) {
  for (const state::Record& record : host.records.All()) {
    if (record.id.network == network && !record.link.bridge.empty()) {
      return record.link.bridge;
    }
  }
  const std::vector<Cidr> gateways = link::GatewaysOf(network);
  if (gateways.empty() && !host.records.HasNetwork(network)) {
    throw Error(
        Code::kInvalidConfig,
        Format("no network config names a network '{}', and the node has nothing of it", network));
  }
  for (const rtnl::Link& link : host.net.Links()) {
    const std::vector<Cidr> addresses = host.net.Addresses(link);
    if (std::ranges::any_of(gateways,
                            [&](const Cidr& each) { return Contains(addresses, each); })) {
      // The gateway of a VLAN is a link on the bridge.
      return link.kind == "vlan" ? host.net.FindLink(link.peer).value_or(rtnl::Link()).name
                                 : link.name;
    }
  }
  return "";
}

std::string RemoveNetwork(state::Host& host, const std::string& network, Mode mode) {
  const std::map<std::string, std::string> bridges = ConfiguredBridges();
  const auto own = bridges.find(network);
  const std::string bridge =
      own != bridges.end() ? own->second : BridgeWithoutConfig(host, network);
  RequireIdle(host, network, bridge);
  for (const auto& [other, others_bridge] : bridges) {
    if (other != network && others_bridge == bridge) {
      return Format("bridge {}: kept, network '{}' uses it, too\n", bridge, other);
    }
  }
  const std::optional<rtnl::Link> link = bridge.empty() ? std::nullopt : host.net.FindLink(bridge);
  if (!link) {
    return "";
  }
  if (!link::IsOursAlone(host.net, *link)) {
    return Format("bridge {}: kept, it is not ours\n", bridge);
  }
  return RemoveBridge(host, *link, mode);
}

// Returns the text, so that the lock is released before the text is printed: stdout may block.
std::string Remove(const std::vector<std::string>& operands, Mode mode) {
  state::Host host = state::Host::Open();
  const std::optional<FileLock> rules =
      mode == Mode::kRepair ? std::optional(host.records.LockRules()) : std::nullopt;
  if (!operands.empty()) {
    return RemoveNetwork(host, operands.front(), mode);
  }
  RequireIdle(host, "", "");
  return RemoveRules(host, mode) + RemoveLinks(host, mode);
}

int RunDown(const Arguments& arguments) {
  RequireRoot("down");
  const Mode mode = ModeOf(arguments);
  const std::string text = Remove(arguments.operands, mode);
  Print(text.empty() ? "nothing to remove\n" : text);
  return kYes;
}

constexpr std::array kDownFlags = {kDryRunFlag};

}  // namespace

const Command kDown = {
    .name = "down",
    .operands = {"[NETWORK]", 0, 1},
    .summary = "removes our bridges and rules from an empty node",
    .text =
        R"(Removes from the kernel what allocations share: our tables, the rules in
iptables' tables that accept what passed them, and the bridges that we made.
For a node that goes back to other plugins. The chains CNI-FORWARD and
NOMAD-ADMIN stay: other plugins and the operator have rules in them.

With NETWORK, removes only the bridge of that network, also if its network
config is gone. Refused as long as there is an attachment. The next ADD, or up,
makes all of it anew.
)",
    .flags = kDownFlags,
    .run = RunDown};

}  // namespace nomad_bridge::cli
