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
#include "plugin/record_json.h"
#include "portmap/elements.h"

namespace nomad_bridge {
namespace {

using nlohmann::json;

constexpr const char* kFolder = "/run/nomad-bridge";
constexpr const char* kLockFile = "/run/nomad-bridge/.lock";
constexpr const char* kTrustFile = "/run/nomad-bridge/.generation";
constexpr std::string_view kSuffix = ".json";
// A record repeats what a config of 8 MiB may say, each byte perhaps as an escape of six.
constexpr std::size_t kMaxRecordBytes = 64 << 20;
constexpr std::uint64_t kRulesByte = 0;
constexpr std::string_view kSharedLine = "shared ";
constexpr std::string_view kGateLine = "gate ";
constexpr std::string_view kNoteLine = "note ";

std::string BootId() {
  std::string id = FindFile("/proc/sys/kernel/random/boot_id").value_or("unknown");
  id.erase(id.find_last_not_of(" \n") + 1);
  return id;
}

// A name for the file of `who`, at most 211 bytes: readable, and unique also when it had to be cut.
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

void Append(std::vector<NftElement>& list, std::vector<NftElement> more) {
  std::move(more.begin(), more.end(), std::back_inserter(list));
}

// What says where its packets come from, and what they may meet there: of a stranger's links its
// own, of a bridge shared.
std::vector<NftElement> WaysOf(const Record& record, const std::string& comment) {
  const auto with_ingress = [&](const std::string& link) {
    std::vector<NftElement> elements = {firewall::BridgeElement(link)};
    if (record.Has(Part::kForward)) {
      Append(elements, firewall::ElementsFor(record.ingress, link).wanted);
    }
    return elements;
  };
  std::vector<NftElement> elements;
  for (const std::string& link : record.host_links) {
    Append(elements, with_ingress(link));
  }
  for (NftElement& element : elements) {
    element.comment = comment;
  }
  if (!record.bridge.empty() && record.bridge != record.gate) {
    // With br_netfilter what passes the bridge between two ports passes the rules, too.
    elements.push_back(firewall::BridgeElement(record.bridge));
  }
  if (!record.gate.empty()) {
    Append(elements, with_ingress(record.gate));
  }
  return elements;
}

// The container id inside the record `path`, which may be anything: nullopt then.
std::optional<std::string> FindWholeId(const std::string& path) {
  try {
    return json::parse(FindFile(path, kMaxRecordBytes).value_or(""))
        .at("containerId")
        .get<std::string>();
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

// Whether `text` is a record that somebody wrote since the machine started.
bool IsOfBoot(const std::string& boot_id, const std::string& text) {
  try {
    const json value = json::parse(text);
    static_cast<void>(ParseRecord(value));
    return value.at("bootId") == boot_id;
  } catch (const std::exception&) {
    return false;
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
  if (record.leaving == Leaving::kWithoutRules) {
    return {};
  }
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
  Append(elements, WaysOf(record, comment));
  return elements;
}

Records::Records(const NetnsId& host) : host_(host), boot_id_(BootId()) {}

std::optional<Record> Records::Find(const Attachment& who) const {
  const std::string path = PathOf(who);
  try {
    const std::optional<std::string> text = FindFile(path, kMaxRecordBytes);
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

void Records::EnsureVoidGone(const Attachment& who) const {
  // That it cannot be opened just now says nothing of what is in it.
  const std::optional<std::string> text = FindFile(PathOf(who), kMaxRecordBytes);
  if (!text || !IsOfBoot(boot_id_, *text)) {
    EnsureGone(who);
  }
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
    if (line.starts_with(kSharedLine)) {
      trust.shared.push_back(line.substr(kSharedLine.size()));
    } else if (line.starts_with(kGateLine)) {
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
  for (const std::string& hash : trust.shared) {
    text += Cat(kSharedLine, hash, '\n');
  }
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
