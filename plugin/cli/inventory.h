// The attachments of this node: all records, joined with one dump of the links.
//
// States   ok         alive, its host veth is there, up, and a port of its bridge
//          unplugged  alive, but its host veth is missing, down, or not on its bridge
//          making     an ADD is at work, or was killed
//          leaving    a DEL is at work, or was killed
//          dead       its namespace is gone
//          unrecorded its host veth is there, but it has no record
//          unreadable its record is damaged
//          rules-wrong    ok, but rules that it needs are missing or changed in the kernel; only
//                         CompareRules() finds this
//          rules-unknown  ok, but the rules cannot be read
//          reference  the reference plugins made it, and it runs; only AddReferenceMade() adds it
//          ?          not root: only the alias of its host veth can be read
// Root     is needed to read records and leases, and to see whether a namespace is alive. Without
//          root, attachments come from the link aliases, and have only the data in the aliases.
// Cost     one dump of links, and one listing of each directory of leases; for each attachment, one
//          file and one query to the kernel
// Locks    none. A record that is written meanwhile is read in its old or in its new state.
// Errors   kKernel. A record that cannot be read is no error: its attachment is listed.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/attachment_id.h"
#include "base/finding.h"
#include "base/names.h"
#include "netlink/rtnl/rtnl.h"
#include "plugin/cni/labels.h"
#include "plugin/state/host.h"
#include "plugin/state/record.h"
#include "plugin/takeover/running.h"

namespace nomad_bridge::cli {

enum class State {
  kOk,
  kUnplugged,
  kMaking,
  kLeaving,
  kDead,
  kUnrecorded,
  kUnreadable,
  kRulesWrong,
  kRulesUnknown,
  kReference,
  kUnknown
};

constexpr Names<State, 11> kStateNames = {{{State::kOk, "ok"},
                                           {State::kUnplugged, "unplugged"},
                                           {State::kMaking, "making"},
                                           {State::kLeaving, "leaving"},
                                           {State::kDead, "dead"},
                                           {State::kUnrecorded, "unrecorded"},
                                           {State::kUnreadable, "unreadable"},
                                           {State::kRulesWrong, "rules-wrong"},
                                           {State::kRulesUnknown, "rules-unknown"},
                                           {State::kReference, "reference"},
                                           {State::kUnknown, "?"}}};

[[nodiscard]] constexpr std::string_view Text(State state) {
  return NameOf(kStateNames, state);
}

// What a key of its network's config has made the rules drop (firewall/drops.h): "inbound has
// dropped 3 packets from 192.0.2.9, the last 2s ago". It is a warning while it goes on, later a
// note.
struct Dropped {
  std::string_view key;
  std::uint64_t packets = 0;
  std::uint64_t seconds_ago = 0;  // since the last packet
  Finding finding = {};
};

struct Attachment {
  AttachmentId id;
  State state = State::kUnknown;
  std::optional<state::Record> record;
  std::string path;     // of the record's file; empty without one
  std::string problem;  // why the record could not be read
  cni::ShortLabels labels;
  // The present name of our host veth, or the derived name if it is missing. Empty if the link is
  // another plugin's, or if there is neither a record nor a link.
  std::string host_veth;
  std::optional<rtnl::Link> link;                        // the host veth
  std::optional<takeover::RunningAttachment> reference;  // the reference plugins made it
  std::vector<Dropped> drops = {};                       // only AddDrops() finds them

  // Returns whether its addresses, ports and namespace are known: from the record or the kernel.
  [[nodiscard]] bool IsKnown() const { return record || reference; }
  // Return nothing if they are not known.
  [[nodiscard]] const std::vector<Cidr>& Addresses() const;
  [[nodiscard]] const std::vector<portmap::DnatEntry>& Ports() const;
  [[nodiscard]] bool IsRecordLost() const {
    return state == State::kUnrecorded || state == State::kUnreadable;
  }
  // If nobody holds the attachment's lock: returns that its ADD or DEL was killed; nullopt if not.
  [[nodiscard]] std::optional<Finding> FindKilled() const;
  // Returns the allocation's id, or the container's id if there is no such label.
  [[nodiscard]] const std::string& Allocation() const;
  // "'9d01c7e4' (web/api)": the allocation with its job and group
  [[nodiscard]] std::string Named() const;
  // Returns the label's value; empty if the attachment has no such label.
  [[nodiscard]] const std::string& Label(std::string_view name) const;
};

// How much of a limited resource is used.
struct Usage {
  std::uint64_t used = 0;
  std::uint64_t total = 0;

  [[nodiscard]] std::uint64_t free() const { return used < total ? total - used : 0; }
};

struct Network {
  std::string name;
  std::set<std::string> bridges;
  // Usage of the range set with the fewest free addresses. nullopt if no record has ranges (another
  // IPAM plugin, or an earlier release), or we are not root.
  std::optional<Usage> addresses;
  std::optional<Usage> ports;  // of its fullest bridge, which other networks may share
};

struct Inventory {
  std::vector<Attachment> attachments;  // sorted by namespace, job, group, allocation
  std::vector<Network> networks;        // networks with an attachment, sorted by name
  std::vector<rtnl::Link> links;        // all links of the node
  bool is_complete = true;              // false: not root
  bool has_drops = false;               // AddDrops() could read them
};

[[nodiscard]] Inventory TakeInventory(state::Host& host);

// Adds the attachments that the reference plugins made and that still run. Without root, sets only
// is_complete to false if there may be any.
void AddReferenceMade(state::Host& host, Inventory& inventory);

// Adds what our rules have dropped within the last hour, of packets from or to live attachments.
// Adds nothing if the rules cannot be read: CompareRules() says why.
void AddDrops(state::Host& host, Inventory& inventory);

// Compares the rules of all attachments with the kernel once, as a reconcile does, under the rules'
// lock. Changes kOk to kRulesWrong for attachments whose rules differ, and to kRulesUnknown for all
// if the rules cannot be read, and logs why.
void CompareRules(state::Host& host, Inventory& inventory);

// Returns the bridge in the attachment's record; without a record, the bridge of its host veth.
// Empty if there is none.
[[nodiscard]] std::string BridgeOf(const Attachment& attachment, const Inventory& inventory);

// Says how a new record replaces a lost one.
constexpr const char* kLostRecordAdvice =
    "CHECK writes it again (Nomad runs CHECK when its agent starts); or replace the allocation";

// Logs which records cannot be read, and which data is missing without root.
void RemarkOn(state::Host& host, const Inventory& inventory);

}  // namespace nomad_bridge::cli
