// What attachments share in the rules: the static rules, names of interfaces, the ingress policy of a
// bridge. Put in force by the first that needs it, and looked up again only when the ruleset may have
// been changed by other programs.
//
// Errors  kKernel.
// Locks   FindStaleShared() needs the rules' lock.
#pragma once

#include <string>
#include <vector>

#include "netlink/nft/element.h"
#include "plugin/link/liveness.h"
#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::rules {

// Stands for what `record` shares with others: equal for two that need the same. For
// Checkpoint::shared: "<gateway ifname> <ingressPolicy> <16 hex>". `elements` are all of `record`.
[[nodiscard]] std::string HashOfShared(const state::Record& record,
                                       const std::vector<nft::Element>& elements);

// Whether `hash` is for another ingressPolicy of the gateway of `record`: putting that of `record` in
// force may have undone it.
[[nodiscard]] bool IsOfAnotherPolicy(const std::string& hash, const state::Record& record);

// Elements of an earlier ingressPolicy of the same bridge, and of bridges that are gone (`podman
// network rm`).
struct StaleShared {
  std::vector<nft::Element> elements;  // that no live attachment needs any more
  bool is_kept = false;                // some live attachment still needs that earlier policy
};
[[nodiscard]] StaleShared FindStaleShared(state::Host& host,
                                          const state::Record& record,
                                          link::LiveAttachments& others);

}  // namespace nomad_bridge::rules
