// policy status -flows: which connections policies have refused, or would refuse in audit mode, who
// they were between, and the entry that would let each pass.
//
// Source  the sets of flows (rules/policy_admission.h): what was tried within the last hour
// Names   are those of the allocations that have the addresses now, or had them when flows were
//         read before. One that began after a flow's last packet is not that flow's: then the
//         address alone is shown.
// Errors  kKernel
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plugin/cli/document.h"
#include "plugin/cli/inventory.h"
#include "plugin/cli/policy_view.h"
#include "plugin/policy/judge.h"
#include "plugin/state/host.h"

namespace nomad_bridge::cli {

struct Flow {
  policy::End from;
  policy::End to;
  std::uint8_t protocol = 0;  // IPPROTO_*; of ICMPv6 that of ICMP
  std::uint16_t port = 0;     // of `to` itself; 0: the protocol has none
  std::uint64_t tries = 0;    // packets that would have begun it
  std::uint64_t seconds_ago = 0;
  bool is_refused = false;  // by the last packet; else an audited policy would refuse it
  // What the policies in force now make of it.
  policy::Answer now;
  // Where it could be allowed: a policy, and the entry for that policy's `allow`. Empty if a `deny`
  // refuses it, if nobody has the address of an end now, or if it is allowed by now.
  std::string policy;
  std::string entry;

  [[nodiscard]] bool IsAllowedNow() const {
    return now.is_allowed && now.WouldBeRefusedBy().empty();
  }
};

struct Flows {
  std::vector<Flow> flows;  // the latest first
  bool are_all = true;      // false: a set is full, so that newer ones may be missing
};

// Adds to `known` who has which address now.
[[nodiscard]] Flows ReadFlows(state::Host& host, Holders& known);

// Returns how full the set of refused flows, or of flows that would be refused, is; the fuller
// family.
[[nodiscard]] Usage UsageOfRefusedFlows(state::Host& host);
[[nodiscard]] Usage UsageOfAuditedFlows(state::Host& host);

// A table, and the entries to paste.
[[nodiscard]] std::string ShowFlows(const Flows& flows);
[[nodiscard]] Json ToJson(const Flow& flow);

}  // namespace nomad_bridge::cli
