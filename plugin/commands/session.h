// Parts that several commands share: the session of an ADD or CHECK for an interface or its rules;
// the steps of every DEL; and, for every CHECK, a record to compare with, and one error that names
// every finding.
//
// Errors   kInvalidConfig without a prevResult if the command needs it; kChanged for findings.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/finding.h"
#include "base/undo.h"
#include "plugin/cni/error_list.h"
#include "plugin/config/config.h"
#include "plugin/link/container.h"
#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::commands {

struct Session {
  const cni::Request& request;
  const cni::PluginType& type;
  config::Config config;
  state::Host host;
  link::Container container;
  FileLock own;  // the attachment's

  // Returns the mode of a CHECK.
  [[nodiscard]] Mode mode() const { return config.repair_on_check ? Mode::kRepair : Mode::kLook; }
};

// Opens the session. Checks the config first, so a bad config costs nothing. Logs nothing while it
// holds the lock. prevResult is ADD's result, or the result of the plugin before us in the list.
// Only an ADD that makes the link needs no prevResult.
[[nodiscard]] Session OpenSession(const cni::Request& request, const cni::PluginType& type);

// Returns the value of `record`. Throws kChanged if there is no record of the session's attachment,
// or if the record has another namespace than its container.
[[nodiscard]] state::Record RequireRecord(const Session& session,
                                          std::optional<state::Record> record);

// Names on stderr what policies cannot judge of `record`, whose ADD is at work, although a policy
// selects it. Throws kConflict instead if policies are required on this node.
void RequireJudgedTraffic(Session& session, const state::Record& record);

// The state of a DEL. It continues after errors, and reports them together.
struct Removal {
  state::Host host;
  FileLock own;  // the attachment's lock
  cni::ErrorList failures = {};
  std::optional<state::Record> record = {};
  // nullopt if the namespace is gone. What we made can be removed without it.
  std::optional<link::Container> container = {};
};

// Begins a DEL. Throws if CNI_NETNS is the host's own namespace.
[[nodiscard]] Removal BeginRemoval(const cni::Request& request);

// Makes way for a new ADD: removes the rules and the link that an earlier ADD of `id` left, in any
// namespace. The leases and the record stay, so that the new ADD gets the same addresses; `undo`
// gets a step that removes them. Addresses of another IPAM plugin are released. If there is no
// record (`earlier`), removes the leases in `data_dir`, too. Throws kIncomplete, or an error of the
// kernel.
void RemoveEarlier(state::Host& host,
                   const AttachmentId& id,
                   const std::optional<state::Record>& earlier,
                   const std::string& data_dir,
                   Undo& undo);

// Prints ADD's answer. Releases `own`, the attachment's lock, before that, because the reader of
// stdout may not read. If printing fails, calls `undo`, unless another command has changed the
// record `made` in between.
void Answer(state::Host& host,
            FileLock own,
            const state::Record& made,
            const std::function<void()>& undo,
            const std::function<void()>& print);

// Returns the findings on the host's side that CHECK cannot repair, or must not repair because of
// the config.
[[nodiscard]] std::vector<std::string> FindingsLeft(Session& session, const state::Record& record);

// Throws kChanged with all of `findings`, if there are any.
void ThrowIfChanged(const AttachmentId& id, const std::vector<std::string>& findings);

}  // namespace nomad_bridge::commands
