#include <algorithm>
#include <set>

#include "base/text.h"
#include "ipam/store.h"
#include "plugin/failures.h"
#include "plugin/host.h"
#include "plugin/json.h"
#include "plugin/living.h"
#include "plugin/rules.h"
#include "plugin/teardown.h"
#include "plugin/verbs.h"

namespace nomad_bridge {
namespace {

std::set<Attachment> ParseAttachments(const std::string& network, const JsonView& list) {
  std::set<Attachment> attachments;
  if (list.value().is_null()) {  // Go writes an empty list so
    return attachments;
  }
  for (const JsonView& entry : list.Elements()) {
    const std::optional<JsonView> id = entry.Find("containerID");
    const std::optional<JsonView> ifname = entry.Find("ifname");
    if (!id || !ifname) {
      throw entry.Wrong("an object with 'containerID' and 'ifname'");
    }
    attachments.insert({network, id->String(), ifname->String()});
  }
  return attachments;
}

// The attachments to keep; nullopt if the request names none at all, which is not the same as an
// empty list.
std::optional<std::set<Attachment>> FindValid(const Request& request) {
  for (const char* const key :
       {"cni.dev/valid-attachments", "cni.dev/attachments"}) {  // the latter: libcni 1.2
    // Not JsonView::Find, to which null is the same as nothing.
    for (const auto& [present, value] : request.config.items()) {
      if (Lower(present) == key) {
        return ParseAttachments(request.who.network, JsonView(value, key));
      }
    }
  }
  return std::nullopt;
}

void RemoveRecorded(Host& host, const Attachment& who, Failures& failures) {
  const RangeLock theirs = host.records.Lock(who);
  if (const std::optional<Record> record = host.records.Find(who)) {
    failures.Add(TearDown(host, *record));
  } else {
    host.records.EnsureVoidGone(who);
  }
}

// Who holds leases of the network, whoever wrote them, and is not among `valid`.
std::set<Attachment> FindInvalidHolders(const std::string& network,
                                        const std::string& data_dir,
                                        const std::set<Attachment>& valid) {
  std::set<Attachment> holders;
  if (const std::optional<ipam::Store> store = ipam::Store::Find(data_dir, network)) {
    for (const ipam::Lease& lease : store->Leases()) {
      const bool is_valid = std::any_of(valid.begin(), valid.end(), [&](const Attachment& who) {
        return lease.holder.Covers({who.container_id, who.ifname});
      });
      if (!is_valid) {
        holders.insert({network, lease.holder.container_id, lease.holder.ifname});
      }
    }
  }
  return holders;
}

void RemoveUnrecorded(Host& host,
                      const Attachment& who,
                      const std::string& data_dir,
                      Failures& failures) {
  const RangeLock theirs = host.records.Lock(who);
  if (!host.records.Find(who)) {
    failures.Add(TearDownUnrecorded(host, who, data_dir));
  }
}

// Our ports of the bridge that neither a valid attachment nor any record explains: their records
// were lost. Records are read last, here and below: an ADD writes its record before anything else.
void RemoveStrayLinks(Host& host,
                      const Request& request,
                      const std::string& bridge_name,
                      const std::set<Attachment>& valid) {
  const std::optional<Link> bridge = host.net.FindLink(bridge_name);
  if (!bridge) {
    return;
  }
  const std::vector<Rtnl::Port> ports = host.net.Ports(bridge->index);
  std::set<std::string> explained;
  for (const Attachment& who : host.records.List("")) {
    explained.insert(HostVethName(who));
  }
  for (const Attachment& who : valid) {
    explained.insert(HostVethName(who));
  }
  for (const Rtnl::Port& port : ports) {
    const std::optional<Link> link =
        explained.contains(port.name) ? std::nullopt : host.net.FindLink(port.index);
    if (link && link->alias.starts_with(Cat("nomad-bridge net=", request.who.network, " id="))) {
      host.net.EnsureLinkGone(port.name);
    }
  }
}

// Elements whose owner has neither a record nor a link.
void RemoveStrayElements(Host& host) {
  std::vector<NftElement> strays;
  std::vector<NftElement> present = firewall::OwnedElements(host.nft);
  std::set<std::string> owners;
  for (const Attachment& who : host.records.List("")) {
    owners.insert(HostVethName(who));
  }
  for (NftElement& element : present) {
    const std::string owner(element.owner());
    if (!owners.contains(owner) && !host.net.FindLink(owner)) {
      strays.push_back(std::move(element));
    }
  }
  WithdrawRules(host, strays);
}

}  // namespace

// An attachment goes whole, whichever of its names is asked: nobody else is left to ask for it.
void Gc(const Request& request, const Name& name) {
  const std::optional<std::set<Attachment>> valid = FindValid(request);
  const Whereabouts whereabouts = FindWhereabouts(request.config, name.defaults);
  Host host = Host::Open();
  if (!valid) {
    BuryTheDead(host, request.who.network, whereabouts.data_dir);
    return;
  }

  Failures failures;
  if (const std::optional<Giver> giver =
          name.Does(Part::kAddress) ? FindGiver(request, whereabouts.ipam_type) : std::nullopt) {
    failures.Try("addresses", [&] { Ask(*giver, Verb::kGc, request.who, request.netns_path); });
  }
  for (const Attachment& who : host.records.List(request.who.network)) {
    if (!valid->contains(who)) {
      failures.Try(Cat("container ", Quoted(who.container_id)),
                   [&] { RemoveRecorded(host, who, failures); });
    }
  }
  if (name.Does(Part::kAddress)) {
    for (const Attachment& who :
         FindInvalidHolders(request.who.network, whereabouts.data_dir, *valid)) {
      failures.Try(Cat("container ", Quoted(who.container_id)),
                   [&] { RemoveUnrecorded(host, who, whereabouts.data_dir, failures); });
    }
  }
  if (name.Does(Part::kLink)) {
    failures.Try("stray links",
                 [&] { RemoveStrayLinks(host, request, whereabouts.bridge, *valid); });
  }
  if (name.DoesRules()) {
    failures.Try("stray rules", [&] { RemoveStrayElements(host); });
  }
  failures.ThrowIfAny(Cat("network ",
                          Quoted(request.who.network),
                          " still has parts of attachments that are not valid"));
}

}  // namespace nomad_bridge
