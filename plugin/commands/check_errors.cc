#include "plugin/commands/check_errors.h"

#include "base/error.h"
#include "base/text.h"
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
                            const netlink::Netns& container) {
  if (!record) {
    throw Error(Code::kChanged,
                Cat("container ",
                    Quoted(id.container_id),
                    " has no attachment ",
                    Quoted(id.ifname),
                    " to network ",
                    Quoted(id.network)),
                "nomad-bridge has no record of it: it was never added, removed, or added before "
                "the last boot");
  }
  if (record->netns != container.id()) {
    throw Error(
        Code::kChanged,
        Cat("container ", Quoted(id.container_id), " is in another network namespace than at ADD"),
        Cat("it was added in ",
            Quoted(record->netns_path),
            ", inode ",
            record->netns.inode,
            ", and now is in ",
            container.id().inode));
  }
  return *std::move(record);
}

void ThrowIfChanged(const AttachmentId& id, const std::vector<std::string>& mismatches) {
  if (!mismatches.empty()) {
    throw Error(Code::kChanged,
                Cat("the network of container ", Quoted(id.container_id), " is not as ADD left it"),
                cni::ErrorList::Join(mismatches));
  }
}

}  // namespace nomad_bridge::commands
