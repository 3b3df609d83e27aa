// Containers without a program, which exist for as long as a command runs: each is a network
// namespace that all plugins of a network attach, one after the other, as a runtime runs them.
//
// Left     nothing, even if this process is killed: a guard (base/guard.h) runs the plugins, and
//          runs them again for DEL when this process ends. If both are killed, the namespaces end,
//          and gc or the next ADD releases what they had.
// Labels   Nomad's: job "nomad-bridge-test", and the namespace and group of the caller. The IDs
//          begin with "nomad-bridge-test-".
// Source   CNI specification 1.1.0; libcni's AddNetworkList and DelNetworkList
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/guard.h"
#include "netlink/core/netns.h"
#include "plugin/cli/document.h"
#include "plugin/cni/conflist.h"

namespace nomad_bridge::cli {

// A network as a runtime knows it.
struct PluginList {
  std::string network;
  std::vector<cni::PluginConfig> plugins;
  std::vector<std::string> directories;  // CNI_PATH
};

struct ThrowAway {
  std::string nomad_namespace;
  std::string group;
  std::vector<std::uint16_t> published;  // ports of the node that lead to its kContainerPort

  AttachmentId id = {};
  Json result = {};  // of the last plugin
};

constexpr std::uint16_t kContainerPort = 8080;

class ThrowAways {
 public:
  // Keeps a reference to `list`. Throws kKernel if there is no namespace for one, and what a plugin
  // says if it fails.
  ThrowAways(const PluginList& list, std::vector<ThrowAway> wanted);

  [[nodiscard]] const std::vector<ThrowAway>& all() const { return all_; }
  // Returns the namespace of all()[index].
  [[nodiscard]] const netlink::Netns& netns(std::size_t index) const { return namespaces_[index]; }

  // Detaches them. Throws what a plugin says if it fails; the others were run nevertheless.
  void Remove() { guard_->TakeBack(); }

 private:
  // Runs in the guard. Returns {"results": [...]} or {"error": "..."}.
  [[nodiscard]] std::string AddAll();
  void DelAll() const;

  const PluginList& list_;
  std::vector<ThrowAway> all_;
  std::vector<netlink::Netns> namespaces_;
  std::optional<Guard> guard_;  // last: it uses the others
};

}  // namespace nomad_bridge::cli
