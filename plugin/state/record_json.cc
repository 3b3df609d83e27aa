#include "plugin/state/record_json.h"

#include <array>
#include <exception>

#include <nlohmann/json.hpp>

#include "plugin/state/kernel_names.h"

namespace nomad_bridge::state {
namespace {

using nlohmann::json;

json ToJson(const Cidr& cidr) {
  return cidr.Text();
}

Cidr ParseCidr(const json& value) {
  return Cidr::Parse(value.get<std::string>()).value();
}

json ToJson(cni::Part part) {
  return cni::Text(part);
}

cni::Part ParsePart(const json& value) {
  return cni::ParsePart(value.get<std::string>()).value();
}

json ToJson(const cni::Label& label) {
  return {{"key", label.key}, {"value", label.value}};
}

cni::Label ParseLabel(const json& value) {
  return {.key = value.at("key"), .value = value.at("value")};
}

json ToJson(const netlink::NetnsId& id) {
  return {{"device", id.device}, {"inode", id.inode}};
}

netlink::NetnsId ParseNetnsId(const json& value) {
  return {value.at("device"), value.at("inode")};
}

json ToJson(const VlanRange& ids) {
  return json::array({ids.first, ids.last});
}

VlanRange ParseVlanRange(const json& value) {
  return {.first = value.at(0), .last = value.at(1)};
}

json ToJson(const portmap::DnatEntry& port) {
  return {{"protocol", portmap::Text(port.protocol)},
          {"hostIp", port.host_ip ? port.host_ip->Text() : ""},
          {"hostPort", port.host_port},
          {"containerIp", port.container_ip.Text()},
          {"containerPort", port.container_port}};
}

portmap::DnatEntry ParseDnatEntry(const json& value) {
  return {.protocol = portmap::ParseProtocol(value.at("protocol").get<std::string>()).value(),
          .host_ip = Ip::Parse(value.at("hostIp").get<std::string>()),
          .host_port = value.at("hostPort"),
          .container_ip = Ip::Parse(value.at("containerIp").get<std::string>()).value(),
          .container_port = value.at("containerPort")};
}

// An array of `items`, each by its ToJson.
template <typename Items>
json ArrayOf(const Items& items) {
  json array = json::array();
  for (const auto& item : items) {
    array.push_back(ToJson(item));
  }
  return array;
}

template <typename Item>
std::vector<Item> ParseArray(const json& array, Item (*parse)(const json&)) {
  std::vector<Item> items;
  for (const json& item : array) {
    items.push_back(parse(item));
  }
  return items;
}

// kNone is not written: a record without the key has none.
constexpr std::array kDelProgressTexts = {std::pair{DelProgress::kStarted, "started"},
                                          std::pair{DelProgress::kRulesGone, "rulesGone"}};

json ToJson(DelProgress del_progress) {
  for (const auto& [value, text] : kDelProgressTexts) {
    if (value == del_progress) {
      return text;
    }
  }
  return "";
}

DelProgress ParseDelProgress(const json& value) {
  for (const auto& [del_progress, text] : kDelProgressTexts) {
    if (value == text) {
      return del_progress;
    }
  }
  return DelProgress::kNone;
}

json ToJson(const cni::DelegatedIpam& delegated) {
  return {{"type", delegated.type},
          {"cniPath", delegated.cni_path},
          {"args", delegated.args},
          {"config", delegated.config}};
}

std::optional<cni::DelegatedIpam> ParseDelegated(const json& value) {
  if (value.is_null()) {
    return std::nullopt;
  }
  return cni::DelegatedIpam{.type = value.at("type"),
                            .cni_path = value.at("cniPath"),
                            .args = value.at("args"),
                            .config = value.at("config")};
}

json ToJson(const rtnl::PortVlans& vlans) {
  return {{"untagged", vlans.untagged},
          {"tagged", ArrayOf(vlans.tagged)},
          {"keepDefault", vlans.keep_default}};
}

std::optional<rtnl::PortVlans> ParseVlans(const json& value) {
  if (value.is_null()) {
    return std::nullopt;
  }
  return rtnl::PortVlans{.untagged = value.at("untagged"),
                         .tagged = ParseArray(value.at("tagged"), ParseVlanRange),
                         .keep_default = value.at("keepDefault")};
}

json ToJson(const BridgePort& port) {
  return {{"hairpin", port.hairpin},
          {"isolated", port.isolated},
          {"locked", port.locked},
          {"vlans", port.vlans ? ToJson(*port.vlans) : json()}};
}

BridgePort ParsePort(const json& value) {
  return {.hairpin = value.at("hairpin"),
          .isolated = value.at("isolated"),
          .locked = value.at("locked"),
          .vlans = ParseVlans(value.at("vlans"))};
}

json ToJson(const Record::Link& link) {
  return {{"bridge", link.bridge},
          {"gatewayIfname", link.gateway_ifname},
          {"foreignHostIfnames", link.foreign_host_ifnames},
          {"port", ToJson(link.port)},
          {"mac", link.mac ? link.mac->Text() : ""},
          {"gateways", ArrayOf(link.gateways)}};
}

Record::Link ParseLink(const json& value) {
  return {.bridge = value.at("bridge"),
          .gateway_ifname = value.at("gatewayIfname"),
          .foreign_host_ifnames = value.at("foreignHostIfnames"),
          .port = ParsePort(value.at("port")),
          .mac = Mac::Parse(value.at("mac").get<std::string>()),
          .gateways = ParseArray(value.at("gateways"), ParseCidr)};
}

json ToJson(const Record::Ipam& ipam) {
  return {{"addresses", ArrayOf(ipam.addresses)},
          {"dataDir", ipam.data_dir},
          {"leases", ArrayOf(ipam.leases)},
          {"delegated", ipam.delegated ? ToJson(*ipam.delegated) : json()}};
}

Record::Ipam ParseIpam(const json& value) {
  return {.addresses = ParseArray(value.at("addresses"), ParseCidr),
          .data_dir = value.at("dataDir"),
          .leases = ParseArray(value.at("leases"), ParseCidr),
          .delegated = ParseDelegated(value.at("delegated"))};
}

json ToJson(const Record::Rules& rules) {
  return {{"ipMasq", rules.ip_masq},
          {"snat", rules.snat},
          {"masqAll", rules.masq_all},
          {"adminChain", rules.forward_hook.admin_chain},
          {"acceptMarkBit", rules.forward_hook.accept_mark_bit},
          {"ingress", firewall::Text(rules.ingress)},
          {"firewalldZone", rules.firewalld_zone},
          {"ports", ArrayOf(rules.ports)}};
}

Record::Rules ParseRules(const json& value) {
  return {.ip_masq = value.at("ipMasq"),
          .snat = value.at("snat"),
          .masq_all = value.at("masqAll"),
          .forward_hook = {.admin_chain = value.at("adminChain"),
                           .accept_mark_bit = value.at("acceptMarkBit")},
          .ingress = firewall::ParseIngress(value.at("ingress").get<std::string>()).value(),
          .firewalld_zone = value.at("firewalldZone"),
          .ports = ParseArray(value.at("ports"), ParseDnatEntry)};
}

Record ParseRecord(const json& value) {
  const std::vector<cni::Part> parts = ParseArray(value.at("parts"), ParsePart);
  Record record{.id = {value.at("network"), value.at("containerId"), value.at("ifname")},
                .parts = {parts.begin(), parts.end()},
                .labels = ParseArray(value.at("labels"), ParseLabel),
                .netns_path = value.at("netnsPath"),
                .netns = ParseNetnsId(value.at("netns")),
                .del_progress = ParseDelProgress(value.value("delProgress", "")),
                .link = ParseLink(value.at("link")),
                .ipam = ParseIpam(value.at("ipam")),
                .rules = ParseRules(value.at("rules"))};
  record.rules.forward_hook.ipv6 = record.HasIpv6();
  return record;
}

}  // namespace

std::string FormatRecord(const Record& record, const Origin& origin) {
  const json value = {{"network", record.id.network},
                      {"containerId", record.id.container_id},
                      {"ifname", record.id.ifname},
                      {"hostVeth", HostVethName(record.id)},
                      {"parts", ArrayOf(record.parts)},
                      {"labels", ArrayOf(record.labels)},
                      {"netnsPath", record.netns_path},
                      {"netns", ToJson(record.netns)},
                      {"delProgress", ToJson(record.del_progress)},
                      {"link", ToJson(record.link)},
                      {"ipam", ToJson(record.ipam)},
                      {"rules", ToJson(record.rules)},
                      {"bootId", origin.boot_id},
                      {"hostNetns", ToJson(origin.netns)}};
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

StoredRecord ParseRecord(std::string_view text) {
  const json value = json::parse(text);
  return {.record = ParseRecord(value),
          .origin = {.boot_id = value.at("bootId"), .netns = ParseNetnsId(value.at("hostNetns"))}};
}

std::optional<std::string> FindContainerId(std::string_view text) {
  try {
    return json::parse(text).at("containerId").get<std::string>();
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

bool IsOfBoot(std::string_view text, std::string_view boot_id) {
  try {
    return ParseRecord(text).origin.boot_id == boot_id;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace nomad_bridge::state
