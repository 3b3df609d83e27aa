// Changing a ruleset that other programs may change at the same time: plan on one generation, commit
// on that, and plan anew if it has passed.
//
// Errors  kTryAgain if others keep changing the ruleset for kTimeout; kKernel, with the label of the
//         first message that the kernel refused.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/error.h"
#include "netlink/nft/batch.h"
#include "netlink/nft/socket.h"

namespace nomad_bridge::nft {

// Calls `attempt` with the ruleset's generation until it returns true. `first` is the generation, if
// the caller has just asked for it. `what` completes "cannot ...".
void RetryOnGenerations(Socket& socket,
                        const std::string& what,
                        std::optional<std::uint32_t> first,
                        const std::function<bool(std::uint32_t)>& attempt);

// The first refusal in `reply`, to `batch`, which must have one.
[[nodiscard]] Error ErrorOf(const Batch& batch, const CommitReply& reply);

// Commits `batch`, or nothing if it is empty. False if `generation` has passed.
[[nodiscard]] bool TryCommit(Socket& socket, const Batch& batch, std::uint32_t generation);

}  // namespace nomad_bridge::nft
