#include "base/text.h"
#include "plugin/addresses.h"
#include "plugin/failures.h"
#include "plugin/guest.h"
#include "plugin/host.h"
#include "plugin/reference.h"
#include "plugin/teardown.h"
#include "plugin/verbs.h"

namespace nomad_bridge {

namespace {

// Of an attachment whose link is ours, what others may have made: the reference's firewall and
// portmap, behind our bridge.
Parts RulesOfStrangers(const Record& record) {
  Parts parts;
  for (const Part part : {Part::kForward, Part::kPorts}) {
    if (!record.Has(part)) {
      parts.insert(part);
    }
  }
  return parts;
}

}  // namespace

void DelInterface(const Request& request, const Name& name) {
  Host host = Host::Open();
  // Perhaps gone, and not needed for what we made; but the host's own is refused.
  std::optional<Guest> guest = FindGuest(request, host);
  const RangeLock mine = host.records.Lock(request.who);
  const Whereabouts whereabouts = FindWhereabouts(request.config, name.defaults);
  const std::optional<Giver> giver = FindGiver(request, whereabouts.ipam_type);

  Failures failures;
  std::vector<Ip> addresses;
  bool is_ours = false;  // a record may also be of rules alone, for a link that a stranger has made
  if (std::optional<Record> record = host.records.Find(request.who)) {
    if (record->giver && giver) {
      record->giver = giver;  // it gets what the runtime says today
    }
    addresses = AddressesOnly(record->addresses);
    failures.Add(TearDown(host, *record));
    is_ours = record->Has(Part::kLink);
    if (is_ours && record->leaving == Leaving::kNot) {
      failures.Try("the reference plugins' rules", [&] {
        RemovePerhapsReferenceRulesOf(host, request.who, addresses, RulesOfStrangers(*record));
      });
    }
  }
  if (!is_ours) {
    failures.Add(TearDownUnrecorded(host, request.who, whereabouts.data_dir, addresses));
    if (guest) {
      failures.Try("the reference plugin's link",
                   [&] { EnsureReferenceLinkGone(host, *guest, request, whereabouts.bridge); });
    }
    failures.Try("the addresses", [&] {
      ReleaseAddresses({.who = request.who, .netns_path = request.netns_path, .giver = giver});
    });
  }
  failures.ThrowIfAny(Cat("container ",
                          Quoted(request.who.container_id),
                          " still has parts of its network ",
                          Quoted(request.who.network)));
}

}  // namespace nomad_bridge
