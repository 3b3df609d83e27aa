#include "plugin/checking.h"

#include "base/error.h"
#include "base/text.h"
#include "plugin/failures.h"

namespace nomad_bridge {

const Result& RequirePrevResult(const Config& config) {
  if (!config.prev_result) {
    throw Error(
        Code::kInvalidConfig,
        "prevResult is missing",
        "this plugin goes on from the result of ADD, or of the plugin before it in the list: "
        "it must be given");
  }
  return *config.prev_result;
}

Record RequireRecord(std::optional<Record> record, const Attachment& who, const Netns& guest) {
  if (!record) {
    throw Error(Code::kChanged,
                Cat("container ",
                    Quoted(who.container_id),
                    " has no attachment ",
                    Quoted(who.ifname),
                    " to network ",
                    Quoted(who.network)),
                "nomad-bridge has no record of it: it was never added, removed, or added before "
                "the last boot");
  }
  if (record->netns != guest.id()) {
    throw Error(
        Code::kChanged,
        Cat("container ", Quoted(who.container_id), " is in another network namespace than at ADD"),
        Cat("it was added in ",
            Quoted(record->netns_path),
            ", inode ",
            record->netns.inode,
            ", and now is in ",
            guest.id().inode));
  }
  return *std::move(record);
}

void ThrowIfChanged(const Attachment& who, const std::vector<std::string>& faults) {
  if (!faults.empty()) {
    throw Error(
        Code::kChanged,
        Cat("the network of container ", Quoted(who.container_id), " is not as ADD left it"),
        Failures::Join(faults));
  }
}

}  // namespace nomad_bridge
