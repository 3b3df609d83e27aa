#include "base/text.h"
#include "plugin/addresses.h"
#include "plugin/failures.h"
#include "plugin/guest.h"
#include "plugin/host.h"
#include "plugin/link.h"
#include "plugin/teardown.h"
#include "plugin/verbs.h"

namespace nomad_bridge {

void DelInterface(const Request& request, const Name& name) {
  Host host = Host::Open();
  // Not needed, and perhaps gone; but the host's own is refused.
  static_cast<void>(FindGuest(request, host));
  const RangeLock mine = host.records.Lock(request.who);

  Failures failures;
  if (const std::optional<Record> record = host.records.Find(request.who)) {
    failures.Add(TearDown(host, *record));
  } else {
    const Whereabouts whereabouts = FindWhereabouts(request.config, name.defaults);
    failures.Add(TearDownUnrecorded(host, request.who, whereabouts.data_dir));
  }
  failures.ThrowIfAny(Cat("container ",
                          Quoted(request.who.container_id),
                          " still has parts of its network ",
                          Quoted(request.who.network)));
}

}  // namespace nomad_bridge
