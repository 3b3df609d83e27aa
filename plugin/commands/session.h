// What ADD and CHECK work with when they are about an interface or rules for one, what every DEL
// does, and what every CHECK needs: something to compare with, and one error that names every
// mismatch.
//
// Errors   kInvalidConfig without a prevResult where one is needed; kChanged for mismatches.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/mismatch.h"
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

  // Of a CHECK.
  [[nodiscard]] Mode mode() const { return config.repair_on_check ? Mode::kRepair : Mode::kLook; }
};

// A config that is refused costs nothing, and nothing is logged while the lock is held. prevResult
// is ADD's result, or that of the plugin before us in the list; only an ADD that makes the link
// needs none.
[[nodiscard]] Session OpenSession(const cni::Request& request, const cni::PluginType& type);

// The value of `record`. Throws kChanged if there is none for the session's attachment, or one in
// another namespace than its container's.
[[nodiscard]] state::Record RequireRecord(const Session& session,
                                          std::optional<state::Record> record);

// What a DEL works with: it goes on past errors, and reports them together.
struct Removal {
  state::Host host;
  FileLock own;  // the attachment's
  cni::ErrorList failures = {};
  std::optional<state::Record> record = {};
  // May be gone, and is not needed for what we made.
  std::optional<link::Container> container = {};
};

// A DEL in the host's own namespace is refused.
[[nodiscard]] Removal BeginRemoval(const cni::Request& request);

// Prints ADD's answer without the attachment's lock, which is `own`: its reader may not read.
// If it cannot be printed, what `made` has beyond `rest` is removed, unless another command has
// changed that since.
void Answer(state::Host& host,
            FileLock own,
            const state::Record& made,
            const state::Record& rest,
            const std::function<void()>& print);

// What CHECK cannot repair of the host's side, or, if the config forbids it, may not.
[[nodiscard]] std::vector<std::string> MismatchesLeft(Session& session,
                                                      const state::Record& record);

// Throws kChanged with all of `mismatches`, if there are any.
void ThrowIfChanged(const AttachmentId& id, const std::vector<std::string>& mismatches);

}  // namespace nomad_bridge::commands
