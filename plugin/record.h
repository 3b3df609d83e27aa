// What we intend and what we did, per attachment: all that DEL, GC, takeover and repair need.
//
// Shape   /run/nomad-bridge/<network>/<container>@<ifname>.json, one JSON object, written whole
//         before the first change to the kernel and removed after the last. A container id of more
//         than 190 bytes is cut and followed by '~' and a hash.
//         /run/nomad-bridge/.generation   "<boot id> <device> <inode> <generation> <mark bit>", then
//                                         lines "shared <hash>", "gate <link>" and "note <text>":
//                                         see Trust
//         /run/nomad-bridge/.lock         locked by byte: 0 for the rules, the others for one
//                                         attachment each
//         (a network's name never begins with a dot)
// Lives   on tmpfs. A record of another boot is void: its namespaces and rules are gone. One of
//         another network namespace (a second "host" that shares /run) is somebody else's.
// Errors  kIo; a record that cannot be read counts as absent, with a line on stderr.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/attachment.h"
#include "base/file_lock.h"
#include "base/ip.h"
#include "firewall/members.h"
#include "firewall/ruleset.h"
#include "netlink/netns.h"
#include "plugin/giver.h"
#include "plugin/labels.h"
#include "plugin/parts.h"
#include "plugin/port.h"
#include "portmap/mapping.h"

namespace nomad_bridge {

// How far a list's DELs, one name after the other, have taken an attachment apart. Any ADD makes it
// kNot again.
enum class Leaving {
  kNot,
  kBegun,         // one name has taken its part back
  kWithoutRules,  // and another: nothing of it is in nf_tables any more, whatever its parts
};

struct Record {
  Attachment who;
  Parts parts;  // what of it we made, in one process or in several
  Labels labels;
  std::string netns_path;
  NetnsId netns;
  std::string bridge;  // that our host veth is a port of
  // The link by which the node and the attachments behind it reach each other: the bridge itself, or
  // the gateway of its VLAN. Also that of somebody else's bridge.
  std::string gate;
  std::vector<std::string> host_links;  // the same, its alone: a foreign plugin's host ends
  Port port;
  std::optional<Mac> mac;       // the guest's, if the config asked for one
  std::vector<Cidr> gateways;   // what the gate must have for this attachment
  std::vector<Cidr> addresses;  // the guest's
  std::string data_dir;         // where its leases are
  std::vector<Cidr> leases;     // those of the addresses that are leased there
  std::optional<Giver> giver;   // or who gave them
  Leaving leaving = Leaving::kNot;
  bool ip_masq = false;
  bool snat = false;
  bool masq_all = false;
  firewall::Policy policy;
  firewall::Ingress ingress = firewall::Ingress::kOpen;
  std::string firewalld_zone;  // for the gate, where firewalld runs
  std::vector<portmap::Mapping> ports;

  [[nodiscard]] bool Has(Part part) const { return parts.contains(part); }
  [[nodiscard]] bool HasIpv6() const;
  // What the guest's interface is made with: asked for, else derived from its first address.
  [[nodiscard]] Mac GuestMac() const;
};

// Everything that the parts of `record` have in our nf_tables table.
[[nodiscard]] std::vector<NftElement> ElementsOf(const Record& record);

class Records {
 public:
  // Those of this boot and of the host namespace `host`.
  explicit Records(const NetnsId& host);

  [[nodiscard]] std::optional<Record> Find(const Attachment& who) const;
  // Nothing if the namespace is not known: nobody could say later whether the attachment lives.
  void Write(const Record& record) const;
  void EnsureGone(const Attachment& who) const;
  // The same for a record that says nothing (any more): of another boot, or not to be read.
  void EnsureVoidGone(const Attachment& who) const;

  // Who has a record, from the folder's listing; `network` empty: in all networks.
  [[nodiscard]] std::vector<Attachment> List(const std::string& network) const;
  // The attachment whose elements and host veth go by `owner` (HostVethName).
  [[nodiscard]] std::optional<Record> FindOwner(std::string_view owner) const;

  // One command at a time per attachment.
  [[nodiscard]] RangeLock Lock(const Attachment& who) const;
  [[nodiscard]] std::optional<RangeLock> TryLock(const Attachment& who) const;
  // One command at a time in the rules: not for safety (the kernel sees to that), but so that many
  // do not make each other start again.
  [[nodiscard]] RangeLock LockRules() const;

  // Trust: what holds as long as the ruleset's generation is the one after our last change.
  struct Trust {
    std::uint32_t generation = 0;
    int accept_mark_bit = 0;
    std::vector<std::string> shared;  // hashes: what is in force (shared_rules.h)
    std::vector<std::string> gates;   // that other firewalls were told of (other_firewalls.h)
    std::vector<std::string> notes;   // what only the operator can help, one line each
  };
  [[nodiscard]] std::optional<Trust> FindTrust() const;
  void WriteTrust(const Trust& trust) const;

  // Where all of this lies.
  [[nodiscard]] static std::string Folder();

 private:
  [[nodiscard]] std::string PathOf(const Attachment& who) const;

  NetnsId host_;
  std::string boot_id_;
};

}  // namespace nomad_bridge
