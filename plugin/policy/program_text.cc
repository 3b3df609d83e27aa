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
constexpr char kPart = '\x1f';  // separates parts of a field

// The flags of policies, in the order of their fields.
constexpr std::array kFlags = {&Policy::only,
                               &Policy::is_audited,
                               &Policy::drops,
                               &Policy::is_closed};

// FNV-1a of eight bytes at a time. It takes an eighth of StableHash's time, and each ADD hashes all
// policies.
std::string Checksum(std::string_view text) {
  std::uint64_t hash = StableHash("");
  for (std::size_t at = 0; at < text.size(); at += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data() + at, std::min(text.size() - at, sizeof(word)));
    hash = std::rotl((hash ^ word) * 0x100000001b3, 29);
  }
  return Hex(hash, kHashDigits);
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

// Returns a word, "@office", or "=" and the globs of a selector: no word begins with '@' or '='.
std::string PeerText(const Peer& peer) {
  if (peer.kind == Peer::Kind::kSelector) {
    return Cat('=', SelectorText(peer.selector, kPart));
  }
  return peer.kind == Peer::Kind::kAddresses ? Cat('@', peer.addresses)
                                             : std::string(NameOf(kPeerWords, peer.kind));
}

Peer ReadPeer(std::string_view text) {
  std::string_view rest = text.substr(std::min<std::size_t>(text.size(), 1));
  if (text.starts_with('=')) {
    return {.kind = Peer::Kind::kSelector, .selector = TakeSelector(rest, kPart)};
  }
  if (text.starts_with('@')) {
    return {.kind = Peer::Kind::kAddresses, .addresses = std::string(rest)};
  }
  const std::optional<Peer::Kind> kind = FindNamed(kPeerWords, text);
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
  for (const Entry& entry : policy.allow) {
    text += Cat("allow\t", EntryText(entry), '\n');
  }
  for (const Entry& entry : policy.deny) {
    text += Cat("deny\t", EntryText(entry), '\n');
  }
  return text;
}

// Returns the name under which steps use a list. A prefix that a peer names is a list under its own
// text, which contains '/' as no other name does; steps then use only the hash.
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

// Collects what is wanted from the lines of a judged part, one line after the other.
struct Selection {
  explicit Selection(const cni::Workload* asked_for) : workload(asked_for) {}

  void Read(std::string_view line) {
    using namespace std::string_view_literals;  // an ADD compares hundreds of lines
    const std::string_view kind = TakeField(line);
    if (kind == "allow"sv || kind == "deny"sv) {
      if (is_wanted) {
        Policy& policy = selected.policies.back();
        (kind == "allow"sv ? policy.allow : policy.deny).push_back(ReadEntry(line));
      }
    } else if (kind == "policy"sv) {
      Policy read = ReadPolicy(line);
      is_wanted = IsAskedFor(read.selector);
      if (is_wanted) {
        selected.policies.push_back(std::move(read));
      }
    } else if (kind == "peer"sv) {
      if (Selector peer = TakeSelector(line, kField); IsAskedFor(peer)) {
        selected.peers.push_back(std::move(peer));
      }
    } else if (kind == "list"sv) {
      const std::string_view name = TakeField(line);
      selected.lists.emplace(name, line);
    } else if (kind == "same-namespace"sv) {
      selected.has_same_namespace = true;
    }
  }

  [[nodiscard]] bool IsAskedFor(const Selector& selector) const {
    return workload == nullptr || Selects(selector, *workload);
  }

  const cni::Workload* workload;
  Selected selected;
  bool is_wanted = false;  // whether the policy read last is wanted
};

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
  std::set<std::string> named;  // names of lists
  std::set<std::string> peers;  // lines of peers, in the order of the selectors
  bool has_same_namespace = false;
  for (const Policy& policy : policies.policies) {
    for (const Peer& peer : PeersOf(policy)) {
      has_same_namespace |= peer.kind == Peer::Kind::kSameNamespace;
      if (peer.kind == Peer::Kind::kAddresses) {
        named.insert(peer.addresses);
      } else if (peer.kind == Peer::Kind::kSelector) {
        peers.insert(Cat("peer\t", SelectorText(peer.selector), '\n'));
      }
    }
  }
  std::string judged;
  std::string lists;
  for (const std::string& name : named) {
    const std::vector<Cidr>& list = policies.addresses.at(name);
    const std::string prefixes =
        Joined(list, "", [](const Cidr& prefix) { return Cat(kField, prefix); });
    const std::string in_steps = NameInSteps(name, prefixes);
    judged += Cat("list\t", name, kField, in_steps, '\n');
    lists += Cat(in_steps, prefixes, '\n');
  }
  judged += Cat(has_same_namespace ? "same-namespace\n" : "",
                Joined(peers, ""),
                Joined(policies.policies, "", PolicyText));
  return Cat(
      kMagic, Checksum(judged), kField, judged.size(), kField, lists.size(), '\n', judged, lists);
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
  if (parts.hash != Checksum(parts.judged)) {
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
