#include "plugin/policy/policy.h"

#include <utility>

#include "base/list.h"
#include "base/text.h"
#include "plugin/policy/glob.h"

namespace nomad_bridge::policy {
bool Selects(const Selector& selector, const cni::Workload& workload) {
  return !workload.nomad_namespace.empty() &&
         MatchesGlob(selector.nomad_namespace, workload.nomad_namespace) &&
         (selector.job.empty() || MatchesGlob(selector.job, workload.job) ||
          MatchesGlob(selector.job, cni::ParentJob(workload.job))) &&
         (selector.group.empty() || MatchesGlob(selector.group, workload.group));
}

std::string Text(const Selector& selector) {
  return Cat("namespace=",
             selector.nomad_namespace,
             selector.job.empty() ? "" : Cat(" job=", selector.job),
             selector.group.empty() ? "" : Cat(" group=", selector.group));
}

std::optional<Ports> FindPorts(std::string_view text) {
  const std::size_t slash = text.find('/');
  const std::optional<Protocol> protocol = FindNamed(kProtocolNames, text.substr(0, slash));
  if (!protocol) {
    return std::nullopt;
  }
  Ports ports{.protocol = *protocol};
  if (slash == text.npos) {
    return ports;
  }
  const std::string_view range = text.substr(slash + 1);
  const std::size_t dash = range.find('-');
  const auto first = FindNumber<std::uint16_t>(range.substr(0, dash));
  const auto last = dash == range.npos ? first : FindNumber<std::uint16_t>(range.substr(dash + 1));
  if (!first || !last || *first == 0 || *first > *last || ports.protocol == Protocol::kIcmp) {
    return std::nullopt;
  }
  ports.first = *first;
  ports.last = *last;
  return ports;
}

std::string Text(const Ports& ports) {
  const std::string_view protocol = Text(ports.protocol);
  if (ports.protocol == Protocol::kIcmp || ports.AreAll()) {
    return std::string(protocol);
  }
  return Cat(protocol, '/', ports.first, ports.first == ports.last ? "" : Cat('-', ports.last));
}

std::vector<const Peer*> PeersOf(const Policy& policy) {
  std::vector<const Peer*> peers;
  for (const std::vector<Entry>* const entries : {&policy.allow, &policy.deny}) {
    for (const Entry& entry : *entries) {
      for (const Peer& peer : entry.peers) {
        peers.push_back(&peer);
      }
    }
  }
  return peers;
}

}  // namespace nomad_bridge::policy
