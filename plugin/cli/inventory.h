// What runs on this node: every record, joined with one dump of the links.
//
// States   ok         alive, its host veth is there, up, and a port of its bridge
//          unplugged  alive, but its host veth is not
//          making     an ADD is at work, or was killed
//          leaving    a DEL is at work, or was killed
//          dead       its namespace is gone
//          unrecorded its host veth is there, its record is not
//          unreadable its record is damaged
//          rules-wrong    ok, but rules that it needs are not in the kernel as they should be; only
//                         where CompareRules() was asked
//          rules-unknown  ok, but the rules cannot be read
//          ?          not root: only the alias of its host veth can be read
// Root     is needed for records and leases, and for whether a namespace is alive. Without it
//          attachments come from the link aliases, with what those hold.
// Cost     one dump of links, a file and a question to the kernel per attachment, a listing of each
//          directory of leases
// Locks    none. A record that is written meanwhile is seen as before or after.
// Errors   kKernel. A record that cannot be read is an entry, not an error.
#pragma once

#include <array>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/attachment_id.h"
#include "netlink/rtnl/rtnl.h"
#include "plugin/cni/labels.h"
#include "plugin/state/host.h"
#include "plugin/state/record.h"

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
  kUnknown
};

constexpr std::array kStateNames = {"ok",
                                    "unplugged",
                                    "making",
                                    "leaving",
                                    "dead",
                                    "unrecorded",
                                    "unreadable",
                                    "rules-wrong",
                                    "rules-unknown",
                                    "?"};

[[nodiscard]] constexpr std::string_view Text(State state) {
  return kStateNames.at(static_cast<std::size_t>(state));
}

struct Attachment {
  AttachmentId id;
  State state = State::kUnknown;
  std::optional<state::Record> record;
  std::string path;     // of the record; empty if there is none
  std::string problem;  // why the record could not be read
  cni::ShortLabels labels;
  std::string host_veth;           // the derived name; empty if the link is another plugin's
  std::optional<rtnl::Link> link;  // our host veth

  [[nodiscard]] bool IsRecordLost() const {
    return state == State::kUnrecorded || state == State::kUnreadable;
  }
  // The allocation's id, or the container's.
  [[nodiscard]] const std::string& Allocation() const;
  // Empty if it has none.
  [[nodiscard]] const std::string& Label(std::string_view name) const;
};

// How much is used of something limited.
struct Usage {
  std::uint64_t used = 0;
  std::uint64_t total = 0;

  [[nodiscard]] std::uint64_t free() const { return used < total ? total - used : 0; }
};

struct Network {
  std::string name;
  std::set<std::string> bridges;
  // Of the range set that will be full first; nullopt if no record has ranges (another IPAM plugin,
  // an earlier release), or we are not root.
  std::optional<Usage> addresses;
  std::optional<Usage> ports;  // of the fullest bridge, which others may use, too
};

struct Inventory {
  std::vector<Attachment> attachments;  // by namespace, job, group, allocation
  std::vector<Network> networks;        // those with an attachment, by name
  std::vector<rtnl::Link> links;        // all of the node
  bool is_complete = true;              // false: not root
};

[[nodiscard]] Inventory TakeInventory(state::Host& host);

// Changes the state of attachments that are ok except for their rules. One comparison for all, as a
// reconcile makes it, under the rules' lock. Says on stderr why if the rules cannot be read.
void CompareRules(state::Host& host, Inventory& inventory);

// Returns the bridge of its record, or the one that its link is a port of; empty if there is none.
[[nodiscard]] std::string BridgeOf(const Attachment& attachment, const Inventory& inventory);

// How an attachment gets its lost record again.
constexpr const char* kLostRecordAdvice =
    "CHECK makes it again (Nomad's when its agent is restarted), or a new allocation";

// On stderr: which records cannot be read, and what is missing without root.
void RemarkOn(state::Host& host, const Inventory& inventory);

}  // namespace nomad_bridge::cli
