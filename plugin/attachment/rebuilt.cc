#include "plugin/attachment/rebuilt.h"

#include <algorithm>
#include <array>
#include <set>
#include <tuple>
#include <utility>

#include "base/list.h"
#include "base/text.h"
#include "firewall/static_rules.h"
#include "firewall/table.h"
#include "ipam/store.h"
#include "plugin/cni/plugin_type.h"
#include "plugin/link/bridge.h"
#include "plugin/link/container.h"
#include "plugin/link/host_veth.h"
#include "plugin/link/uplink.h"
#include "plugin/rules/elements.h"
#include "plugin/rules/policy_tables.h"
#include "plugin/state/kernel_names.h"
#include "portmap/rules.h"

namespace nomad_bridge::attachment {
namespace {

using cni::Part;

// The other end of a host veth, and a path to the namespace that it is in.
struct OtherEnd {
  std::string path;
  link::Inside inside;
};

std::optional<OtherEnd> FindOtherEnd(const AttachmentId& id, const rtnl::Link& host_veth) {
  std::optional<OtherEnd> found;
  netlink::ForEachNetns([&](const netlink::Netns& netns, const std::string& path) {
    const std::optional<rtnl::Link> link = rtnl::Socket::In(netns).FindLink(id.ifname);
    if (!link || link->kind != "veth" || link->peer != host_veth.index ||
        link->index != host_veth.peer) {
      return;
    }
    if (std::optional<link::Inside> inside = link::FindInside(netns, id.ifname)) {
      found = {.path = path, .inside = *std::move(inside)};
    }
  });
  return found;
}

// Where leases of this network may be: where those of others are, and in the usual place.
std::set<std::string> DataDirs(state::Host& host) {
  std::set<std::string> directories = {cni::TypeOf("nomad-bridge").defaults.data_dir,
                                       cni::TypeOf("host-local").defaults.data_dir};
  for (const AttachmentId& id : host.records.List("")) {
    if (const std::optional<state::Record> record = host.records.Find(id)) {
      directories.insert(record->ipam.data_dir);
    }
  }
  directories.erase("");
  return directories;
}

bool HasLeases(const std::string& directory,
               const AttachmentId& id,
               const std::vector<Cidr>& addresses) {
  const std::optional<ipam::Store> store = ipam::Store::OpenIfExists(directory, id.network);
  return store && std::ranges::all_of(addresses, [&](const Cidr& cidr) {
           const std::optional<ipam::LeaseOwner> owner = store->FindOwner(cidr.address);
           return owner && owner->Matches(ipam::OwnerOf(id));
         });
}

// Its addresses on the host's side: of the bridge, in the subnets of the container's.
std::vector<Cidr> GatewaysOf(state::Host& host,
                             const rtnl::Link& bridge,
                             const std::vector<Cidr>& addresses) {
  std::vector<Cidr> gateways = host.net.Addresses(bridge);
  std::erase_if(gateways, [&](const Cidr& gateway) {
    return std::ranges::none_of(addresses, [&](const Cidr& own) {
      return own.prefix_length == gateway.prefix_length && own.Network() == gateway.Network();
    });
  });
  return gateways;
}

// Without what only their owner's comment says, and without what policies have added: the record
// need not say that.
using Keys = std::vector<std::tuple<nft::TableFamily, std::string, std::vector<std::uint8_t>>>;

Keys OwnKeys(const std::vector<nft::Element>& elements) {
  Keys keys;
  for (const nft::Element& element : elements) {
    if (!element.comment.empty() && !rules::IsOfPolicies(element)) {
      keys.emplace_back(element.family, element.set, element.key);
    }
  }
  std::ranges::sort(keys);
  return keys;
}

// What policies that cannot be read have made of an attachment.
policy::Judgement JudgementBy(const std::vector<nft::Element>& elements) {
  policy::Judgement judgement;
  std::set<std::string> sets;
  for (const nft::Element& element : elements) {
    if (element.verdict) {
      const bool is_in = element.verdict->code == nft::Verdict::Code::kGoto;
      (is_in ? judgement.in : judgement.out) = element.verdict->chain;
    } else if (rules::IsOfPolicies(element)) {
      sets.insert(element.set.substr(element.set.find('-') + 1));
    }
  }
  judgement.sets.assign(sets.begin(), sets.end());
  return judgement;
}

// A number of choices that are yes or no, or one of several.
class Choices {
 public:
  explicit Choices(unsigned number) : number_(number) {}

  bool Next() { return Next(2) != 0; }
  unsigned Next(unsigned of) {
    const unsigned choice = number_ % of;
    number_ /= of;
    return choice;
  }

 private:
  unsigned number_;
};

constexpr unsigned kAllChoices = 3U << 9U;

// `record` with the rules of the `number`-th way to configure them.
state::Record WithRules(state::Record record, unsigned number) {
  using firewall::Ingress;
  Choices choices(number);
  // The strictest first: of several that have the same elements it is the one.
  constexpr std::array kIngress = {Ingress::kIsolated, Ingress::kSameBridge, Ingress::kOpen};
  record.rules.ingress = kIngress.at(choices.Next(kIngress.size()));
  record.rules.inbound = choices.Next() ? firewall::Inbound::kAny : firewall::Inbound::kPublished;
  record.rules.ip_masq = choices.Next();
  record.rules.random_ports = choices.Next();
  record.rules.snat = choices.Next();
  record.rules.masq_all = choices.Next();
  record.link.port.source_check = choices.Next();
  if (choices.Next()) {
    record.parts.emplace(Part::kForward, state::Phase::kLive);
  }
  // Without a port, too, it has elements by which it may reach its own ones by way of the node.
  if (choices.Next()) {
    record.parts.emplace(Part::kPorts, state::Phase::kLive);
  }
  // The bridge may have been another one when it was added.
  record.link.adopted = record.link.adopted != choices.Next();
  return record;
}

// With the rules by which the kernel has just these elements, and those that they share with
// others.
std::optional<state::Record> FindRules(state::Host& host,
                                       const state::Record& record,
                                       const std::vector<nft::Element>& elements) {
  const Keys wanted = OwnKeys(elements);
  for (unsigned number = 0; number < kAllChoices; ++number) {
    const state::Record candidate = WithRules(record, number);
    const std::vector<nft::Element> own = rules::ElementsOf(candidate);
    const auto is_there = [&](const nft::Element& element) {
      return !element.comment.empty() ||
             host.nft.FindElement(firewall::TableId(element.family), element);
    };
    if (!own.empty() && OwnKeys(own) == wanted && std::ranges::all_of(own, is_there)) {
      return candidate;
    }
  }
  return std::nullopt;
}

// As the node's other attachments have it. With another bit the chains would be written anew, and
// its network's next ADD be refused.
firewall::ForwardHook ForwardHookInForce(state::Host& host) {
  firewall::ForwardHook hook{.admin_chain = cni::TypeOf("nomad-bridge").defaults.admin_chain};
  const state::Checkpoint checkpoint = host.checkpoint.Find().value_or(state::Checkpoint());
  if (!checkpoint.admin_chains.empty()) {
    hook.admin_chain = checkpoint.admin_chains.front();
  }
  hook.accept_mark_bit = checkpoint.accept_mark_bit != state::kNoMarkBit
                             ? checkpoint.accept_mark_bit
                             : firewall::FindAcceptedBit(host.nft).value_or(hook.accept_mark_bit);
  return hook;
}

// The directory of its leases, if all its addresses have one there.
std::optional<std::string> FindDataDir(state::Host& host,
                                       const AttachmentId& id,
                                       const std::vector<Cidr>& addresses) {
  for (const std::string& directory : DataDirs(host)) {
    if (HasLeases(directory, id, addresses)) {
      return directory;
    }
  }
  return std::nullopt;
}

// What links tell of an attachment. Of its leases and rules nothing yet.
state::Record ByLinks(state::Host& host,
                      const AttachmentId& id,
                      const rtnl::Link& host_veth,
                      const rtnl::Link& bridge,
                      const OtherEnd& other_end) {
  const link::Inside& inside = other_end.inside;
  state::Record record{.id = id, .netns_path = other_end.path, .netns = inside.netns};
  for (const Part part : {Part::kLoopback, Part::kAddress, Part::kLink, Part::kMasquerade}) {
    record.parts.emplace(part, state::Phase::kLive);
  }
  if (const std::optional<state::ParsedAlias> alias = state::ParseAlias(host_veth.alias)) {
    record.labels = cni::LabelsOf(alias->labels);
  }
  record.link.bridge = bridge.name;
  record.link.gateway_ifname = bridge.name;
  record.link.gateways = GatewaysOf(host, bridge, inside.addresses);
  record.link.adopted = link::IsAdopted(host, bridge.name);
  record.link.port.hairpin = host_veth.port.hairpin;
  record.link.port.isolated = host_veth.port.isolated;
  record.link.port.locked = host_veth.locked && !host_veth.learns;
  record.ipam.addresses = inside.addresses;
  if (inside.link.mac != record.ContainerMac()) {
    record.link.mac = inside.link.mac;
  }
  return record;
}

// Of the attachment `id`, whose host veth `host_veth` is; nullopt if it cannot be told.
std::optional<state::Record> RebuildRecord(state::Host& host,
                                           const AttachmentId& id,
                                           const rtnl::Link& host_veth) {
  const std::optional<rtnl::Link> bridge = host.net.FindLink(host_veth.master);
  const std::optional<OtherEnd> other_end = FindOtherEnd(id, host_veth);
  if (!bridge || bridge->kind != "bridge" || !other_end || other_end->inside.addresses.empty()) {
    return std::nullopt;
  }
  const std::optional<std::string> data_dir = FindDataDir(host, id, other_end->inside.addresses);
  if (!data_dir) {
    return std::nullopt;
  }
  state::Record record = ByLinks(host, id, host_veth, *bridge, *other_end);
  if (record.link.gateways.empty() && link::IsMadeByUs(*bridge)) {
    return std::nullopt;
  }
  record.ipam.data_dir = *data_dir;
  record.ipam.leases = record.ipam.addresses;
  const std::vector<nft::Element> elements = rules::FindElementsOf(host.nft, host_veth.name);
  record.rules.ports = portmap::EntriesOf(elements);
  if (!record.rules.ports.empty()) {
    record.parts.emplace(Part::kPorts, state::Phase::kLive);
    record.rules.had_default_route = link::FindDefaultRoutes(host.net);
  }
  record.rules.forward_hook = ForwardHookInForce(host);
  record.rules.forward_hook.ipv6 = record.HasIpv6();
  std::optional<state::Record> rebuilt = FindRules(host, record, elements);
  if (rebuilt && rebuilt->link.adopted && !link::IsMadeByUs(*bridge)) {
    rebuilt->link.gateways.clear();  // which of them an ADD has added to it cannot be told
  }
  if (rebuilt && rules::FindUnreadPolicies(host)) {
    rebuilt->rules.policy = {JudgementBy(elements), {}};
  } else if (rebuilt) {
    rebuilt = rules::Judged(*std::move(rebuilt), host.policy.Program());
  }
  return rebuilt;
}

}  // namespace

void CheckLostRecord(state::Host& host, const rtnl::Link& link, Mismatches& mismatches) {
  const auto alias = link.kind == "veth" ? state::ParseAlias(link.alias) : std::nullopt;
  if (!alias || state::HostVethName(alias->id) != link.name) {
    return;
  }
  const AttachmentId& id = alias->id;
  // Behind the lock it may have been written, or the link be gone.
  const std::optional<FileLock> lock = host.records.TryLock(id);
  if (!lock || host.records.Find(id) || !link::FindHostVeth(host.net, id, link::Recorded::kNo)) {
    return;
  }
  Mismatch lost = state::LostRecord(id);
  if (const std::optional<state::Record> rebuilt = RebuildRecord(host, id, link)) {
    mismatches.Add(std::move(lost), [&] { host.records.Write(*rebuilt); });
  } else {
    lost.text += ", and none can be made from what is in force";
    lost.fix = cni::RuntimeFix("stop", id.container_id, alias->labels);
    mismatches.AddUnrepairable(std::move(lost));
  }
}

}  // namespace nomad_bridge::attachment
