#include "plugin/rules/bridge_netfilter.h"

#include <optional>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/list.h"
#include "base/log.h"
#include "base/text.h"
#include "firewall/port_filter.h"
#include "netlink/core/sysctl.h"
#include "plugin/link/bridge.h"
#include "plugin/rules/policy_tables.h"
#include "plugin/state/kernel_names.h"

namespace nomad_bridge::rules {
namespace {

constexpr rtnl::NfCall kBoth = {.ipv4 = true, .ipv6 = true};

bool PassesFramesToIpChains(const rtnl::Link& bridge) {
  return link::PassesIpChains(bridge, Family::kIpv4) && link::PassesIpChains(bridge, Family::kIpv6);
}

// Returns whether policies may refuse something at the ports of the bridge, and the kernel lacks
// the bridge family. With that family, our table keeps packets with link-local addresses from
// bypassing policies.
bool LacksBridgeFamily(state::Host& host, const state::Record& record) {
  const state::Record::Policy policy = WithPolicies(record, host.policy.Program()).rules.policy;
  return (policy.MayRefuse() || policy.judges_ports) && !firewall::HasBridgeFamily(host.nft);
}

// Returns why policies do not see the traffic of `record` on `bridge`, if only the operator can
// change that. We load no kernel module, and set no flag on a bridge that others made.
std::optional<Finding> FindUnseen(state::Host& host,
                                  const rtnl::Link& bridge,
                                  const state::Record& record) {
  if (LacksBridgeFamily(host, record)) {
    return Finding{
        .area = Finding::Area::kPolicy,
        .owner = bridge.name,
        .text = Format("policies do not apply to link-local addresses on bridge '{}': the kernel "
                       "has no bridge family of nf_tables",
                       bridge.name),
        .fix = Fix::Advice("a kernel with CONFIG_NF_TABLES_BRIDGE, or no policy that selects it"),
        .severity = Finding::Severity::kWarning};
  }
  // This file exists only while br_netfilter is loaded. Without the module the bridge's flags have
  // no effect.
  const bool has_module = netlink::FindSysctl("net/bridge/bridge-nf-call-iptables").has_value();
  if (has_module && (link::IsMadeByUs(bridge) || PassesFramesToIpChains(bridge))) {
    return std::nullopt;
  }
  return Finding{
      .area = Finding::Area::kPolicy,
      .owner = bridge.name,
      .text = Format(
          "policies do not apply to traffic between the ports of bridge '{}': {}",
          bridge.name,
          has_module
              ? "nomad-bridge did not create it, and it does not pass its traffic to nf_tables"
              : "br_netfilter is not loaded"),
      .fix = has_module
                 ? Format("ip link set {} type bridge nf_call_iptables 1 nf_call_ip6tables 1",
                          ShellWord(bridge.name))
                 : "modprobe br_netfilter"};
}

// Returns whether policies may apply to `record`. On a bridge of ours any policy counts: the flags
// are set for the whole bridge, because any port may send to an attachment that policies apply to.
bool MayPoliciesApply(state::Host& host, const rtnl::Link& bridge, const state::Record& record) {
  const policy::Program& program = host.policy.Program();
  if (program.empty() || link::IsMadeByUs(bridge)) {
    return !program.empty();
  }
  return JudgementOf(record, program).IsAny();
}

// Finds bridges of another plugin by their ports.
std::vector<rtnl::Link> BridgesOf(state::Host& host, const state::Record& record) {
  std::vector<rtnl::Link> bridges;
  const auto add = [&](std::optional<rtnl::Link> bridge) {
    if (bridge && bridge->kind == "bridge") {
      bridges.push_back(*std::move(bridge));
    }
  };
  if (record.IsLive(cni::Part::kLink)) {
    add(host.net.FindLink(record.link.bridge));
  }
  for (const std::string& ifname : record.link.foreign_ports) {
    const std::optional<rtnl::Link> port = host.net.FindLink(ifname);
    add(port && port->master != 0 ? host.net.FindLink(port->master) : std::nullopt);
  }
  return bridges;
}

// Attachments of our bridges with the same key have the same findings.
std::string KeyOf(state::Host& host, const state::Record& record) {
  return Cat(record.link.bridge, ' ', KindNameOf(JudgementOf(record, host.policy.Program())));
}

// Adds what policies do not see of the record's own traffic.
void AddUnseenOf(state::Host& host, const state::Record& record, FindingList& all) {
  for (const auto find : {&FindUnjudged, &FindTaggedTraffic}) {
    if (std::optional<Finding> finding = find(host, record)) {
      all.push_back(*std::move(finding));
    }
  }
}

}  // namespace

std::optional<Finding> FindUnjudged(state::Host& host, const state::Record& record) {
  const bool is_judged = IsJudged(record) && !record.ipam.addresses.empty();
  if (is_judged || !host.policy.Program().JudgementOf(record.Workload()).IsAny()) {
    return std::nullopt;
  }
  const char* const why = record.ipam.addresses.empty() ? "it has no address"
                          : record.HasRules() || record.Has(cni::Part::kLink)
                              ? "the node does not see its packets, as it is behind no veth or "
                                "bridge that is known"
                              : "nomad-bridge has given it only its addresses";
  return Finding{
      .area = Finding::Area::kPolicy,
      .owner = state::HostVethName(record.id),
      .text = Format("policies do not apply to container '{}' of network '{}': {}",
                     record.id.container_id,
                     record.id.network,
                     why),
      .fix = Fix::Advice("use a network with a bridge of nomad-bridge, or no policy that selects "
                         "it")};
}

std::optional<Finding> FindTaggedTraffic(state::Host& host, const state::Record& record) {
  if (!JudgementOf(record, host.policy.Program()).IsAny() || !record.link.port.vlans ||
      record.link.port.vlans->tagged.empty()) {
    return std::nullopt;
  }
  return Finding{.area = Finding::Area::kPolicy,
                 .owner = state::HostVethName(record.id),
                 .text = Format("policies do not apply to what container '{}' of network '{}' "
                                "sends and receives with VLAN tags ('vlanTrunk')",
                                record.id.container_id,
                                record.id.network),
                 .fix = Fix::Advice("let what is beyond the bridge filter these VLANs"),
                 .severity = Finding::Severity::kWarning};
}

void CheckBridgeNetfilter(state::Host& host,
                          const rtnl::Link& bridge,
                          const state::Record& record,
                          Findings& findings) {
  if (!MayPoliciesApply(host, bridge, record)) {
    return;
  }
  if (std::optional<Finding> unseen = FindUnseen(host, bridge, record)) {
    findings.AddUnrepairable(*std::move(unseen));
  }
  if (link::IsMadeByUs(bridge) && bridge.nf_call != kBoth) {
    findings.Add({Finding::Area::kPolicy,
                  bridge.name,
                  Format("bridge '{}' does not pass the traffic between its ports to nf_tables",
                         bridge.name)},
                 [&] { host.net.Change(bridge, {.nf_call = kBoth}); });
  }
}

void RequireBridgeNetfilter(state::Host& host,
                            const rtnl::Link& bridge,
                            const state::Record& record) {
  const std::optional<Finding> unseen =
      MayPoliciesApply(host, bridge, record) ? FindUnseen(host, bridge, record) : std::nullopt;
  if (unseen) {
    throw Error(link::IsMadeByUs(bridge) ? Code::kKernel : Code::kConflict,
                unseen->text,
                unseen->fix.Line());
  }
}

FindingList FindUnseenTraffic(state::Host& host, const std::vector<state::Record>& records) {
  FindingList all;
  std::set<std::string> found;  // names of bridges
  std::set<std::string> looked_at;
  for (const state::Record& record : records) {
    AddUnseenOf(host, record, all);
    if (host.policy.Program().empty() ||
        (record.link.foreign_ports.empty() && !looked_at.insert(KeyOf(host, record)).second)) {
      continue;
    }
    for (const rtnl::Link& bridge : BridgesOf(host, record)) {
      Findings findings(Mode::kLook);
      CheckBridgeNetfilter(host, bridge, record, findings);
      if (!findings.empty() && found.insert(bridge.name).second) {
        Append(all, findings.left());
      }
    }
  }
  return all;
}

config::Config WithoutUnsupportedDefaults(config::Config config, state::Host& host) {
  const bool is_isolated = config.rules.ingress == firewall::Ingress::kIsolated;
  if ((!config.link.port.source_check && !is_isolated) || firewall::HasBridgeFamily(host.nft)) {
    return config;
  }
  constexpr const char* kWhy =
      "the kernel has no bridge family of nf_tables (CONFIG_NF_TABLES_BRIDGE)";
  // Refuses what the operator requests. Leaves out what is only a default, and logs a line.
  if (is_isolated) {
    throw Error(Code::kUnsupportedField, "unsupported 'ingressPolicy': \"isolated\"", kWhy);
  }
  if (config.link.requires_source_check) {
    throw Error(Code::kUnsupportedField, "unsupported 'sourceCheck': true", kWhy);
  }
  LogLine("what allocations send is not checked (sourceCheck): {}", kWhy);
  config.link.port.source_check = false;
  return config;
}

}  // namespace nomad_bridge::rules
