// Which policies count for an allocation, by their names, for people.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/fix.h"
#include "base/mismatch.h"
#include "plugin/cli/command.h"
#include "plugin/cni/labels.h"
#include "plugin/policy/program.h"
#include "plugin/state/host.h"

namespace nomad_bridge::cli {

// "namespaces, api (audit)"; "-" if none is about it.
struct Reach {
  std::string in;   // what reaches it
  std::string out;  // what it reaches
};

// DIR or -dir as typed, or /etc/nomad-bridge/policy.d. Throws CannotTell if what was typed is not
// there: no directory is no policies, and a mistyped one would take all of them away.
[[nodiscard]] std::string DirectoryOf(const Arguments& arguments);

// Those of a directory; remarks are on stderr.
[[nodiscard]] policy::Policies ReadRemarking(const std::string& directory);

// What the policies in force do not see (attachment/apply_policies.h), and what to type against
// it, on stderr.
void RemarkOnUnseen(const std::vector<Mismatch>& unseen);

// The files that were applied last, or those of /etc if none were, as they are now.
struct FilesNow {
  std::string directory;
  std::optional<bool> differ;  // from what is in force; nullopt: they are unreadable, or wrong
  std::string text;            // what is the matter; empty if nothing is
  Fix fix;
};
[[nodiscard]] FilesNow CompareFiles(state::Host& host);

[[nodiscard]] Reach ReachOf(const policy::Program& program, const cni::Workload& workload);

}  // namespace nomad_bridge::cli
