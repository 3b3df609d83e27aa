// Decides which packets policies judge. Its base chains lead from an allocation's address to the
// chain of its policies (policy_tables.h).
//
// Source  docs/inside/rules.md
#pragma once

#include <cstdint>
#include <string_view>

#include "firewall/contributor.h"

namespace nomad_bridge::rules {

// Names of maps and sets, without the digit of their family. The first two maps lead from an
// address to the chain that judges what reaches it, and to the chain that judges what it sends. The
// other two are for packets that are judged as answers: source and destination are exchanged.
constexpr std::string_view kPolicyIn = "in";
constexpr std::string_view kPolicyOut = "out";
constexpr std::string_view kAnswersIn = "in_answers";
constexpr std::string_view kAnswersOut = "out_answers";
// The first set has the addresses of all allocations that are here and that policies know,
// whichever parts they have. The second has pairs of a bridge that we made with itself.
constexpr std::string_view kHere = "here";
constexpr const char* kSameBridge = "same_bridge";
// The first set has the addresses to or from which some policy refuses something. The second has
// each address of an allocation with each interface by which its packets come in.
constexpr std::string_view kJudged = "judged";
constexpr std::string_view kSourceInterfaces = "comes_by";
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
constexpr const char* kRecordAndRefuse = "refuse_noted";
constexpr const char* kRecordAndDrop = "drop_noted";
constexpr const char* kRecordAudited = "note_audited";

// Sets of flows: those that were refused, and those that audited policies would refuse. The key is
// source, destination (after DNAT), protocol and destination port; 0 for ICMP. A full set takes no
// more.
constexpr std::string_view kRefusedFlows = "refused_flows";
constexpr std::string_view kAuditedFlows = "audited_flows";
constexpr std::uint32_t kMaxFlows = 4096;
constexpr std::uint64_t kFlowTimeoutMs = 3'600'000;  // after the last packet

// The priority (meta priority) of answers that go from a bridge of ours to an address of no
// allocation. Table bridge lets them reach an allocation that has added the address. Queues treat
// it like no priority, and a veth removes it.
constexpr std::uint32_t kAnswerPriority = 0x6e626120;

// The set of the connections that `policy apply -cut` has ended, by conntrack's id. If conntrack
// forgot the connection instead, the server's next packet would begin a new one, from the server to
// the client. Each packet renews the element. Conntrack keeps an idle connection for five days.
constexpr const char* kCut = "cut";
constexpr std::uint32_t kMaxCut = 65536;
constexpr std::uint64_t kCutTimeoutMs = 6ULL * 24 * 3'600'000;

// The priority of the base chains, at the hooks forward and input: before our chain forward.
constexpr std::int32_t kAdmissionPriority = -2;

// The base chains, which judge only new connections, and the maps.
extern const firewall::Contributor kPolicy;

// The shapes of sets made for policies, by the prefix of their names.
extern const firewall::Contributor kPolicySetShapes;

}  // namespace nomad_bridge::rules
