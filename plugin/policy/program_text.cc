#include "plugin/policy/program_text.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/list.h"
#include "base/text.h"

namespace nomad_bridge::policy {
namespace {

constexpr std::string_view kMagic = "nomad-bridge-policy\t1\t";
constexpr int kHashDigits = 16;
constexpr char kField = '\t';
constexpr char kPart = '\x1f';  // within a field

// What policies have, in the order of their fields, and of the lines behind theirs.
constexpr std::array kFlags = {&Policy::only,
                               &Policy::is_audited,
                               &Policy::drops,
                               &Policy::is_closed};
constexpr std::array<std::pair<std::string_view, std::vector<Entry> Policy::*>, 2> kEntries = {
    {{"allow", &Policy::allow}, {"deny", &Policy::deny}}};

// FNV-1a of eight bytes at a time, which takes an eighth of StableHash's time: each ADD has it of
// all policies.
std::uint64_t Checksum(std::string_view text) {
  std::uint64_t hash = StableHash("");
  while (!text.empty()) {
    std::uint64_t word = 0;
    const std::size_t taken = std::min(text.size(), sizeof(word));
    std::memcpy(&word, text.data(), taken);
    hash = std::rotl((hash ^ word) * 0x100000001b3, 29);
    text.remove_prefix(taken);
  }
  return hash;
}

Error Damaged(std::string_view why) {
  return {Code::kDecode, "the compiled policies are damaged", std::string(why)};
}

std::string_view TakeField(std::string_view& rest) {
  return TakeUntil(kField, rest);
}

std::size_t Number(std::string_view text) {
  const std::optional<std::size_t> number = FindNumber<std::size_t>(text);
  return number ? *number : throw Damaged("a number is missing");
}

Selector TakeSelector(std::string_view& rest, char separator) {
  Selector selector;
  selector.nomad_namespace = TakeUntil(separator, rest);
  selector.job = TakeUntil(separator, rest);
  selector.group = TakeUntil(separator, rest);
  return selector;
}

// A word, "@office", or "=" and the globs of a selector: no word begins like these.
std::string PeerText(const Peer& peer) {
  if (peer.kind == Peer::Kind::kSelector) {
    return Cat('=', SelectorText(peer.selector, kPart));
  }
  return peer.kind == Peer::Kind::kAddresses
             ? Cat('@', peer.addresses)
             : std::string(kPeerWords.at(static_cast<std::size_t>(peer.kind)));
}

Peer ReadPeer(std::string_view text) {
  std::string_view rest = text.substr(std::min<std::size_t>(text.size(), 1));
  if (text.starts_with('=')) {
    return {.kind = Peer::Kind::kSelector, .selector = TakeSelector(rest, kPart)};
  }
  if (text.starts_with('@')) {
    return {.kind = Peer::Kind::kAddresses, .addresses = std::string(rest)};
  }
  const std::optional<Peer::Kind> kind = FindNamed<Peer::Kind>(kPeerWords, text);
  return kind ? Peer{.kind = *kind} : throw Damaged("a peer is of no known kind");
}

Entry ReadEntry(std::string_view rest) {
  Entry entry;
  std::string_view ports = TakeField(rest);
  while (!ports.empty()) {
    const std::optional<Ports> one = FindPorts(TakeUntil(kPart, ports));
    entry.ports.push_back(one ? *one : throw Damaged("a port is none"));
  }
  while (!rest.empty()) {
    entry.peers.push_back(ReadPeer(TakeField(rest)));
  }
  return entry;
}

std::string PolicyText(const Policy& policy) {
  std::string text = Format("policy\t{}\t{}\t{}\t",
                            policy.name,
                            policy.direction == Direction::kTo ? "to" : "from",
                            SelectorText(policy.selector));
  for (const auto flag : kFlags) {
    text += Cat(policy.*flag ? '+' : '-', kField);
  }
  text += '\n';
  for (const auto& [kind, entries] : kEntries) {
    for (const Entry& entry : policy.*entries) {
      text += Cat(kind, kField, EntryText(entry), '\n');
    }
  }
  return text;
}

// What policies name, beside themselves.
struct Named {
  std::set<std::string> lists;
  std::set<Selector> peers;
  bool has_same_namespace = false;

  explicit Named(const std::vector<Policy>& policies) {
    for (const Policy& policy : policies) {
      for (const Peer& peer : PeersOf(policy)) {
        has_same_namespace |= peer.kind == Peer::Kind::kSameNamespace;
        if (peer.kind == Peer::Kind::kAddresses) {
          lists.insert(peer.addresses);
        } else if (peer.kind == Peer::Kind::kSelector) {
          peers.insert(peer.selector);
        }
      }
    }
  }
};

// The prefix of a peer has a '/', which no name has.
std::string NameInSteps(const std::string& name, std::string_view prefixes) {
  const std::string hash = Hex(StableHash(prefixes), kHashDigits);
  return name.find('/') == std::string::npos ? Cat(name, '-', hash) : hash;
}

Policy ReadPolicy(std::string_view rest) {
  Policy read;
  read.name = TakeField(rest);
  read.direction = TakeField(rest) == "to" ? Direction::kTo : Direction::kFrom;
  read.selector = TakeSelector(rest, kField);
  for (const auto flag : kFlags) {
    read.*flag = TakeField(rest) == "+";
  }
  return read;
}

// What is taken of the lines of a judged part, one after the other.
struct Selection {
  explicit Selection(const cni::Workload* asked_for) : workload(asked_for) {}

  void Read(std::string_view line) {
    const std::string_view kind = TakeField(line);
    for (const auto& [entry, entries] : kEntries) {
      if (kind == entry) {
        return AddTo(entries, line);
      }
    }
    if (kind == "policy") {
      Policy read = ReadPolicy(line);
      is_wanted = IsAskedFor(read.selector);
      if (is_wanted) {
        selected.policies.push_back(std::move(read));
      }
    } else if (kind == "peer") {
      if (Selector peer = TakeSelector(line, kField); IsAskedFor(peer)) {
        selected.peers.push_back(std::move(peer));
      }
    } else if (kind == "list") {
      const std::string_view name = TakeField(line);
      selected.lists.emplace(name, line);
    } else if (kind == "same-namespace") {
      selected.has_same_namespace = true;
    }
  }

  // Of the policy that was read last.
  void AddTo(std::vector<Entry> Policy::*entries, std::string_view fields) {
    if (is_wanted) {
      (selected.policies.back().*entries).push_back(ReadEntry(fields));
    }
  }

  [[nodiscard]] bool IsAskedFor(const Selector& selector) const {
    return workload == nullptr || Selects(selector, *workload);
  }

  const cni::Workload* workload;
  Selected selected;
  bool is_wanted = false;  // the policy that was read last
};

std::string HashText(std::string_view judged) {
  return Hex(Checksum(judged), kHashDigits);
}

}  // namespace

std::string SelectorText(const Selector& selector, char separator) {
  return Cat(selector.nomad_namespace, separator, selector.job, separator, selector.group);
}

std::string EntryText(const Entry& entry) {
  std::string text;
  for (const Ports& ports : entry.ports) {
    text += Cat(Text(ports), kPart);
  }
  for (const Peer& peer : entry.peers) {
    text += Cat(kField, PeerText(peer));
  }
  return text;
}

std::string Write(const Policies& policies) {
  const Named named(policies.policies);
  std::string judged;
  std::string lists;
  for (const std::string& name : named.lists) {
    std::string prefixes;
    for (const Cidr& prefix : policies.addresses.at(name)) {
      prefixes += Cat(kField, prefix);
    }
    const std::string in_steps = NameInSteps(name, prefixes);
    judged += Cat("list\t", name, kField, in_steps, '\n');
    lists += Cat(in_steps, prefixes, '\n');
  }
  judged += named.has_same_namespace ? "same-namespace\n" : "";
  for (const Selector& peer : named.peers) {
    judged += Cat("peer\t", SelectorText(peer), '\n');
  }
  for (const Policy& policy : policies.policies) {
    judged += PolicyText(policy);
  }
  return Cat(
      kMagic, HashText(judged), kField, judged.size(), kField, lists.size(), '\n', judged, lists);
}

Parts Split(std::string_view text) {
  std::string_view rest = text;
  std::string_view head = TakeUntil('\n', rest);
  if (!head.starts_with(kMagic)) {
    throw Damaged("the first line is not that of this release");
  }
  head.remove_prefix(kMagic.size());
  const std::string_view hash = TakeField(head);
  const std::size_t judged_bytes = Number(TakeField(head));
  const std::size_t lists_bytes = Number(head);
  if (rest.size() < judged_bytes || rest.size() - judged_bytes != lists_bytes) {
    throw Damaged(
        Format("{} bytes, and {} by the first line", rest.size(), judged_bytes + lists_bytes));
  }
  return {.judged = rest.substr(0, judged_bytes), .lists = rest.substr(judged_bytes), .hash = hash};
}

void RequireWhole(std::string_view text) {
  const Parts parts = Split(text);
  if (parts.hash != HashText(parts.judged)) {
    throw Damaged("they are not what the first line has the hash of");
  }
}

Selected Select(std::string_view judged, const cni::Workload* workload) {
  Selection selection(workload);
  while (!judged.empty()) {
    selection.Read(TakeUntil('\n', judged));
  }
  return std::move(selection.selected);
}

std::map<std::string, std::vector<Cidr>> ReadLists(std::string_view lists) {
  std::map<std::string, std::vector<Cidr>> all;
  while (!lists.empty()) {
    std::string_view line = TakeUntil('\n', lists);
    const std::string_view name = TakeField(line);
    std::vector<Cidr>& prefixes = all[std::string(name)];
    if (!name.ends_with(Hex(StableHash(line.empty() ? "" : Cat(kField, line)), kHashDigits))) {
      throw Damaged(Format("the list '{}' is another one", name));
    }
    while (!line.empty()) {
      const std::optional<Cidr> prefix = Cidr::Parse(TakeField(line));
      prefixes.push_back(prefix ? *prefix : throw Damaged("a prefix is none"));
    }
  }
  return all;
}

}  // namespace nomad_bridge::policy
