#include "plugin/attachment/forget.h"

#include <optional>

#include "base/file.h"
#include "ipam/store.h"
#include "plugin/attachment/lease_history.h"
#include "plugin/cni/plugin_type.h"
#include "plugin/link/bridge.h"
#include "plugin/rules/converge.h"

namespace nomad_bridge::attachment {
namespace {

bool HasLeases(const std::string& data_dir, const std::string& network) {
  const auto store = ipam::Store::OpenIfExists(data_dir, network);
  return store && !store->Leases().empty();
}

void ForgetDirectories(state::Host& host) {
  const std::string& usual = cni::TypeOf("nomad-bridge").defaults.data_dir;
  for (const std::string& network : Entries(state::kStateDirectory)) {
    // Where it has a list it has leases, which GC finds by the network's directory.
    if (!network.starts_with('.') && FindLeaseHistory(network, "").other_data_dirs.empty() &&
        !HasLeases(usual, network)) {
      host.records.EnsureGoneIfEmpty(network);
    }
  }
}

void ForgetBridges(state::Host& host) {
  const std::optional<state::Checkpoint> checkpoint = host.checkpoint.Find();
  if (!checkpoint) {
    return;
  }
  std::set<std::string> gone(checkpoint->opened_ifnames.begin(), checkpoint->opened_ifnames.end());
  for (const auto& [name, bridge] : checkpoint->bridges) {
    gone.insert(name);
  }
  std::erase_if(gone, [&](const std::string& name) { return host.net.FindLink(name).has_value(); });
  if (gone.empty()) {
    return;
  }
  const auto is_gone = [&](const std::string& name) { return gone.contains(name); };
  // Who made one that is in use, and what it led to, is asked when it is missed.
  std::set<std::string> unused = gone;
  std::erase_if(unused, [&](const std::string& name) { return link::IsInUse(host, name); });
  rules::UpdateCheckpoint(host, [&](state::Checkpoint& now) {
    std::erase_if(now.bridges, [&](const auto& each) { return unused.contains(each.first); });
    std::erase_if(now.opened_ifnames, is_gone);
  });
}

}  // namespace

void ForgetGoneNetworks(state::Host& host) {
  ForgetLeaseHistories(host);
  ForgetDirectories(host);
  ForgetBridges(host);
}

}  // namespace nomad_bridge::attachment
