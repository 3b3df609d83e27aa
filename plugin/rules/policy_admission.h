// Which packets policies judge: base chains that lead from an allocation's address to the chain of
// its policies (policy_tables.h), and what its port of a bridge lets through at all.
//
// Source  docs/rules.md
#pragma once

#include <cstdint>
#include <string_view>

#include "firewall/contributor.h"

namespace nomad_bridge::rules {

// Names without the digit of their family. Maps: the chain of what reaches an address, and of what
// it sends; and the same for packets that are judged as answers, source and destination exchanged.
constexpr std::string_view kPolicyIn = "in";
constexpr std::string_view kPolicyOut = "out";
constexpr std::string_view kAnswersIn = "in_answers";
constexpr std::string_view kAnswersOut = "out_answers";
// Sets: addresses that some policy refuses something, or to; and each allocation's addresses with
// the interfaces that its packets come in by.
constexpr std::string_view kJudged = "judged";
constexpr std::string_view kComesBy = "comes_by";
// What the names of sets made for policies begin with: the allocations that a selector selects, and
// a list of prefixes.
constexpr std::string_view kSelected = "sel";
constexpr std::string_view kPrefixes = "adr";

// The chain that new connections pass.
constexpr const char* kJudge = "judge";
// The chain that tells the client of a refusal.
constexpr const char* kRefuse = "refuse";
// Chains that note what begins in a set of flows, and then refuse it, drop it, or go on.
constexpr const char* kRefuseNoted = "refuse_noted";
constexpr const char* kDropNoted = "drop_noted";
constexpr const char* kNoteAudited = "note_audited";

// Sets of flows: those that were refused, and those that audited policies would refuse, by source,
// destination (after DNAT), protocol and the destination's port; 0 for ICMP. A full set takes no
// more.
constexpr std::string_view kRefusedFlows = "refused_flows";
constexpr std::string_view kAuditedFlows = "audited_flows";
constexpr std::uint32_t kMaxFlows = 4096;
constexpr std::uint64_t kFlowTimeoutMs = 3'600'000;  // after the last packet

// The mark of connections in conntrack that `policy apply -cut` has ended: a mark outlasts what the
// server sends, which by itself would begin the connection anew, the other way round.
constexpr std::uint32_t kCutMark = 0x6e626375;

// The base chains, which judge new connections alone, and the maps.
extern const firewall::Contributor kPolicy;

// In table bridge nomad-bridge: what the ports of judged allocations let through.
extern const firewall::Contributor kPolicyPorts;
// Its set of ports: names of host veths.
constexpr const char* kJudgedPorts = "judged";

// What sets made for policies look like, under the noun that their name begins with.
extern const firewall::Contributor kPolicySetShapes;

}  // namespace nomad_bridge::rules
