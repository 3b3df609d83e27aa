#include "plugin/record_json.h"

#include "plugin/names.h"

namespace nomad_bridge {
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

json ToJson(const std::vector<portmap::Mapping>& ports) {
  json list = json::array();
  for (const portmap::Mapping& port : ports) {
    list.push_back({{"protocol", portmap::Text(port.protocol)},
                    {"hostIp", port.host_ip ? port.host_ip->Text() : ""},
                    {"hostPort", port.host_port},
                    {"guestIp", port.guest_ip.Text()},
                    {"guestPort", port.guest_port}});
  }
  return list;
}

std::vector<portmap::Mapping> ParsePorts(const json& list) {
  std::vector<portmap::Mapping> ports;
  for (const json& port : list) {
    ports.push_back(
        {.protocol = portmap::ParseProtocol(port.at("protocol").get<std::string>()).value(),
         .host_ip = Ip::Parse(port.at("hostIp").get<std::string>()),
         .host_port = port.at("hostPort"),
         .guest_ip = Ip::Parse(port.at("guestIp").get<std::string>()).value(),
         .guest_port = port.at("guestPort")});
  }
  return ports;
}

json ToJson(const Labels& labels) {
  json list = json::array();
  for (const Label& label : labels) {
    list.push_back({{"key", label.key}, {"value", label.value}});
  }
  return list;
}

Labels ParseLabels(const json& list) {
  Labels labels;
  for (const json& label : list) {
    labels.push_back({label.at("key"), label.at("value")});
  }
  return labels;
}

json ToJson(const Parts& parts) {
  json texts = json::array();
  for (const Part part : parts) {
    texts.push_back(Text(part));
  }
  return texts;
}

Parts ParseParts(const json& texts) {
  Parts parts;
  for (const json& text : texts) {
    parts.insert(ParsePart(text.get<std::string>()).value());
  }
  return parts;
}

// "", "begun", "without rules".
std::string_view Text(Leaving leaving) {
  switch (leaving) {
    case Leaving::kNot:
      return "";
    case Leaving::kBegun:
      return "begun";
    case Leaving::kWithoutRules:
      return "without rules";
  }
  return {};
}

Leaving ParseLeaving(const std::string& text) {
  for (const Leaving leaving : {Leaving::kBegun, Leaving::kWithoutRules}) {
    if (text == Text(leaving)) {
      return leaving;
    }
  }
  return Leaving::kNot;
}

json ToJson(const std::optional<Giver>& giver) {
  if (!giver) {
    return nullptr;
  }
  return {{"type", giver->type},
          {"cniPath", giver->cni_path},
          {"args", giver->args},
          {"config", giver->config}};
}

std::optional<Giver> ParseGiver(const json& value) {
  if (value.is_null()) {
    return std::nullopt;
  }
  return Giver{.type = value.at("type"),
               .cni_path = value.at("cniPath"),
               .args = value.at("args"),
               .config = value.at("config")};
}

json ToJson(const Port& port) {
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

Port ParsePort(const json& value) {
  Port port{.hairpin = value.at("hairpin"),
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

}  // namespace

json ToJson(const NetnsId& id) {
  return {{"device", id.device}, {"inode", id.inode}};
}

NetnsId ParseNetnsId(const json& value) {
  return {value.at("device"), value.at("inode")};
}

json ToJson(const Record& record) {
  return {{"network", record.who.network},
          {"containerId", record.who.container_id},
          {"ifname", record.who.ifname},
          {"parts", ToJson(record.parts)},
          {"labels", ToJson(record.labels)},
          {"netnsPath", record.netns_path},
          {"netns", ToJson(record.netns)},
          {"hostVeth", HostVethName(record.who)},
          {"bridge", record.bridge},
          {"gate", record.gate},
          {"hostLinks", record.host_links},
          {"port", ToJson(record.port)},
          {"mac", record.mac ? record.mac->Text() : ""},
          {"gateways", ToJson(record.gateways)},
          {"addresses", ToJson(record.addresses)},
          {"dataDir", record.data_dir},
          {"leases", ToJson(record.leases)},
          {"giver", ToJson(record.giver)},
          {"leaving", Text(record.leaving)},
          {"ipMasq", record.ip_masq},
          {"snat", record.snat},
          {"masqAll", record.masq_all},
          {"adminChain", record.policy.admin_chain},
          {"acceptMarkBit", record.policy.accept_mark_bit},
          {"ingress", firewall::Text(record.ingress)},
          {"firewalldZone", record.firewalld_zone},
          {"ports", ToJson(record.ports)}};
}

Record ParseRecord(const json& value) {
  Record record{.who = {value.at("network"), value.at("containerId"), value.at("ifname")},
                .parts = ParseParts(value.at("parts")),
                .labels = ParseLabels(value.at("labels")),
                .netns_path = value.at("netnsPath"),
                .netns = ParseNetnsId(value.at("netns")),
                .bridge = value.at("bridge"),
                .gate = value.at("gate"),
                .host_links = value.at("hostLinks"),
                .port = ParsePort(value.at("port")),
                .mac = Mac::Parse(value.at("mac").get<std::string>()),
                .gateways = ParseCidrs(value.at("gateways")),
                .addresses = ParseCidrs(value.at("addresses")),
                .data_dir = value.at("dataDir"),
                .leases = ParseCidrs(value.at("leases")),
                .giver = ParseGiver(value.at("giver")),
                .leaving = ParseLeaving(value.value("leaving", "")),
                .ip_masq = value.at("ipMasq"),
                .snat = value.at("snat"),
                .masq_all = value.at("masqAll"),
                .policy = {.admin_chain = value.at("adminChain"),
                           .accept_mark_bit = value.at("acceptMarkBit")},
                .ingress = firewall::ParseIngress(value.at("ingress").get<std::string>()).value(),
                .firewalld_zone = value.at("firewalldZone"),
                .ports = ParsePorts(value.at("ports"))};
  record.policy.ipv6 = record.HasIpv6();
  return record;
}

}  // namespace nomad_bridge
