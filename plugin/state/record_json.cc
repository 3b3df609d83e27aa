#include "plugin/state/record_json.h"

#include <exception>

#include <nlohmann/json.hpp>

#include "plugin/state/kernel_names.h"

namespace nomad_bridge::state {
namespace {

using nlohmann::json;

json ToJson(const std::vector<Cidr>& cidrs) {
  json texts = json::array();
  for (const Cidr& cidr : cidrs) {
    texts.push_back(cidr.Text());
  }
  return texts;
}

std::vector<Cidr> ParseCidrs(const json& texts) {
  std::vector<Cidr> cidrs;
  for (const json& text : texts) {
    cidrs.push_back(Cidr::Parse(text.get<std::string>()).value());
  }
  return cidrs;
}

json ToJson(const std::vector<portmap::DnatEntry>& ports) {
  json list = json::array();
  for (const portmap::DnatEntry& port : ports) {
    list.push_back({{"protocol", portmap::Text(port.protocol)},
                    {"hostIp", port.host_ip ? port.host_ip->Text() : ""},
                    {"hostPort", port.host_port},
                    {"containerIp", port.container_ip.Text()},
                    {"containerPort", port.container_port}});
  }
  return list;
}

std::vector<portmap::DnatEntry> ParsePorts(const json& list) {
  std::vector<portmap::DnatEntry> ports;
  for (const json& port : list) {
    ports.push_back(
        {.protocol = portmap::ParseProtocol(port.at("protocol").get<std::string>()).value(),
         .host_ip = Ip::Parse(port.at("hostIp").get<std::string>()),
         .host_port = port.at("hostPort"),
         .container_ip = Ip::Parse(port.at("containerIp").get<std::string>()).value(),
         .container_port = port.at("containerPort")});
  }
  return ports;
}

json ToJson(const cni::Labels& labels) {
  json list = json::array();
  for (const cni::Label& label : labels) {
    list.push_back({{"key", label.key}, {"value", label.value}});
  }
  return list;
}

cni::Labels ParseLabels(const json& list) {
  cni::Labels labels;
  for (const json& label : list) {
    labels.push_back({label.at("key"), label.at("value")});
  }
  return labels;
}

json ToJson(const cni::Parts& parts) {
  json texts = json::array();
  for (const cni::Part part : parts) {
    texts.push_back(Text(part));
  }
  return texts;
}

cni::Parts ParseParts(const json& texts) {
  cni::Parts parts;
  for (const json& text : texts) {
    parts.insert(cni::ParsePart(text.get<std::string>()).value());
  }
  return parts;
}

// "", "begun", "without rules".
std::string_view Text(DelProgress del_progress) {
  switch (del_progress) {
    case DelProgress::kNone:
      return "";
    case DelProgress::kStarted:
      return "begun";
    case DelProgress::kRulesGone:
      return "without rules";
  }
  return {};
}

DelProgress ParseDelProgress(const std::string& text) {
  for (const DelProgress del_progress : {DelProgress::kStarted, DelProgress::kRulesGone}) {
    if (text == Text(del_progress)) {
      return del_progress;
    }
  }
  return DelProgress::kNone;
}

json ToJson(const std::optional<cni::DelegatedIpam>& delegated_ipam) {
  if (!delegated_ipam) {
    return nullptr;
  }
  return {{"type", delegated_ipam->type},
          {"cniPath", delegated_ipam->cni_path},
          {"args", delegated_ipam->args},
          {"config", delegated_ipam->config}};
}

std::optional<cni::DelegatedIpam> ParseDelegatedIpam(const json& value) {
  if (value.is_null()) {
    return std::nullopt;
  }
  return cni::DelegatedIpam{.type = value.at("type"),
                            .cni_path = value.at("cniPath"),
                            .args = value.at("args"),
                            .config = value.at("config")};
}

json ToJson(const BridgePort& port) {
  json value = {{"hairpin", port.hairpin}, {"isolated", port.isolated}, {"locked", port.locked}};
  if (port.vlans) {
    json tagged = json::array();
    for (const VlanRange& ids : port.vlans->tagged) {
      tagged.push_back({ids.first, ids.last});
    }
    value["vlans"] = {{"untagged", port.vlans->untagged},
                      {"tagged", tagged},
                      {"keepDefault", port.vlans->keep_default}};
  }
  return value;
}

BridgePort ParsePort(const json& value) {
  BridgePort port{.hairpin = value.at("hairpin"),
                  .isolated = value.at("isolated"),
                  .locked = value.at("locked")};
  if (value.contains("vlans")) {
    const json& vlans = value.at("vlans");
    port.vlans = {.untagged = vlans.at("untagged"), .keep_default = vlans.at("keepDefault")};
    for (const json& ids : vlans.at("tagged")) {
      port.vlans->tagged.push_back({.first = ids.at(0), .last = ids.at(1)});
    }
  }
  return port;
}

json ToJson(const netlink::NetnsId& id) {
  return {{"device", id.device}, {"inode", id.inode}};
}

netlink::NetnsId ParseNetnsId(const json& value) {
  return {value.at("device"), value.at("inode")};
}

json ToJson(const Record& record) {
  return {{"network", record.id.network},
          {"containerId", record.id.container_id},
          {"ifname", record.id.ifname},
          {"parts", ToJson(record.parts)},
          {"labels", ToJson(record.labels)},
          {"netnsPath", record.netns_path},
          {"netns", ToJson(record.netns)},
          {"hostVeth", HostVethName(record.id)},
          {"bridge", record.bridge},
          {"gatewayIfname", record.gateway_ifname},
          {"foreignHostIfnames", record.foreign_host_ifnames},
          {"port", ToJson(record.port)},
          {"mac", record.mac ? record.mac->Text() : ""},
          {"gateways", ToJson(record.gateways)},
          {"addresses", ToJson(record.addresses)},
          {"dataDir", record.data_dir},
          {"leases", ToJson(record.leases)},
          {"delegatedIpam", ToJson(record.delegated_ipam)},
          {"delProgress", Text(record.del_progress)},
          {"ipMasq", record.ip_masq},
          {"snat", record.snat},
          {"masqAll", record.masq_all},
          {"adminChain", record.forward_hook.admin_chain},
          {"acceptMarkBit", record.forward_hook.accept_mark_bit},
          {"ingress", firewall::Text(record.ingress)},
          {"firewalldZone", record.firewalld_zone},
          {"ports", ToJson(record.ports)}};
}

Record ParseRecord(const json& value) {
  Record record{.id = {value.at("network"), value.at("containerId"), value.at("ifname")},
                .parts = ParseParts(value.at("parts")),
                .labels = ParseLabels(value.at("labels")),
                .netns_path = value.at("netnsPath"),
                .netns = ParseNetnsId(value.at("netns")),
                .bridge = value.at("bridge"),
                .gateway_ifname = value.at("gatewayIfname"),
                .foreign_host_ifnames = value.at("foreignHostIfnames"),
                .port = ParsePort(value.at("port")),
                .mac = Mac::Parse(value.at("mac").get<std::string>()),
                .gateways = ParseCidrs(value.at("gateways")),
                .addresses = ParseCidrs(value.at("addresses")),
                .data_dir = value.at("dataDir"),
                .leases = ParseCidrs(value.at("leases")),
                .delegated_ipam = ParseDelegatedIpam(value.at("delegatedIpam")),
                .del_progress = ParseDelProgress(value.value("delProgress", "")),
                .ip_masq = value.at("ipMasq"),
                .snat = value.at("snat"),
                .masq_all = value.at("masqAll"),
                .forward_hook = {.admin_chain = value.at("adminChain"),
                                 .accept_mark_bit = value.at("acceptMarkBit")},
                .ingress = firewall::ParseIngress(value.at("ingress").get<std::string>()).value(),
                .firewalld_zone = value.at("firewalldZone"),
                .ports = ParsePorts(value.at("ports"))};
  record.forward_hook.ipv6 = record.HasIpv6();
  return record;
}

}  // namespace

std::string FormatRecord(const Record& record, const Origin& origin) {
  json value = ToJson(record);
  value["bootId"] = origin.boot_id;
  value["hostNetns"] = ToJson(origin.netns);
  // Labels may hold any bytes; a file of ours is always valid JSON.
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
