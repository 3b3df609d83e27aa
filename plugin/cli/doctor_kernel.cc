#include <cstdlib>
#include <set>
#include <utility>

#include "base/file.h"
#include "base/list.h"
#include "base/text.h"
#include "netlink/core/sysctl.h"
#include "plugin/cli/doctor_checks.h"
#include "plugin/link/forwarding.h"
#include "plugin/rules/forward_hooks.h"
#include "plugin/rules/port_side_effects.h"

namespace nomad_bridge::cli {
namespace {

// Not loaded, and not among those of this kernel. Where that has no list of them it cannot be told.
bool IsModuleMissing(const Examination& node, const std::string& name) {
  const std::string directory = Cat("/lib/modules/", node.release);
  constexpr std::size_t kMaxBytes = 64 << 20;
  const std::optional<std::string> loadable = FindFile(directory + "/modules.dep", kMaxBytes);
  const std::string builtin = FindFile(directory + "/modules.builtin", kMaxBytes).value_or("");
  const std::string file = Format("/{}.ko", name);
  return loadable && !FindStatus(Cat("/sys/module/", name)) &&
         loadable->find(file) == std::string::npos && builtin.find(file) == std::string::npos;
}

Diagnoses CheckModule(const Examination& node, const std::string& name, bool is_seen) {
  if (!is_seen && IsModuleMissing(node, name)) {
    return {{Verdict::kFail,
             Format("kernel {} has no module {}", node.release, name),
             Format("boot a kernel that has it, or install its modules; then: modprobe {}", name)}};
  }
  return {};
}

long NumberIn(const std::string& sysctl) {
  return std::strtol(netlink::FindSysctl(sysctl).value_or("0").c_str(), nullptr, 10);
}

// A rule of the operator's about packets from one interface to one.
bool IsBetweenInterfaces(const nft::KernelRule& rule) {
  const auto names = [&](std::string_view word) {
    for (const std::string& text : rule.expressions) {
      if (text.find(word) != std::string::npos) {
        return true;
      }
    }
    return false;
  };
  return names("meta load iif") && names("meta load oif");
}

}  // namespace

Diagnoses CheckNfTables(Examination& node) {
  try {
    static_cast<void>(node.host.nft.Generation());
    return {{Verdict::kOk, node.release}};
  } catch (const std::exception& error) {
    return {{Verdict::kFail, error.what(), "modprobe nf_tables"}};
  }
}

Diagnoses CheckBridgeModule(Examination& node) {
  bool is_seen = false;
  for (const rtnl::Link& link : node.inventory.links) {
    is_seen = is_seen || link.kind == "bridge";
  }
  return CheckModule(node, "bridge", is_seen);
}

Diagnoses CheckConntrack(Examination& node) {
  return CheckModule(
      node, "nf_conntrack", netlink::FindSysctl("net/netfilter/nf_conntrack_count").has_value());
}

// What neighbours on a bridge send each other passes table ip filter only with it.
Diagnoses CheckBrNetfilter(Examination& node) {
  constexpr const char* kSetting = "net/bridge/bridge-nf-call-iptables";
  const bool is_on = netlink::IsSysctlOn(kSetting);
  std::set<std::string> chains;
  for (const Attachment* const attachment : node.running) {
    if (rules::HasForwardHook(*attachment->record)) {
      chains.insert(attachment->record->rules.forward_hook.admin_chain);
    }
  }
  for (const std::string& chain : chains) {
    for (const nft::KernelRule& rule :
         node.host.nft.Rules({nft::TableFamily::kIp, "filter"}, chain)) {
      if (!is_on && IsBetweenInterfaces(rule)) {
        return {
            {Verdict::kFail,
             Format("chain {} has rules between interfaces, which neighbours on one bridge pass "
                    "by: br_netfilter is off",
                    chain),
             "modprobe br_netfilter && sysctl -w net.bridge.bridge-nf-call-iptables=1"}};
      }
    }
  }
  return {{Verdict::kOk, is_on ? "on" : "off, and nothing needs it"}};
}

Diagnoses CheckConntrackRoom(Examination& /*node*/) {
  constexpr long kMostPercent = 90;
  const long count = NumberIn("net/netfilter/nf_conntrack_count");
  const long most = NumberIn("net/netfilter/nf_conntrack_max");
  const std::string what = Format("{} of {} connections", count, most);
  if (most == 0 || count * 100 < most * kMostPercent) {
    return {{Verdict::kOk, most == 0 ? "" : what}};
  }
  return {{count >= most ? Verdict::kFail : Verdict::kWarn,
           Cat(what, ": new ones are dropped when it is full"),
           Cat("sysctl -w net.netfilter.nf_conntrack_max=", most * 2)}};
}

Diagnoses CheckForwarding(Examination& node) {
  std::vector<std::string> off;
  for (const auto& [ifname, record] : node.gateways) {
    Append(off, link::DiffForwarding(ifname, record->link.gateways));
  }
  return AllAs(Verdict::kFail, off, kReconcileFix);
}

// An allocation in two networks answers by the default route through one, also from its address in the
// other.
Diagnoses CheckReversePath(Examination& node) {
  constexpr long kStrict = 1;
  std::map<std::string, std::set<std::string>> gateways_of;  // by container
  for (const Attachment* const attachment : node.running) {
    gateways_of[attachment->id.container_id].insert(attachment->record->link.gateway_ifname);
  }
  std::set<std::string> strict;
  for (const auto& [container, gateways] : gateways_of) {
    for (const std::string& ifname : gateways) {
      const long mode = std::max(NumberIn("net/ipv4/conf/all/rp_filter"),
                                 NumberIn(Format("net/ipv4/conf/{}/rp_filter", ifname)));
      if (gateways.size() > 1 && mode == kStrict) {
        strict.insert(ifname);
      }
    }
  }
  Diagnoses diagnoses;
  for (const std::string& ifname : strict) {
    diagnoses.push_back(
        {Verdict::kWarn,
         Format("rp_filter of '{}' is strict: what allocations in two networks answer is dropped",
                ifname),
         Format("sysctl -w net.ipv4.conf.{}.rp_filter=2", ifname)});
  }
  return diagnoses;
}

Diagnoses CheckRouteLocalnet(Examination& node) {
  std::set<std::string> off;
  for (const Attachment* const attachment : node.running) {
    const std::vector<std::string> mismatches =
        attachment->record->IsLive(cni::Part::kPorts)
            ? rules::DiffLocalhostReaches(node.host, *attachment->record)
            : std::vector<std::string>();
    off.insert(mismatches.begin(), mismatches.end());
  }
  return AllAs(Verdict::kFail, {off.begin(), off.end()}, kReconcileFix);
}

}  // namespace nomad_bridge::cli
