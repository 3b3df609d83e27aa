#include "base/error.h"
#include "base/text.h"
#include "plugin/failures.h"
#include "plugin/guest.h"
#include "plugin/host.h"
#include "plugin/mend.h"
#include "plugin/verbs.h"

namespace nomad_bridge {
namespace {

Record RequireRecord(const Host& host, const Attachment& who, const Netns& guest_ns) {
  std::optional<Record> record = host.records.Find(who);
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
  if (record->netns != guest_ns.id()) {
    throw Error(
        Code::kChanged,
        Cat("container ", Quoted(who.container_id), " is in another network namespace than at ADD"),
        Cat("it was added in ",
            Quoted(record->netns_path),
            ", inode ",
            record->netns.inode,
            ", and now is in ",
            guest_ns.id().inode));
  }
  return *std::move(record);
}

}  // namespace

void Check(const Request& request, const Name& name) {
  const Config config = ParseConfig(request, name.defaults);
  if (!config.prev_result) {
    throw Error(Code::kInvalidConfig,
                "prevResult is missing",
                "CHECK compares with the result of ADD: it must be given");
  }
  Host host = Host::Open();
  const Netns guest_ns = OpenGuest(request, host);
  Rtnl guest = Rtnl::In(guest_ns);
  const RangeLock mine = host.records.Lock(request.who);
  const Record record = RequireRecord(host, request.who, guest_ns);

  std::vector<std::string> faults;
  if (config.repair_on_check) {
    MendHostSide(host, config.link, record);
  } else {
    faults = FaultsOfHostSide(host, record);
  }
  const std::vector<std::string> differences = Differences(guest, request, *config.prev_result);
  faults.insert(faults.end(), differences.begin(), differences.end());
  if (!faults.empty()) {
    throw Error(Code::kChanged,
                Cat("the network of container ",
                    Quoted(request.who.container_id),
                    " is not as ADD left it"),
                Failures::Join(faults));
  }
}

}  // namespace nomad_bridge
