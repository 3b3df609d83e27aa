#include "plugin/rules/intact.h"

#include <optional>

#include "plugin/rules/converge.h"

namespace nomad_bridge::rules {

std::uint64_t HashOf(const std::vector<AttachmentId>& ids) {
  std::uint64_t hash = 0;
  for (const AttachmentId& id : ids) {
    hash ^= state::HashOf(id);
  }
  return hash;
}

bool IsNew(const state::Record& record) {
  return record.IsAny(state::Phase::kMaking) && !record.OnlyLive().HasRules();
}

void Toggle(state::Checkpoint& checkpoint, const AttachmentId& id) {
  if (checkpoint.intact) {
    *checkpoint.intact ^= state::HashOf(id);
  }
}

void NoteOtherElements(state::Host& host) {
  UpdateCheckpoint(host, [](state::Checkpoint& now) { now.intact.reset(); });
}

bool AreIntact(state::Host& host) {
  const std::optional<state::Checkpoint> checkpoint = FindCurrentCheckpoint(host);
  return checkpoint && checkpoint->intact;
}

bool AreIntactOfAll(state::Host& host) {
  const std::optional<state::Checkpoint> checkpoint = FindCurrentCheckpoint(host);
  return checkpoint && checkpoint->intact == HashOf(host.records.List(""));
}

}  // namespace nomad_bridge::rules
