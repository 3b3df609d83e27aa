#include "plugin/commands/check_errors.h"

#include "base/error.h"
#include "base/text.h"
#include "plugin/attachment/reconcile.h"
#include "plugin/cni/error_list.h"

namespace nomad_bridge::commands {

void RequirePrevResult(const config::Config& config) {
  if (!config.prev_result) {
    throw Error(Code::kInvalidConfig,
                "prevResult is missing",
                "it must hold the result of ADD, or of the plugin before this one in the list");
  }
}

state::Record RequireRecord(std::optional<state::Record> record,
                            const AttachmentId& id,
                            const netlink::NetnsId& container) {
  if (!record || !record->IsAny(state::Phase::kLive)) {
    throw Error(Code::kChanged,
                Format("container '{}' has no attachment '{}' to network '{}'",
                       id.container_id,
                       id.ifname,
                       id.network),
                record ? "its ADD or DEL was killed, or is still at work"
                       : "nomad-bridge has no record of it: it was never added, removed, or added "
                         "before the last boot");
  }
  if (record->netns != container) {
    throw Error(
        Code::kChanged,
        Format("container '{}' is in another network namespace than at ADD", id.container_id),
        Format("it was added in '{}', inode {}, and now is in {}",
               record->netns_path,
               record->netns.inode,
               container.inode));
  }
  return *std::move(record);
}

std::vector<std::string> MismatchesLeft(state::Host& host,
                                        const config::Config& config,
                                        const state::Record& record) {
  const attachment::Scope scope = {.extent = attachment::Scope::Extent::kOne, .record = &record};
  return attachment::Reconcile(host, scope, config.repair_on_check ? Mode::kRepair : Mode::kLook)
      .mismatches.TextsLeft();
}

void ThrowIfChanged(const AttachmentId& id, const std::vector<std::string>& mismatches) {
  if (!mismatches.empty()) {
    throw Error(Code::kChanged,
                Format("the network of container '{}' is not as ADD left it", id.container_id),
                cni::ErrorList::Join(mismatches));
  }
}

}  // namespace nomad_bridge::commands
