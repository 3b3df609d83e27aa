#include "plugin/cli/policy_ends.h"

#include <algorithm>
#include <utility>

#include "base/list.h"
#include "base/text.h"
#include "plugin/cli/command.h"
#include "plugin/cli/named_attachments.h"

namespace nomad_bridge::cli {
namespace {

using policy::End;
using policy::Ports;

constexpr const char* kWords =
    "allowed: ns=NAMESPACE,job=JOB,group=GROUP, an address, node, outside, or the job, group, ID, "
    "interface or published port of an allocation that lives here";

// An end of the connection. `ports` is nullopt if the typed words give no port for it.
struct Target {
  End end;
  std::optional<Ports> ports = {};
};

cni::Workload ParseWorkload(std::string_view text) {
  cni::ShortLabels labels;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view word = TakeUntil(',', rest);
    const std::size_t equals = std::min(word.find('='), word.size());
    const std::string_view key = word.substr(0, equals);
    if (equals == word.size() ||
        (key != cni::kNamespace && key != cni::kJob && key != cni::kGroup)) {
      throw UsageError(Format("'{}' cannot be an END; {}", text, kWords));
    }
    labels[std::string(key)] = word.substr(equals + 1);
  }
  const cni::Workload workload = cni::WorkloadOf(labels);
  return !workload.nomad_namespace.empty()
             ? workload
             : throw UsageError(Format("'{}' lacks ns=NAMESPACE", text));
}

// Returns whether `typed`, in which job and group may be missing, describes `living`.
bool Describes(const cni::Workload& typed, const cni::Workload& living) {
  return typed.nomad_namespace == living.nomad_namespace &&
         (typed.job.empty() || typed.job == living.job ||
          typed.job == cni::ParentJob(living.job)) &&
         (typed.group.empty() || typed.group == living.group);
}

// Returns the living allocations with the address or the labels of `typed`; `typed` itself if there
// are none.
std::vector<Target> TargetsLike(End typed, const std::optional<NodeNow>& node) {
  std::vector<Target> targets;
  if (node) {
    for (const Holder& holder : node->holders.allocations) {
      const End& living = holder.end;
      if (typed.workload ? Describes(*typed.workload, *living.workload)
                         : typed.address && typed.address == living.address) {
        targets.push_back({living});
      }
    }
    typed.is_node =
        typed.is_node || (typed.address && node->holders.of_node.contains(*typed.address));
  }
  return !targets.empty() ? targets : std::vector{Target{std::move(typed)}};
}

Target TargetOf(const state::Record& record, const portmap::DnatEntry& published) {
  return {{.workload = record.Workload(), .address = published.container_ip},
          Ports{published.protocol, published.container_port, published.container_port}};
}

std::vector<Target> TargetsNamed(const std::string& word, const std::optional<NodeNow>& node) {
  if (!node) {
    throw CannotTell(Format("cannot tell without root what '{}' is; {}", word, kWords));
  }
  std::vector<Target> targets;
  std::vector<Target> published;
  for (const Attachment* const found : FindAlike(node->inventory, word)) {
    if (!found->record || found->state == State::kDead) {
      continue;
    }
    const state::Record& record = *found->record;
    for (const Cidr& cidr : record.ipam.addresses) {
      targets.push_back({{.workload = record.Workload(), .address = cidr.address}});
    }
    for (const portmap::DnatEntry& entry : record.rules.ports) {
      if (std::to_string(entry.host_port) == word) {
        published.push_back(TargetOf(record, entry));
      }
    }
  }
  if (targets.empty()) {
    throw CannotTell(Format("'{}' cannot be an END; {}", word, kWords));
  }
  return !published.empty() ? published : targets;
}

std::vector<Target> TargetsOf(const std::string& word, const std::optional<NodeNow>& node) {
  if (word == "node" || word == "outside") {
    return {{End{.is_node = word == "node"}}};
  }
  if (const std::optional<Ip> address = Ip::Parse(word)) {
    return TargetsLike({.address = address}, node);
  }
  return word.find('=') != word.npos ? TargetsLike({.workload = ParseWorkload(word)}, node)
                                     : TargetsNamed(word, node);
}

// Returns the allocations to which the node's published port leads; none if the node itself answers
// on the port.
std::vector<Target> PublishedAt(const End& end, const Ports& ports, const Inventory& inventory) {
  std::vector<Target> targets;
  for (const Attachment& attachment : inventory.attachments) {
    if (!attachment.record) {
      continue;
    }
    for (const portmap::DnatEntry& entry : attachment.record->rules.ports) {
      if (entry.protocol == ports.protocol && entry.host_port == ports.first &&
          (!entry.host_ip || !end.address || entry.host_ip == end.address)) {
        targets.push_back(TargetOf(*attachment.record, entry));
      }
    }
  }
  return targets;
}

// Returns whether both addresses have the same family, or an address is unknown.
bool CanConnect(const End& from, const End& to) {
  return !from.address || !to.address || from.address->family() == to.address->family();
}

// Returns each possible target, with the port to connect to.
std::vector<Target> TargetsOf(const TypedConnection& typed, const std::optional<NodeNow>& node) {
  std::vector<Target> to = TargetsOf(typed.to, node);
  std::vector<Target> targets;
  for (Target& target : to) {
    target.ports = typed.ports ? typed.ports : target.ports;
    if (!target.ports) {
      throw UsageError("policy test needs -port, unless -to is a published port");
    }
    std::vector<Target> published;
    if (target.end.is_node && node) {
      published = PublishedAt(target.end, *target.ports, node->inventory);
    }
    Append(targets, !published.empty() ? std::move(published) : std::vector{std::move(target)});
  }
  return targets;
}

}  // namespace

std::vector<policy::Connection> ConnectionsOf(const TypedConnection& typed,
                                              const std::optional<NodeNow>& node) {
  const std::vector<Target> targets = TargetsOf(typed, node);
  std::vector<policy::Connection> connections;
  for (const Target& source : TargetsOf(typed.from, node)) {
    for (const Target& target : targets) {
      if (CanConnect(source.end, target.end)) {
        connections.push_back(
            {source.end, target.end, target.ports->protocol, target.ports->first});
      }
    }
  }
  if (connections.empty()) {
    throw UsageError(
        Format("'{}' and '{}' have no address family in common", typed.from, typed.to));
  }
  return connections;
}

}  // namespace nomad_bridge::cli
