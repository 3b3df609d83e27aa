// Finds out whether an attachment is alive, and which attachments are alive.
//
// Alive    An attachment is alive while its network namespace exists. Any of these shows that the
//          namespace exists:
//          - The peer of the attachment's host veth, or of a host veth that another plugin created,
//            is in a namespace that the kernel still has.
//          - The recorded path leads to the recorded namespace.
//          - The record names no host veth, neither ours nor of another plugin, and a process or a
//            mount holds the recorded namespace.
//          The namespace's cookie identifies it, because the kernel soon gives its device and inode
//          to another namespace. Before Linux 5.14 there are no cookies; then only our host veth
//          shows whether an attachment with a link of ours is alive.
// Locks    This code takes no locks. Before a stale attachment is removed, its lock is tried: an
//          attachment that a command works on counts as alive.
// Errors   kKernel, kIo.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/attachment_id.h"
#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::link {

[[nodiscard]] bool IsAlive(state::Host& host, const state::Record& record);
// Like IsAlive() above, for one of many attachments. `veth` is its host veth if a list of links had
// it. The kernel deletes a veth together with the namespace of its peer, so a listed veth proves
// that the attachment is alive. Without it, asks the kernel.
[[nodiscard]] bool IsAlive(state::Host& host,
                           const state::Record& record,
                           const std::optional<rtnl::Link>& veth);

// Finds the addresses that containers have, whatever plugin or program assigned them. An address
// counts as held in any of these cases:
//  - An interface in another namespace has it, and the other end of this veth, macvlan or the like
//    is on the host. Only root can make such an interface. Other interfaces prove nothing: every
//    local user can make a namespace, and give its loopback any address.
//  - The node has a neighbour entry for it, and the bridge's FDB still has the neighbour's MAC
//    behind a port without a record. A virtual machine is found this way.
//  - The node has a neighbour entry for it that is permanent, or that is on a link without an FDB.
// A container with a record has the addresses in its record and no others, whatever it claims.
// Reads the kernel once, when the addresses are first needed. Misses a namespace that is not
// visible here, in /proc or as a mount, and to which the node has sent nothing.
class HeldAddresses {
 public:
  explicit HeldAddresses(state::Host& host) : host_(host) {}

  [[nodiscard]] bool Contains(const Ip& address) { return All().contains(address); }
  [[nodiscard]] const std::set<Ip>& All();

 private:
  void AddInNamespaces();
  void AddIn(const netlink::Netns& netns);
  void AddNeighbours();
  // Returns the record whose host veth has this index on the host.
  const std::optional<state::Record>& RecordOf(int host_end);

  state::Host& host_;
  std::map<std::string, AttachmentId> recorded_;         // by the name of the host veth
  std::map<int, std::optional<state::Record>> records_;  // those asked for, by the veth's index
  std::optional<std::set<Ip>> addresses_;
};

// The records of all live attachments but one. They are read when first needed, and then kept.
// Create a new object for each lock that it is used under: other commands write records in between.
class LiveAttachments {
 public:
  LiveAttachments(state::Host& host, AttachmentId except)
      : host_(host), except_(std::move(except)) {}

  [[nodiscard]] const std::vector<state::Record>& records();

 private:
  state::Host& host_;
  AttachmentId except_;
  std::optional<std::vector<state::Record>> records_;
};

}  // namespace nomad_bridge::link
