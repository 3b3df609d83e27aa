// What attachments share in the rules: the static rules, names of links, the ingress policy of a
// bridge. Put in force by the first that asks for it, and looked up again only when the ruleset may
// have been changed by others: see Records::Trust.
#pragma once

#include <string>
#include <vector>

#include "netlink/nft/element.h"
#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::rules {

// What `record` asks for that others may ask for too: two that ask for the same have the same hash,
// "<gate> <ingressPolicy> <digits>". `elements` are all of its own.
[[nodiscard]] std::string HashOfShared(const state::Record& record,
                                       const std::vector<nft::Element>& elements);

// Whether `hash` stands for another ingressPolicy of the gate of `record`: what has been put in force
// for one of them may undo the other.
[[nodiscard]] bool IsOfAnotherPolicy(const std::string& hash, const state::Record& record);

// What has had its day: an earlier ingressPolicy of the same bridge, and the names of bridges that
// are gone (`podman network rm`).
struct StaleShared {
  std::vector<nft::Element> elements;  // nobody living wants it any more
  bool is_kept = false;                // somebody still wants that earlier policy
};
[[nodiscard]] StaleShared FindStaleShared(state::Host& host, const state::Record& record);

}  // namespace nomad_bridge::rules
