// Decides which packets policies judge: base chains that lead from an allocation's address to the
// chain of its policies (policy_tables.h), and what the allocation's bridge port lets through at
// all.
//
// Source  docs/rules.md
#pragma once

#include <cstdint>
#include <string_view>

#include "firewall/contributor.h"

namespace nomad_bridge::rules {

// Names of maps and sets, without the digit of their family. Maps: from an address to the chain of
// what reaches it, and of what it sends; the same for packets that are judged as answers, with
// source and destination exchanged.
constexpr std::string_view kPolicyIn = "in";
constexpr std::string_view kPolicyOut = "out";
constexpr std::string_view kAnswersIn = "in_answers";
constexpr std::string_view kAnswersOut = "out_answers";
// Sets: addresses to or from which some policy refuses something; each allocation's addresses with
// the interfaces that its packets come in by.
constexpr std::string_view kJudged = "judged";
constexpr std::string_view kComesBy = "comes_by";
// Prefixes of the names of sets made for policies: the allocations that a selector selects, and a
// list of prefixes.
constexpr std::string_view kSelected = "sel";
constexpr std::string_view kPrefixes = "adr";

// The chain that new connections pass.
constexpr const char* kJudge = "judge";
// The chain that refuses a packet and informs the client.
constexpr const char* kRefuse = "refuse";
// Chains that note a new connection in a set of flows, and then refuse it, drop it, or let it go
// on.
constexpr const char* kRefuseNoted = "refuse_noted";
constexpr const char* kDropNoted = "drop_noted";
constexpr const char* kNoteAudited = "note_audited";

// Sets of flows: those that were refused, and those that audited policies would refuse. The key is
// source, destination (after DNAT), protocol and destination port; 0 for ICMP. A full set takes no
// more.
constexpr std::string_view kRefusedFlows = "refused_flows";
constexpr std::string_view kAuditedFlows = "audited_flows";
constexpr std::uint32_t kMaxFlows = 4096;
constexpr std::uint64_t kFlowTimeoutMs = 3'600'000;  // after the last packet

// The conntrack mark of connections that `policy apply -cut` has ended. Without the mark, the
// server's next packet would begin the connection anew, the other way round.
constexpr std::uint32_t kCutMark = 0x6e626375;

// The base chains, which judge only new connections, and the maps.
extern const firewall::Contributor kPolicy;

// In table bridge nomad-bridge: what the ports of judged allocations let through.
extern const firewall::Contributor kPolicyPorts;
// The set of these ports: names of host veths.
constexpr const char* kJudgedPorts = "judged";

// The shapes of sets made for policies, by the prefix of their names.
extern const firewall::Contributor kPolicySetShapes;

}  // namespace nomad_bridge::rules
