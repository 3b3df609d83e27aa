#include "plugin/cli/inventory.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/finding.h"
#include "base/log.h"
#include "base/text.h"
#include "ipam/range.h"
#include "plugin/link/host_veth.h"
#include "plugin/link/liveness.h"
#include "plugin/rules/check_ruleset.h"
#include "plugin/state/kernel_names.h"

namespace nomad_bridge::cli {
namespace {

// BR_MAX_PORTS of the kernel, less port 0.
constexpr std::uint64_t kBridgePorts = 1023;

const std::string kEmpty;

using LinksByName = std::map<std::string, const rtnl::Link*, std::less<>>;

// Returns all links by name. A renamed host veth is listed under the name that it should have, too.
LinksByName ByName(const std::vector<rtnl::Link>& all) {
  LinksByName links;
  for (const rtnl::Link& link : all) {
    links.emplace(link.name, &link);
  }
  for (const rtnl::Link& link : all) {
    const bool may_be_renamed = link.kind == "veth" && !state::IsHostVethName(link.name);
    if (const auto alias = may_be_renamed ? state::ParseAlias(link.alias) : std::nullopt) {
      links.emplace(state::HostVethName(alias->id), &link);
    }
  }
  return links;
}

bool IsPluggedIn(const Attachment& attachment, const LinksByName& links) {
  if (!attachment.record->Has(cni::Part::kLink)) {
    return true;  // the link belongs to another plugin
  }
  const auto bridge = links.find(attachment.record->link.bridge);
  return attachment.link && attachment.link->up && bridge != links.end() &&
         attachment.link->master == bridge->second->index;
}

// Returns the state of an attachment with a record. Does not check whether the attachment is alive
// once its ADD or DEL has begun and not ended: some kernels cannot tell before the veth is created.
State StateOf(state::Host& host, const Attachment& attachment, const LinksByName& links) {
  const state::Record& record = *attachment.record;
  if (record.IsAny(state::Phase::kLeaving)) {
    return State::kLeaving;
  }
  if (record.IsAny(state::Phase::kMaking)) {
    return State::kMaking;
  }
  if (!link::IsAlive(host, record, attachment.link)) {
    return State::kDead;
  }
  return IsPluggedIn(attachment, links) ? State::kOk : State::kUnplugged;
}

Attachment AttachmentOf(state::Host& host,
                        state::Records::Reading reading,
                        const LinksByName& links) {
  Attachment attachment{.id = std::move(reading.id),
                        .record = std::move(reading.record),
                        .path = std::move(reading.path),
                        .problem = std::move(reading.problem)};
  const std::string name = state::HostVethName(attachment.id);
  const auto found = links.find(name);
  if (found != links.end() &&
      link::IsHostVethOf(*found->second, attachment.id, link::Recorded::kYes)) {
    attachment.link = *found->second;
  }
  const bool has_veth =
      attachment.record ? attachment.record->Has(cni::Part::kLink) : attachment.link.has_value();
  if (has_veth) {
    attachment.host_veth = attachment.link ? attachment.link->name : name;
  }
  if (attachment.record) {
    attachment.labels = cni::Shorten(attachment.record->labels);
    attachment.state = StateOf(host, attachment, links);
  } else {
    const auto alias = state::ParseAlias(attachment.link ? attachment.link->alias : "");
    attachment.labels = alias ? alias->labels : cni::ShortLabels();
    attachment.state = reading.is_denied ? State::kUnknown : State::kUnreadable;
  }
  return attachment;
}

// Adds an attachment for each link of ours that has no record, whatever became of the record.
void AddUnrecorded(state::Host& host, const LinksByName& links, Inventory& inventory) {
  std::set<std::string> known;
  for (const Attachment& attachment : inventory.attachments) {
    known.insert(attachment.link ? attachment.link->name : state::HostVethName(attachment.id));
  }
  for (const rtnl::Link& link : inventory.links) {
    std::optional<state::ParsedAlias> alias =
        link.kind == "veth" ? state::ParseAlias(link.alias) : std::nullopt;
    if (!alias || known.contains(link.name)) {
      continue;
    }
    // An ADD may have written the record since all records were read.
    if (std::optional<state::Record> record =
            inventory.is_complete ? host.records.Find(alias->id) : std::nullopt) {
      inventory.attachments.push_back(
          AttachmentOf(host, {.id = alias->id, .record = std::move(record)}, links));
    } else {
      inventory.attachments.push_back(
          {.id = std::move(alias->id),
           .state = inventory.is_complete ? State::kUnrecorded : State::kUnknown,
           .labels = std::move(alias->labels),
           .host_veth = link.name,
           .link = link});
    }
  }
}

// Returns the addresses that have a lease, by the names of the files: with thousands of leases,
// opening each file would take too long.
std::vector<Ip> LeasedIn(const std::string& directory) {
  std::vector<Ip> leased;
  for (const std::string& name : Entries(directory)) {
    if (const std::optional<Ip> address = Ip::Parse(name)) {
      leased.push_back(*address);
    }
  }
  return leased;
}

std::optional<Usage> AddressesOf(const state::Record& record) {
  std::optional<Usage> scarcest;
  const std::vector<Ip> leased = LeasedIn(Cat(record.ipam.data_dir, '/', record.id.network));
  for (const ipam::RangeSet& set : record.ipam.ranges) {
    Usage usage;
    for (const ipam::Range& range : set) {
      usage.total += std::min(ipam::CountOffered(range),
                              std::numeric_limits<std::uint64_t>::max() - usage.total);
      usage.used += static_cast<std::uint64_t>(
          std::ranges::count_if(leased, [&](const Ip& ip) { return range.Offers(ip); }));
    }
    if (!scarcest || usage.free() < scarcest->free()) {
      scarcest = usage;
    }
  }
  return scarcest;
}

std::optional<Usage> PortsOf(const Network& network, const Inventory& inventory) {
  std::optional<Usage> fullest;
  for (const std::string& name : network.bridges) {
    const auto bridge = std::ranges::find(inventory.links, name, &rtnl::Link::name);
    if (bridge == inventory.links.end() || bridge->kind != "bridge") {
      continue;
    }
    const auto used = static_cast<std::uint64_t>(
        std::ranges::count(inventory.links, bridge->index, &rtnl::Link::master));
    if (!fullest || used > fullest->used) {
      fullest = {.used = used, .total = kBridgePorts};
    }
  }
  return fullest;
}

void AddNetworks(Inventory& inventory) {
  std::map<std::string, Network> networks;
  // The record whose ranges count for a network: the last one that has any. Records may differ if
  // the config was changed.
  std::map<std::string, const state::Record*> with_ranges;
  for (const Attachment& attachment : inventory.attachments) {
    Network& network = networks[attachment.id.network];
    network.name = attachment.id.network;
    if (const std::string bridge = BridgeOf(attachment, inventory); !bridge.empty()) {
      network.bridges.insert(bridge);
    }
    if (attachment.record && !attachment.record->ipam.ranges.empty()) {
      with_ranges[network.name] = &*attachment.record;
    }
  }
  for (auto& [name, network] : networks) {
    const auto record = with_ranges.find(name);
    network.addresses = record != with_ranges.end() ? AddressesOf(*record->second) : std::nullopt;
    network.ports = PortsOf(network, inventory);
    inventory.networks.push_back(std::move(network));
  }
}

// Must be called before anything else reads all records and logs that it ignores some: each record
// is logged only once.
void RemarkOnUnreadable(state::Host& host, const Inventory& inventory) {
  for (const Attachment& attachment : inventory.attachments) {
    if (attachment.state == State::kUnreadable) {
      host.records.Log(
          attachment.id,
          Format("cannot read the record '{}': {}", attachment.path, attachment.problem));
    }
  }
}

auto Order(const Attachment& attachment) {
  return std::tie(attachment.Label(cni::kNamespace),
                  attachment.Label(cni::kJob),
                  attachment.Label(cni::kGroup),
                  attachment.Allocation(),
                  attachment.id);
}

}  // namespace

const std::string& Attachment::Label(std::string_view name) const {
  const auto found = labels.find(name);
  return found != labels.end() ? found->second : kEmpty;
}

std::optional<Finding> Attachment::FindKilled() const {
  if (state != State::kMaking && state != State::kLeaving) {
    return std::nullopt;
  }
  return Finding{.area = Finding::Area::kRecord,
                 .text = Format("{} of container '{}' was killed",
                                state == State::kMaking ? "an ADD" : "a DEL",
                                id.container_id),
                 .fix = "nomad-bridge gc"};
}

const std::string& Attachment::Allocation() const {
  const std::string& allocation = Label(cni::kAllocation);
  return allocation.empty() ? id.container_id : allocation;
}

const std::vector<Cidr>& Attachment::Addresses() const {
  static const std::vector<Cidr> kNone;
  return record ? record->ipam.addresses : reference ? reference->addresses : kNone;
}

const std::vector<portmap::DnatEntry>& Attachment::Ports() const {
  static const std::vector<portmap::DnatEntry> kNone;
  return record ? record->rules.ports : reference ? reference->ports : kNone;
}

std::string Attachment::Named() const {
  const std::string& group = Label(cni::kGroup);
  const std::string job = Cat(Label(cni::kJob), group.empty() ? "" : "/", group);
  return Cat('\'', Allocation(), '\'', job.empty() ? "" : Format(" ({})", job));
}

std::string BridgeOf(const Attachment& attachment, const Inventory& inventory) {
  if (attachment.record) {
    return attachment.record->link.bridge;
  }
  const int master = attachment.link ? attachment.link->master : 0;
  const auto bridge = std::ranges::find(inventory.links, master, &rtnl::Link::index);
  return bridge != inventory.links.end() ? bridge->name : "";
}

void RemarkOn(state::Host& host, const Inventory& inventory) {
  RemarkOnUnreadable(host, inventory);
  if (!inventory.is_complete) {
    LogLine("{}", "without root, addresses, ports and states are unknown");
  }
}

void CompareRules(state::Host& host, Inventory& inventory) {
  std::vector<Attachment*> all;
  for (Attachment& attachment : inventory.attachments) {
    if (attachment.state == State::kOk && attachment.record->HasRules()) {
      all.push_back(&attachment);
    }
  }
  if (all.empty()) {
    return;
  }
  RemarkOnUnreadable(host, inventory);
  std::optional<State> of_all;
  std::set<std::string> owners;
  try {
    Findings found(Mode::kLook);
    const link::ListedVeths listed(inventory.links);
    rules::CheckRuleset(host, found, &listed);
    for (const Finding& finding : found.left()) {
      if (finding.area != Finding::Area::kLeftOver) {
        owners.insert(finding.owner);
      }
    }
    if (owners.contains("")) {  // rules that all attachments share
      of_all = State::kRulesWrong;
    }
  } catch (const Error& error) {
    LogLine("the rules cannot be read: {}", error.what());
    of_all = State::kRulesUnknown;
  }
  for (Attachment* const attachment : all) {
    const bool is_wrong = owners.contains(state::HostVethName(attachment->id));
    attachment->state = of_all.value_or(is_wrong ? State::kRulesWrong : State::kOk);
  }
}

Inventory TakeInventory(state::Host& host) {
  Inventory inventory;
  // Reads the records before the links: an attachment whose record is read has its link by then,
  // unless it is still being made. An attachment whose record has just been removed may still have
  // its link in the dump.
  std::vector<state::Records::Reading> readings = host.records.ReadAll();
  inventory.links = host.net.Links();
  const LinksByName links = ByName(inventory.links);
  for (state::Records::Reading& reading : readings) {
    inventory.is_complete = inventory.is_complete && !reading.is_denied;
    inventory.attachments.push_back(AttachmentOf(host, std::move(reading), links));
  }
  AddUnrecorded(host, links, inventory);
  std::ranges::sort(inventory.attachments, {}, Order);
  AddNetworks(inventory);
  return inventory;
}

void AddReferenceMade(state::Host& host, Inventory& inventory) {
  if (::geteuid() != 0) {
    inventory.is_complete =
        inventory.is_complete && takeover::ForeignVeths(inventory.links).empty();
    return;
  }
  for (const takeover::RunningAttachment& running : takeover::FindRunning(host, inventory.links)) {
    inventory.attachments.push_back({.id = running.id,
                                     .state = State::kReference,
                                     .host_veth = running.host_veth.name,
                                     .link = running.host_veth,
                                     .reference = running});
  }
  std::ranges::sort(inventory.attachments, {}, Order);
}

}  // namespace nomad_bridge::cli
