// What attachments share in the rules: the static rules, names of links, the ingress policy of a
// bridge. Put in force by the first that asks for it, and looked up again only when the ruleset may
// have been changed by others: see Records::Trust.
#pragma once

#include <string>
#include <vector>

#include "netlink/nft_element.h"
#include "plugin/host.h"
#include "plugin/record.h"

namespace nomad_bridge {

// What `record` asks for that others may ask for too: two that ask for the same have the same hash,
// "<gate> <ingressPolicy> <digits>". `elements` are all of its own.
[[nodiscard]] std::string HashOfShared(const Record& record,
                                       const std::vector<NftElement>& elements);

// Whether `hash` stands for another ingressPolicy of the gate of `record`: what has been put in force
// for one of them may undo the other.
[[nodiscard]] bool IsOfAnotherPolicy(const std::string& hash, const Record& record);

// What has had its day: an earlier ingressPolicy of the same bridge, and the names of bridges that
// are gone (`podman network rm`).
struct Outdated {
  std::vector<NftElement> retired;  // nobody living wants it any more
  bool is_kept = false;             // somebody still wants that earlier policy
};
[[nodiscard]] Outdated FindOutdated(Host& host, const Record& record);

}  // namespace nomad_bridge
