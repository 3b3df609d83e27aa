#include <array>
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
#include "plugin/rules/stale_flows.h"

namespace nomad_bridge::cli {
namespace {

// A module that is neither loaded nor among those of this kernel. Where that has no list of them it
// cannot be told.
CheckResults CheckModule(const Examination& node, const std::string& name, bool is_seen) {
  if (is_seen || FindStatus(Cat("/sys/module/", name))) {
    return {};
  }
  const std::string directory = Cat("/lib/modules/", node.release);
  constexpr std::size_t kMaxBytes = 64 << 20;
  const std::optional<std::string> loadable = FindFile(directory + "/modules.dep", kMaxBytes);
  const std::string builtin = FindFile(directory + "/modules.builtin", kMaxBytes).value_or("");
  if (!loadable || Cat(*loadable, builtin).find(Format("/{}.ko", name)) != std::string::npos) {
    return {};
  }
  return {{Verdict::kFail,
           Format("kernel {} has no module {}", node.release, name),
           Format("boot a kernel that has it, or install its modules; then: modprobe {}", name)}};
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

CheckResults CheckNfTables(Examination& node) {
  try {
    static_cast<void>(node.host.nft.Generation());
    return {{Verdict::kOk, node.release}};
  } catch (const std::exception& error) {
    return {{Verdict::kFail, error.what(), "modprobe nf_tables"}};
  }
}

CheckResults CheckBridgeModule(Examination& node) {
  bool is_seen = false;
  for (const rtnl::Link& link : node.inventory.links) {
    is_seen = is_seen || link.kind == "bridge";
  }
  return CheckModule(node, "bridge", is_seen);
}

CheckResults CheckConntrack(Examination& node) {
  return CheckModule(
      node, "nf_conntrack", netlink::FindSysctl("net/netfilter/nf_conntrack_count").has_value());
}

// What neighbours on a bridge send each other passes table ip filter only with it.
CheckResults CheckBrNetfilter(Examination& node) {
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

CheckResults CheckConntrackRoom(Examination& /*node*/) {
  constexpr long kMaxPercent = 90;
  const long count = NumberIn("net/netfilter/nf_conntrack_count");
  const long most = NumberIn("net/netfilter/nf_conntrack_max");
  const std::string what = Format("{} of {} connections", count, most);
  if (most == 0 || count * 100 < most * kMaxPercent) {
    return {{Verdict::kOk, most == 0 ? "" : what}};
  }
  return {{count >= most ? Verdict::kFail : Verdict::kWarn,
           Cat(what, ": new ones are dropped when it is full"),
           Cat("sysctl -w net.netfilter.nf_conntrack_max=", most * 2)}};
}

// An allocation in two networks answers by the default route through one, also from its address in the
// other.
CheckResults CheckReversePath(Examination& node) {
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
  CheckResults results;
  for (const std::string& ifname : strict) {
    results.push_back(
        {Verdict::kWarn,
         Format("rp_filter of '{}' is strict: what allocations in two networks answer is dropped",
                ifname),
         Format("sysctl -w net.ipv4.conf.{}.rp_filter=2", ifname)});
  }
  return results;
}

constexpr std::array kKernelTable = {
    Check{"kernel.nf_tables", Cost::kCheap, CheckNfTables},
    Check{"kernel.bridge", Cost::kCheap, CheckBridgeModule},
    Check{"kernel.br_netfilter", Cost::kCheap, CheckBrNetfilter},
    Check{"kernel.conntrack", Cost::kCheap, CheckConntrack},
    Check{"conntrack.full", Cost::kCheap, CheckConntrackRoom},
    Check{"sysctl.ip_forward", Cost::kCheap, CheckByReconcile<Mismatch::Area::kForwarding>},
    Check{"sysctl.rp_filter", Cost::kCheap, CheckReversePath},
    Check{"sysctl.route_localnet", Cost::kCheap, CheckByReconcile<Mismatch::Area::kLocalhost>},
};

}  // namespace

const std::span<const Check> kKernelChecks = kKernelTable;

}  // namespace nomad_bridge::cli
