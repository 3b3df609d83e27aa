#include "plugin/record.h"

#include <algorithm>
#include <iterator>
#include <sstream>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "firewall/members.h"
#include "plugin/log.h"
#include "plugin/names.h"
#include "portmap/elements.h"

namespace nomad_bridge {
namespace {

using nlohmann::json;

constexpr const char* kFolder = "/run/nomad-bridge";
constexpr const char* kLockFile = "/run/nomad-bridge/.lock";
constexpr const char* kTrustFile = "/run/nomad-bridge/.generation";
constexpr std::string_view kSuffix = ".json";
constexpr std::uint64_t kRulesByte = 0;
constexpr std::string_view kGateLine = "gate ";
constexpr std::string_view kNoteLine = "note ";

std::string BootId() {
  std::string id = FindFile("/proc/sys/kernel/random/boot_id").value_or("unknown");
  id.erase(id.find_last_not_of(" \n") + 1);
  return id;
}

// A name for the file of `who`, at most 250 bytes: readable, and unique also when it had to be cut.
std::string FileName(const Attachment& who) {
  constexpr std::size_t kLongestId = 190;
  constexpr std::size_t kKeptOfId = 150;
  const std::string id =
      who.container_id.size() <= kLongestId
          ? who.container_id
          : Cat(who.container_id.substr(0, kKeptOfId), '~', Hex(StableHash(who.container_id), 16));
  return Cat(id, '@', who.ifname, kSuffix);
}

// A byte of the lock file for `who`; never the rules' one.
std::uint64_t LockByte(const Attachment& who) {
  return StableHash(Cat(who.network, '/', who.container_id, '@', who.ifname)) | 1;
}

json ToJson(const NetnsId& id) {
  return {{"device", id.device}, {"inode", id.inode}};
}

NetnsId ParseNetnsId(const json& value) {
  return {value.at("device"), value.at("inode")};
}

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

void Append(std::vector<NftElement>& list, std::vector<NftElement> more) {
  std::move(more.begin(), more.end(), std::back_inserter(list));
}

// The container id inside the record `path`, which may be anything: nullopt then.
std::optional<std::string> FindWholeId(const std::string& path) {
  try {
    return json::parse(FindFile(path).value_or("")).at("containerId").get<std::string>();
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

}  // namespace

bool Record::HasIpv6() const {
  return std::any_of(
      addresses.begin(), addresses.end(), [](const Cidr& cidr) { return !cidr.address.is_ipv4(); });
}

Mac Record::GuestMac() const {
  const Mac derived = addresses.empty() ? Mac::ForName(Cat(HostVethName(who), " guest"))
                                        : Mac::For(addresses.front().address);
  return mac.value_or(derived);
}

std::vector<NftElement> ElementsOf(const Record& record) {
  const std::string comment = ElementComment(record.who, record.labels);
  const bool has_ports = record.Has(Part::kPorts);
  std::vector<firewall::Member> members;
  for (const Cidr& cidr : record.addresses) {
    members.push_back({.address = cidr.address,
                       .forward = record.Has(Part::kForward),
                       .masquerade = record.Has(Part::kMasquerade) && record.ip_masq,
                       .snat = has_ports && record.snat,
                       .masquerade_all = has_ports && record.masq_all});
  }
  std::vector<NftElement> elements = firewall::Elements(members, comment);
  if (has_ports) {
    Append(elements, portmap::Elements(record.ports, comment));
  }
  if (elements.empty()) {
    return {};  // no rules, so it does not matter where its packets come from
  }
  for (const std::string& link : record.host_links) {
    NftElement& element = elements.emplace_back(firewall::BridgeElement(link));
    element.comment = comment;
  }
  if (!record.bridge.empty() && record.bridge != record.gate) {
    // With br_netfilter what passes the bridge between two ports passes the rules, too.
    elements.push_back(firewall::BridgeElement(record.bridge));
  }
  if (!record.gate.empty()) {
    elements.push_back(firewall::BridgeElement(record.gate));
    if (record.Has(Part::kForward)) {
      Append(elements, firewall::ElementsFor(record.ingress, record.gate).wanted);
    }
  }
  return elements;
}

Records::Records(const NetnsId& host) : host_(host), boot_id_(BootId()) {}

std::optional<Record> Records::Find(const Attachment& who) const {
  const std::string path = PathOf(who);
  try {
    const std::optional<std::string> text = FindFile(path);
    if (!text) {
      return std::nullopt;
    }
    const json value = json::parse(*text);
    if (value.at("bootId") != boot_id_ || ParseNetnsId(value.at("hostNetns")) != host_) {
      return std::nullopt;
    }
    return ParseRecord(value);
  } catch (const std::exception& error) {
    Say("cannot read the record ", Quoted(path), ", ignoring it: ", error.what());
    return std::nullopt;
  }
}

void Records::Write(const Record& record) const {
  if (record.netns == NetnsId{}) {
    return;
  }
  EnsureFolder(Cat(kFolder, '/', record.who.network));
  json value = ToJson(record);
  value["bootId"] = boot_id_;
  value["hostNetns"] = ToJson(host_);
  // Labels may hold any bytes; a file of ours is always valid JSON.
  const std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  const std::string path = PathOf(record.who);
  // A new file leaves nothing behind if we are killed; replacing may, but only beside a record that
  // somebody removes.
  if (!CreateFile(path, text)) {
    ReplaceFile(path, text);
  }
}

void Records::EnsureGone(const Attachment& who) const {
  const std::string path = PathOf(who);
  EnsureFileGone(path + ".new");  // of a writer that was killed while it replaced the record
  EnsureFileGone(path);
}

std::vector<Attachment> Records::List(const std::string& network) const {
  if (network.empty()) {
    std::vector<Attachment> all;
    for (const std::string& name : Entries(kFolder)) {
      const std::vector<Attachment> some = List(name);
      all.insert(all.end(), some.begin(), some.end());
    }
    return all;
  }
  std::vector<Attachment> found;
  for (const std::string& name : Entries(Cat(kFolder, '/', network))) {
    const std::size_t at = name.find('@');  // never part of a container id
    if (at == std::string::npos || !name.ends_with(kSuffix)) {
      continue;
    }
    const std::string id = name.substr(0, at);
    Attachment who{network, id, name.substr(at + 1, name.size() - at - 1 - kSuffix.size())};
    if (id.find('~') != std::string::npos) {  // cut: only the file knows the whole id
      std::optional<std::string> whole = FindWholeId(Cat(kFolder, '/', network, '/', name));
      if (!whole) {
        continue;
      }
      who.container_id = *std::move(whole);
    }
    found.push_back(std::move(who));
  }
  return found;
}

std::optional<Record> Records::FindOwner(std::string_view owner) const {
  for (const Attachment& who : List("")) {
    if (HostVethName(who) == owner) {
      return Find(who);
    }
  }
  return std::nullopt;
}

RangeLock Records::Lock(const Attachment& who) const {
  EnsureFolder(kFolder);
  return RangeLock::Take(
      kLockFile,
      LockByte(who),
      Cat("interface ", Quoted(who.ifname), " of container ", Quoted(who.container_id)));
}

std::optional<RangeLock> Records::TryLock(const Attachment& who) const {
  EnsureFolder(kFolder);
  return RangeLock::TryTake(kLockFile, LockByte(who));
}

RangeLock Records::LockRules() const {
  EnsureFolder(kFolder);
  return RangeLock::Take(kLockFile, kRulesByte, "the node's rules");
}

std::optional<Records::Trust> Records::FindTrust() const {
  std::istringstream text(FindFile(kTrustFile).value_or(""));
  std::string boot_id;
  NetnsId host;
  Trust trust;
  text >> boot_id >> host.device >> host.inode >> trust.generation >> trust.accept_mark_bit;
  if (!text || boot_id != boot_id_ || host != host_) {
    return std::nullopt;
  }
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with(kGateLine)) {
      trust.gates.push_back(line.substr(kGateLine.size()));
    } else if (line.starts_with(kNoteLine)) {
      trust.notes.push_back(line.substr(kNoteLine.size()));
    }
  }
  return trust;
}

void Records::WriteTrust(const Trust& trust) const {
  EnsureFolder(kFolder);
  std::string text = Cat(boot_id_,
                         ' ',
                         host_.device,
                         ' ',
                         host_.inode,
                         ' ',
                         trust.generation,
                         ' ',
                         trust.accept_mark_bit,
                         '\n');
  for (const std::string& gate : trust.gates) {
    text += Cat(kGateLine, gate, '\n');
  }
  for (const std::string& note : trust.notes) {
    text += Cat(kNoteLine, note, '\n');
  }
  ReplaceFile(kTrustFile, text);
}

std::string Records::Folder() {
  return kFolder;
}

std::string Records::PathOf(const Attachment& who) const {
  return Cat(kFolder, '/', who.network, '/', FileName(who));
}

}  // namespace nomad_bridge
