// Whether an attachment is alive, and which ones are.
//
// Alive    An attachment is, as long as its namespace is: a process or a mount still holds the one
//          to which the peer of its host veth, or of a foreign plugin's, belongs, or, where no such
//          end is known, the recorded one; or the recorded path still leads to the recorded
//          namespace. That is told by its cookie: device and inode are soon another's. Before
//          Linux 5.14 there is none, and our host veth alone tells.
// Locks    None are taken. Before a stale attachment is reclaimed its lock is tried: one that a
//          command works on counts as alive.
// Errors   kKernel, kIo.
#pragma once

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
// The same where many are looked at: `veth` is its host veth, if that was among listed links. A
// veth goes with the namespace of its other end, so one that is there tells; else the kernel is
// asked.
[[nodiscard]] bool IsAlive(state::Host& host,
                           const state::Record& record,
                           const std::optional<rtnl::Link>& veth);

// What addresses containers have, made by any plugin and in any way: a namespace that has a
// leased address may be that of the lease's owner. So may what answered for it last and is behind a
// bridge's port still, such as a virtual machine, or is on a link without an FDB. Looked for once,
// when it is first asked for. Namespaces that nothing shows here, in /proc or as a mount, and that
// nothing was sent to, are left out.
class HeldAddresses {
 public:
  explicit HeldAddresses(state::Host& host) : host_(host) {}

  [[nodiscard]] bool Contains(const Ip& address) { return All().contains(address); }
  [[nodiscard]] const std::set<Ip>& All();

 private:
  void AddInNamespaces();
  void AddNeighbours();

  state::Host& host_;
  std::optional<std::set<Ip>> addresses_;
};

// The records of all live attachments but one, read when they are first needed and then kept. To be
// made anew for each lock they are used under: other commands write records meanwhile.
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
