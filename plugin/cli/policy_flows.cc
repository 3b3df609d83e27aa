#include "plugin/cli/policy_flows.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <map>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>

#include <netinet/in.h>

#include "base/list.h"
#include "base/text.h"
#include "firewall/table.h"
#include "netlink/conntrack/conntrack.h"
#include "plugin/cli/attachment_view.h"
#include "plugin/cli/policy_log.h"
#include "plugin/policy/glob.h"
#include "plugin/rules/policy_admission.h"

namespace nomad_bridge::cli {
namespace {

using policy::Ports;

bool HasPort(std::uint8_t protocol) {
  return protocol == IPPROTO_TCP || protocol == IPPROTO_UDP || protocol == IPPROTO_SCTP;
}

// Begins the text of a protocol that has no ports and no name.
constexpr std::string_view kProtocol = "protocol ";

std::string PortText(const Flow& flow) {
  if (HasPort(flow.protocol)) {
    return Text(Ports{static_cast<Protocol>(flow.protocol), flow.port, flow.port});
  }
  return flow.protocol == IPPROTO_ICMP ? Text(Ports{Protocol::kIcmp})
                                       : Cat("protocol ", int{flow.protocol});
}

void Remember(Holders now, Holders& known) {
  known.of_node = std::move(now.of_node);
  known.subnets.merge(now.subnets);
  for (Holder& holder : now.allocations) {
    // Replaces what was known: only the new holder has what is in force now.
    std::erase_if(known.allocations, [&](const Holder& other) {
      return other.end.address == holder.end.address && other.created == holder.created;
    });
    known.allocations.push_back(std::move(holder));
  }
}

// Returns the end that had this address at the time `last`, in seconds since 1970.
policy::End EndAt(const Ip& address, const Holders& holders, std::uint64_t last) {
  const Holder* latest = nullptr;
  for (const Holder& holder : holders.allocations) {
    if (holder.end.address == address && holder.created <= last &&
        (latest == nullptr || holder.created >= latest->created)) {
      latest = &holder;
    }
  }
  return latest != nullptr
             ? latest->end
             : policy::End{.address = address, .is_node = holders.of_node.contains(address)};
}

// Returns whether the end was an allocation that is gone. Another allocation may have its address
// by now.
bool IsGone(const policy::End& end, const Holders& holders) {
  return !end.workload && !end.is_node &&
         std::ranges::any_of(holders.subnets,
                             [&](const Cidr& subnet) { return subnet.Contains(*end.address); });
}

Json PeerJson(const policy::End& end) {
  if (end.is_node) {
    return "node";
  }
  if (!HasNamespace(end)) {
    return Cidr::Host(*end.address).Text();
  }
  Json selector = {{"namespace", policy::Literally(end.workload->nomad_namespace)}};
  if (!end.workload->job.empty()) {
    selector["job"] = policy::Literally(cni::ParentJob(end.workload->job));
  }
  return selector;
}

Json EntryFor(const Flow& flow, policy::Direction direction) {
  const bool is_to = direction == policy::Direction::kTo;
  Json entry = {{is_to ? "from" : "to", Json::array({PeerJson(is_to ? flow.from : flow.to)})}};
  if (HasPort(flow.protocol) || flow.protocol == IPPROTO_ICMP) {
    entry["ports"] = Json::array({PortText(flow)});
  }
  return entry;
}

// Sets the policy and the entry that would allow the flow. If several policies refuse it together
// ("namespaces, api"), an entry in any of them would do; takes the first.
void SuggestEntry(const policy::Program& program, const std::string& refused_by, Flow& flow) {
  const std::string name = refused_by.substr(0, refused_by.find(", "));
  for (const auto& [direction, end] : {std::pair(policy::Direction::kTo, &flow.to),
                                       std::pair(policy::Direction::kFrom, &flow.from)}) {
    if (!end->workload) {
      continue;
    }
    for (const policy::Policy& each : program.PoliciesAbout(direction, *end->workload)) {
      if (each.name == name && each.is_closed) {
        flow.policy = name;
        flow.entry = EntryFor(flow, direction);
        return;
      }
    }
  }
}

// Returns the size of a key: source, destination, protocol and port, each padded to a register.
std::size_t KeyBytes(Family family) {
  return family == Family::kIpv4 ? 4 + 4 + 4 + 4 : 16 + 16 + 4 + 4;
}

Flow Decode(const nft::Socket::Noted& noted, Family family, const Holders& holders) {
  const std::uint64_t age_ms =
      rules::kFlowTimeoutMs - std::min(noted.expires_ms, rules::kFlowTimeoutMs);
  nft::KeyReader key(noted.key);
  const Ip from(key.Take(firewall::AddressType(family)));
  const Ip to(key.Take(firewall::AddressType(family)));
  const std::uint8_t protocol = key.Take(nft::Type::kInetProto).front();
  const std::span<const std::uint8_t> port = key.Take(nft::Type::kInetService);
  Flow flow = {.protocol = protocol == IPPROTO_ICMPV6 ? std::uint8_t{IPPROTO_ICMP} : protocol,
               .tries = noted.packets,
               .seconds_ago = age_ms / 1000};
  if (HasPort(protocol)) {
    flow.port = static_cast<std::uint16_t>(port[0] << 8 | port[1]);
  }
  const auto last = static_cast<std::uint64_t>(std::time(nullptr)) - flow.seconds_ago;
  flow.from = EndAt(from, holders, last);
  flow.to = EndAt(to, holders, last);
  return flow;
}

std::string DecisionText(const Flow& flow) {
  if (flow.IsAllowedNow()) {
    return "allowed";
  }
  return flow.now.is_allowed ? "would be refused" : "refused";
}

Json EndJson(const policy::End& end) {
  const cni::Workload workload = end.workload.value_or(cni::Workload());
  return {{"name", Text(end)},
          {"address", end.address->Text()},
          {"namespace", OrNull(workload.nomad_namespace)},
          {"job", OrNull(workload.job)},
          {"group", OrNull(workload.group)},
          {"node", end.is_node}};
}

Json FlowJson(const Flow& flow) {
  const std::string would = flow.now.WouldBeRefusedBy();
  return {{"from", EndJson(flow.from)},
          {"to", EndJson(flow.to)},
          {"port", PortText(flow)},
          {"tries", flow.tries},
          {"secondsAgo", flow.seconds_ago},
          {"refused", flow.is_refused},
          {"allowedNow", flow.IsAllowedNow()},
          {"is", DecisionText(flow)},
          {"by", OrNull(would.empty() ? flow.now.By() : would)},
          {"policy", OrNull(flow.policy)},
          {"entry", flow.entry}};
}

Cell ShowDecision(const Json& flow) {
  return DecisionOf(flow);
}

Cell ShowSeen(const Json& ago) {
  const std::chrono::seconds age(ago);
  return age.count() == 0 ? Cell("now") : Cell(Cat(ShowAge(age), " ago"));
}

constexpr std::array kFlowColumns = {
    Column{"LAST",
           "/secondsAgo",
           [](const Json& ago) -> Cell { return ShowAge(std::chrono::seconds(ago)); }},
    Column{"TRIES", "/tries"},
    Column{"FROM", "/from/name", ShowPlain, Cuts::kFirst},
    Column{"TO", "/to/name", ShowPlain, Cuts::kFirst},
    Column{"PORT", "/port"},
    Column{"IS", "", ShowDecision, Cuts::kLast}};
constexpr std::array kEndingColumns = {kFlowColumns[2],
                                       kFlowColumns[3],
                                       kFlowColumns[4],
                                       Column{"SEEN", "/secondsAgo", ShowSeen},
                                       Column{"REFUSED BY", "/by", ShowPlain, Cuts::kLast}};
constexpr std::array kLoggedColumns = {kFlowColumns[0],
                                       kFlowColumns[2],
                                       kFlowColumns[3],
                                       kFlowColumns[4],
                                       kFlowColumns[5]};

// Returns the flows in a set. Leaves out keys of another size: somebody may have put a set of
// another type in the place of ours.
std::vector<nft::Socket::Noted> NotedIn(state::Host& host, std::string_view noun, Family family) {
  std::vector<nft::Socket::Noted> noted =
      host.nft.NotedIn(firewall::TableId(), firewall::SetName(noun, family));
  std::erase_if(noted, [family](const nft::Socket::Noted& each) {
    return each.key.size() != KeyBytes(family);
  });
  return noted;
}

Usage UsageOf(state::Host& host, std::string_view noun) {
  Usage usage = {.total = rules::kMaxFlows};
  for (const Family family : firewall::kFamilies) {
    usage.used = std::max(usage.used, std::uint64_t{NotedIn(host, noun, family).size()});
  }
  return usage;
}

// Adds a flow to `flows`. A flow that was audited before it was refused is in two sets: keeps the
// later one, with the tries of both.
void Add(Flow flow, const nft::Bytes& key, std::map<nft::Bytes, Flow>& flows) {
  const auto [at, is_new] = flows.try_emplace(key, flow);
  if (is_new) {
    return;
  }
  Flow& other = at->second;
  const std::uint64_t tries = flow.tries + other.tries;
  if (flow.seconds_ago < other.seconds_ago) {
    other = std::move(flow);
  }
  other.tries = tries;
}

// Returns the connections that conntrack has, each source, target and port once.
std::vector<Flow> OpenConnections(state::Host& host, const Holders& holders) {
  const auto now = static_cast<std::uint64_t>(std::time(nullptr));
  std::set<conntrack::Connection> connections;
  for (const auto& entry : conntrack::Conntrack::In(host.netns).All()) {
    connections.insert(entry.connection);
  }
  std::vector<Flow> flows;
  flows.reserve(connections.size());
  for (const conntrack::Connection& each : connections) {
    flows.push_back({.from = EndAt(each.from, holders, now),
                     .to = EndAt(each.to, holders, now),
                     .protocol = each.protocol,
                     .port = each.port});
  }
  return flows;
}

std::string Show(const Json& document, std::span<const Column> columns) {
  std::set<std::string> entries;
  for (const Json& flow : document.at("flows")) {
    const Json& entry = flow.at("entry");
    if (!entry.is_null()) {
      entries.insert(Format("  {}: {}\n",
                            PlainText(flow.at("policy")),
                            entry.dump(-1, ' ', false, Json::error_handler_t::replace)));
    }
  }
  return Cat(TableOf(document.at("flows"), columns),
             entries.empty() ? ""
                             : "\nThese entries would let them pass. Each goes into the "
                               "\"allow\" of its policy:\n",
             Joined(entries, ""));
}

}  // namespace

void Explain(const policy::Program& program, const Holders& holders, Flow& flow) {
  flow.now = Judge(program,
                   {.from = flow.from,
                    .to = flow.to,
                    .protocol = static_cast<Protocol>(flow.protocol),
                    .port = flow.port});
  const std::string refused_by = flow.now.is_allowed ? flow.now.WouldBeRefusedBy() : flow.now.By();
  if (!refused_by.empty() && !IsGone(flow.from, holders) && !IsGone(flow.to, holders)) {
    SuggestEntry(program, refused_by, flow);
  }
}

std::optional<Flow> FindFlowOnPort(const std::string& port) {
  if (const std::optional<Ports> ports = policy::FindPorts(port)) {
    return Flow{.protocol = static_cast<std::uint8_t>(ports->protocol),
                .port = HasPort(static_cast<std::uint8_t>(ports->protocol)) ? ports->first
                                                                            : std::uint16_t{0}};
  }
  if (port.starts_with(kProtocol)) {
    if (const auto number = FindNumber<std::uint8_t>(port.substr(kProtocol.size()))) {
      return Flow{.protocol = *number};
    }
  }
  return std::nullopt;
}

Flows ReadFlows(state::Host& host, Holders& known) {
  Remember(FindHolders(host, TakeInventory(host)), known);
  Flows read;
  std::map<nft::Bytes, Flow> flows;
  for (const std::string_view noun : {rules::kRefusedFlows, rules::kAuditedFlows}) {
    for (const Family family : firewall::kFamilies) {
      const std::vector<nft::Socket::Noted> noted = NotedIn(host, noun, family);
      read.are_all = read.are_all && noted.size() < rules::kMaxFlows;
      for (const nft::Socket::Noted& each : noted) {
        Flow flow = Decode(each, family, known);
        flow.is_refused = noun == rules::kRefusedFlows;
        Add(std::move(flow), each.key, flows);
      }
    }
  }
  const policy::Program& program = host.policy.Program();
  for (auto& each : flows) {
    Explain(program, known, each.second);
    read.flows.push_back(std::move(each.second));
  }
  std::ranges::sort(read.flows, {}, &Flow::seconds_ago);
  return read;
}

Flows FlowsThatWouldEnd(state::Host& host, const policy::Program& program) {
  Holders holders;
  RecallHolders(holders);
  Flows seen = ReadFlows(host, holders);
  for (Flow& connection : OpenConnections(host, holders)) {
    Explain(host.policy.Program(), holders, connection);
    seen.flows.push_back(std::move(connection));
  }
  std::ranges::stable_sort(seen.flows, {}, &Flow::seconds_ago);
  std::set<std::tuple<std::string, std::string, std::string>> names;
  Flows ending = {.are_all = seen.are_all};
  for (Flow& flow : seen.flows) {
    const bool passes_now = flow.now.is_allowed;
    // The files are judged by what they have for a workload, not by what is in the kernel.
    flow.from.in_force.reset();
    flow.to.in_force.reset();
    Explain(program, holders, flow);
    if (passes_now && !flow.now.is_allowed &&
        names.emplace(Text(flow.from), Text(flow.to), PortText(flow)).second) {
      ending.flows.push_back(std::move(flow));
    }
  }
  return ending;
}

Usage UsageOfRefusedFlows(state::Host& host) {
  return UsageOf(host, rules::kRefusedFlows);
}

Usage UsageOfAuditedFlows(state::Host& host) {
  return UsageOf(host, rules::kAuditedFlows);
}

Json ToJson(const Flows& flows) {
  return {{"complete", flows.are_all}, {"flows", ArrayOf(flows.flows, FlowJson)}};
}

std::string DecisionOf(const Json& flow) {
  const std::string by = flow.at("by").is_null() ? "" : Cat(" by ", PlainText(flow.at("by")));
  return Cat(PlainText(flow.at("is")), flow.at("allowedNow") ? " now" : "", by);
}

std::string ShowFlows(const Json& document) {
  return Show(document, kFlowColumns);
}

std::string ShowFlowsThatWouldEnd(const Json& document) {
  return Show(document, kEndingColumns);
}

std::string ShowLoggedFlows(const Json& document) {
  return Show(document, kLoggedColumns);
}

}  // namespace nomad_bridge::cli
