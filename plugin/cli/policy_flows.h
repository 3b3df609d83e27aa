// policy status -flows: the connections that policies have refused, or would refuse in audit mode,
// with their ends and the entry that would allow each connection.
//
// Source  the sets of flows (rules/policy_admission.h): connections that were tried within the last
//         hour
// Names   An address is shown as the allocation that has it now, or had it when flows were read or
//         logged before. If that allocation began after a flow's last packet, the flow is not its
//         own, and only the address is shown.
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
  std::uint8_t protocol = 0;  // IPPROTO_*; IPPROTO_ICMP also for ICMPv6
  std::uint16_t port = 0;     // of `to`, not a published port; 0: the protocol has no ports
  std::uint64_t tries = 0;    // packets that tried to open the connection
  std::uint64_t seconds_ago = 0;
  bool is_refused = false;  // the last packet was; false: audit mode would refuse it
  // The decision of the policies in force now.
  policy::Answer now;
  // The policy that could allow the flow, and the entry for its `allow`. Empty if a `deny` refuses
  // the flow, if an end was an allocation that no longer has the address, or if the flow is allowed
  // by now.
  std::string policy;
  Json entry = {};

  [[nodiscard]] bool IsAllowedNow() const {
    return now.is_allowed && now.WouldBeRefusedBy().empty();
  }
};

struct Flows {
  std::vector<Flow> flows;  // the latest first
  bool are_all = true;      // false: a set is full, and newer flows may be missing
};

// Reads all flows. First adds the allocations that have addresses now to `known`, which the caller
// may keep for the next call.
[[nodiscard]] Flows ReadFlows(state::Host& host, Holders& known);

// Returns the flows of the last hour, and the connections that conntrack has, which the policies in
// force let pass and `program` would refuse: the latest first, once for the same names and port.
// The entry of each goes into a policy of `program`.
[[nodiscard]] Flows FlowsThatWouldEnd(state::Host& host, const policy::Program& program);

// Sets what the policies decide about the flow, and the policy and the entry that would allow it.
void Explain(const policy::Program& program, const Holders& holders, Flow& flow);

// Returns a flow with the protocol and the port that `port` of a flow's document shows: "tcp/80",
// "icmp", "protocol 47".
[[nodiscard]] std::optional<Flow> FindFlowOnPort(const std::string& port);

// Returns the usage of the set of flows that are refused, or that audit mode would refuse. Each
// family has such a set; the fuller set counts.
[[nodiscard]] Usage UsageOfRefusedFlows(state::Host& host);
[[nodiscard]] Usage UsageOfAuditedFlows(state::Host& host);

[[nodiscard]] Json ToJson(const Flows& flows);
// Returns "refused by api", "would be refused by api", "allowed now by api#0" or "allowed now".
[[nodiscard]] std::string DecisionOf(const Json& flow);
// Returns a table of the flows in this document, followed by the entries to paste.
[[nodiscard]] std::string ShowFlows(const Json& document);
// Returns the same for flows of FlowsThatWouldEnd(), where an open connection was seen 0 seconds
// ago.
[[nodiscard]] std::string ShowFlowsThatWouldEnd(const Json& document);
// Returns the same for flows of the journal, which has the first packet of each flow, and no count.
[[nodiscard]] std::string ShowLoggedFlows(const Json& document);

}  // namespace nomad_bridge::cli
