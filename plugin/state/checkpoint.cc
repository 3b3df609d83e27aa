#include "plugin/state/checkpoint.h"

#include <exception>

#include "base/file.h"
#include "plugin/state/state_json.h"

namespace nomad_bridge::state {
namespace {

constexpr const char* kFile = "/run/nomad-bridge/.generation";

}  // namespace

std::optional<Checkpoint> CheckpointFile::Find() const {
  try {
    StoredCheckpoint stored = ParseCheckpoint(FindFile(kFile).value_or(""));
    return stored.origin == here_ ? std::optional(std::move(stored.checkpoint)) : std::nullopt;
  } catch (const std::exception&) {
    return std::nullopt;  // a damaged one is as good as none
  }
}

void CheckpointFile::Write(const Checkpoint& checkpoint) const {
  EnsureDirectory(kStateDirectory);
  // Whole or not at all; readers take no lock.
  ReplaceFile(kFile, FormatCheckpoint(checkpoint, here_));
}

}  // namespace nomad_bridge::state
