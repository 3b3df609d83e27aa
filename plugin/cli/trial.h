// The checks of `nomad-bridge test`: connections between throw-away containers, the node and the
// world, each of which must pass, or must not.
//
// Sent     Probes (causes/probe.h), which no service accepts, no policy counts, and which do not
//          leave the node. Only the target of -to gets a real connection.
// Waits    A connection that must pass is tried again for two seconds, unless a rule is seen to
//          drop it: a busy node may be slow.
// Errors   kKernel if a socket cannot be opened. What cannot be probed is a result.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/finding.h"
#include "base/names.h"
#include "netlink/core/netns.h"
#include "plugin/cli/target.h"
#include "plugin/state/host.h"

namespace nomad_bridge::cli {

struct TrialCheck {
  // kLeftOut: the config or the operator keeps it closed, or the node has no way for it.
  enum class Result { kOk, kFailed, kLeftOut, kUnknown };

  std::string_view id;           // "port.outside"; never changes
  std::optional<Family> family;  // nullopt: none, or either
  std::string what;              // "published port, from outside"
  Result result = Result::kOk;
  Finding finding = {};  // why it is not kOk
};

inline constexpr Names<TrialCheck::Result, 4> kTrialResultNames = {
    {{TrialCheck::Result::kOk, "ok"},
     {TrialCheck::Result::kFailed, "fail"},
     {TrialCheck::Result::kLeftOut, "left out"},
     {TrialCheck::Result::kUnknown, "unknown"}}};

// What is tried. The containers are in one network. The first one has a published port, if the
// network publishes any.
struct TrialSubjects {
  state::Record one;
  state::Record two;
  std::optional<state::Record> stranger;  // in another namespace of Nomad's; only under policies
  std::vector<Ip> name_servers;           // of `one`
  std::optional<Target> target;           // of -to
};

[[nodiscard]] std::vector<TrialCheck> RunTrial(state::Host& host, const TrialSubjects& subjects);

}  // namespace nomad_bridge::cli
