#include <algorithm>
#include <array>

#include "base/list.h"
#include "base/text.h"
#include "plugin/config/sources.h"

namespace nomad_bridge::config {
namespace {

constexpr std::size_t kMaxChainBytes = 28;  // xtables' XT_EXTENSION_MAXNAMELEN without the NUL
constexpr int kMaxMarkBit = 31;
constexpr int kMaxPort = 65535;

// Returns whether the name can be an admin chain. Refuses built-in chains and targets, and
// CNI-FORWARD, which jumps to the admin chain: the jump would be a loop, or not a jump.
bool IsChainName(std::string_view name) {
  constexpr std::array<std::string_view, 8> kTaken = {
      "INPUT", "FORWARD", "OUTPUT", "CNI-FORWARD", "ACCEPT", "DROP", "QUEUE", "RETURN"};
  const bool is_printable = std::ranges::all_of(name, [](char c) { return c > ' ' && c < 0x7f; });
  return is_printable && !name.empty() && name.size() <= kMaxChainBytes && name.front() != '-' &&
         name.front() != '!' && !Contains(kTaken, name);
}

std::string ParseAdminChain(const JsonView& config, const cni::Defaults& defaults) {
  std::string chain = config.FindString("iptablesAdminChainName").value_or(defaults.admin_chain);
  if (!IsChainName(chain)) {
    throw config.Find("iptablesAdminChainName")
        .Wrong(Format("1 to {} printable ASCII characters without white space, none of '-' and "
                      "'!' first, and not the name of a built-in chain or target",
                      kMaxChainBytes));
  }
  return chain;
}

// Returns "unsupported 'backend': \"pf\""; `instead` becomes the details.
Error Unsupported(const JsonView& field, std::string_view instead) {
  return {Code::kUnsupportedField,
          Format("unsupported '{}': {}", field.path(), field.Shown()),
          std::string(instead)};
}

// Checks a backend. 'iptables' and 'nftables' mean the same here: our own table, and static rules
// in the tables that iptables shows. 'firewalld' is only allowed for the firewall plugin.
void CheckBackend(const JsonView& config, std::string_view key, bool may_be_firewalld) {
  const std::optional<std::string> backend = config.FindString(key);
  if (backend && *backend != "iptables" && *backend != "nftables" &&
      !(may_be_firewalld && *backend == "firewalld")) {
    throw Unsupported(
        config.Find(key),
        "allowed: 'nftables' and 'iptables', which are one and the same here, and for "
        "the firewall 'firewalld', in which allocations are allowed wherever it runs");
  }
}

// Refuses conditions. They have the syntax of iptables or nft, which this code does not parse; the
// admin chain can do the same.
void RefuseConditions(const JsonView& config, const std::string& admin_chain) {
  for (const char* const key : {"conditionsV4", "conditionsV6"}) {
    if (!config.FindArray(key).empty()) {
      throw Unsupported(config.Find(key),
                        admin_chain.empty()
                            ? "use the firewall plugin's admin chain, its 'iptablesAdminChainName'"
                            : Cat("use the admin chain ", admin_chain));
    }
  }
}

// Checks the keys for marks, which have no effect. The reference plugin marks packets, and
// masquerades marked packets; we need no mark.
void CheckMarking(const JsonView& config) {
  const std::optional<int> bit = config.FindInteger<int>("markMasqBit", kMaxMarkBit);
  const std::optional<std::string> chain = config.FindString("externalSetMarkChain");
  if (bit && chain) {
    throw config.Find("externalSetMarkChain")
        .Wrong("only one of 'externalSetMarkChain' and 'markMasqBit'");
  }
  if (chain && chain->size() > kMaxChainBytes) {
    throw config.Find("externalSetMarkChain")
        .Wrong(Cat("the name of a chain, at most ", kMaxChainBytes, " bytes"));
  }
}

std::uint16_t ParsePort(const JsonView& port) {
  return static_cast<std::uint16_t>(port.Integer(1, kMaxPort));
}

// Parses a port mapping. portmap::MakePortMappings checks the protocol and the host address.
portmap::PortMappingSpec ParseMapping(const JsonView& object) {
  constexpr std::string_view kShape =
      "an object with 'hostPort' and 'containerPort', and perhaps 'protocol' and 'hostIP'";
  const JsonView host_port = object.Require("hostPort", kShape);
  const JsonView container_port = object.Require("containerPort", kShape);
  return {.path = object.path(),
          .host_port = ParsePort(host_port),
          .container_port = ParsePort(container_port),
          .protocol = object.FindString("protocol").value_or(std::string()),
          .host_ip = object.FindString("hostIP").value_or(std::string())};
}

}  // namespace

RulesConfig ParseRules(const Sources& sources, const cni::PluginType& type) {
  const JsonView& config = sources.config;
  RulesConfig rules;
  if (type.Provides(cni::Part::kMasquerade)) {
    CheckBackend(config, "ipMasqBackend", false);
    rules.ip_masq = config.FindBool("ipMasq").value_or(type.defaults.ip_masq);
    rules.random_ports = config.FindBool("randomPorts").value_or(false);
    rules.non_masquerade_cidrs = config.FindEach("nonMasqueradeCIDRs", &JsonView::Subnet);
  }
  if (type.Provides(cni::Part::kForward)) {
    CheckBackend(config, "backend", true);
    rules.firewalld_zone = config.FindString("firewalldZone").value_or(rules.firewalld_zone);
    rules.forward_hook.admin_chain = ParseAdminChain(config, type.defaults);
    rules.ingress = config.FindWord(
        "ingressPolicy", "open", firewall::kIngressNames, "'open', 'same-bridge' or 'isolated'");
    rules.inbound = config.FindWord(
        "inbound", type.defaults.inbound, firewall::kInboundNames, "'published' or 'any'");
    if (const auto bit = config.FindInteger<int>("acceptMarkBit", kMaxMarkBit)) {
      rules.forward_hook.accept_mark_bit = *bit;
    }
  }
  if (type.ProvidesRules() || type.Provides(cni::Part::kLink)) {
    if (const JsonView policy = config.Find("policy")) {
      rules.policy_required = policy.FindBool("required").value_or(false);
    }
  }
  if (type.Provides(cni::Part::kPorts)) {
    CheckBackend(config, "backend", type.Provides(cni::Part::kForward));
    CheckMarking(config);
    RefuseConditions(config, rules.forward_hook.admin_chain);
    rules.snat = config.FindBool("snat").value_or(true);
    // As in the reference plugin, masqAll has an effect only together with snat.
    rules.masq_all = config.FindBool("masqAll").value_or(false) && rules.snat;
    rules.ports = portmap::MakePortMappings(sources.runtime.FindEach("portMappings", ParseMapping));
  }
  return rules;
}

}  // namespace nomad_bridge::config
