#include "plugin/policy/parse.h"

#include <algorithm>
#include <utility>

#include "base/list.h"
#include "base/nearest.h"
#include "base/text.h"

namespace nomad_bridge::policy {
namespace {

constexpr std::array<std::pair<std::string_view, Ports::Protocol>, 4> kProtocols = {
    {{"icmp", Ports::Protocol::kIcmp},
     {"tcp", Ports::Protocol::kTcp},
     {"udp", Ports::Protocol::kUdp},
     {"sctp", Ports::Protocol::kSctp}}};

constexpr std::string_view kAllowedNames =
    "a letter, and up to 31 more letters, digits, '-' and '_'";

// A name is also part of names in nf_tables, which nft has to read back.
bool IsName(std::string_view text) {
  constexpr std::size_t kMaxBytes = 32;
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  return !text.empty() && text.size() <= kMaxBytes && is_letter(text.front()) &&
         std::ranges::all_of(text, [&](char c) {
           return is_letter(c) || (c >= '0' && c <= '9') || c == '-' || c == '_';
         });
}

// Without host bits; an address is a prefix of its own.
std::optional<Cidr> FindPrefix(std::string_view text) {
  if (const std::optional<Ip> ip = Ip::Parse(text)) {
    return Cidr::Host(*ip);
  }
  const std::optional<Cidr> cidr = Cidr::Parse(text);
  return cidr ? std::optional(Cidr{cidr->Network(), cidr->prefix_length}) : std::nullopt;
}

Ports ParsePorts(const Node& node) {
  constexpr std::string_view kAllowed =
      "tcp, udp or sctp, alone or with ports from 1 to 65535 as 'tcp/8080' or 'tcp/9090-9199', the "
      "lower one first; icmp";
  const std::optional<Ports> ports = FindPorts(node.String(kAllowed));
  return ports ? *ports : throw node.Wrong(kAllowed);
}

// A glob is compared with labels as they are printed.
std::string ParseGlob(const Node& node) {
  constexpr std::string_view kAllowed = "printable text, '*' for any characters, '?' for one";
  const std::string& glob = node.String(kAllowed);
  return glob.empty() || Printable(glob) != glob ? throw node.Wrong(kAllowed) : glob;
}

Selector ParseSelector(const Node& node) {
  node.RequireKeys({"namespace", "job", "group"});
  const auto glob = [&](std::string_view key) {
    const Node* const value = node.Find(key);
    return value != nullptr ? ParseGlob(*value) : std::string();
  };
  return {.nomad_namespace = ParseGlob(node.Require("namespace")),
          .job = glob("job"),
          .group = glob("group")};
}

// Whether it is `other`, rather than `usual`, which it is if it is missing.
bool IsOther(const Node* node, std::string_view usual, std::string_view other) {
  const std::string allowed = Format("'{}' or '{}'", usual, other);
  const std::string_view word = node != nullptr ? node->String(allowed) : usual;
  if (word != usual && word != other) {
    throw node->Wrong(allowed, Suggestion(word, {usual, other}));
  }
  return word == other;
}

// Prefixes without host bits, sorted, none of them within another one.
std::vector<Cidr> Merged(std::vector<Cidr> all, std::string_view name, std::string& remark) {
  std::ranges::sort(all);
  std::vector<Cidr> merged;
  std::size_t overlaps = 0;
  for (const Cidr& prefix : all) {
    if (merged.empty() || !merged.back().Contains(prefix.address)) {
      merged.push_back(prefix);
    } else if (++overlaps == 1) {
      remark = Format("'{}': {} is within {}", name, prefix, merged.back());
    }
  }
  remark += overlaps > 1 ? Format(", and {} more overlap", overlaps - 1) : "";
  return merged;
}

class Parser {
 public:
  explicit Parser(std::vector<std::string>& remarks) : remarks_(remarks) {}

  void RequireShape(const Node& file) {
    file.RequireKeys({"$schema", "version", "addresses", "policies"});
    if (const Node& version = file.Require("version");
        version.kind != Node::Kind::kOther || version.text != "1") {
      throw version.Wrong("1");
    }
  }

  void AddAddresses(const Node& addresses) {
    for (const Node& key : addresses.Keys()) {
      if (!IsName(key.text) || Contains(kPeerWords, key.text)) {
        throw key.Wrong(Cat(kAllowedNames, "; none of same-namespace, outside, node and any"));
      }
      RequireNew(lists_, key);
      policies_.addresses.emplace(key.text, ParseList(*addresses.Find(key.text), key));
    }
  }

  void AddPolicy(const Node& node) {
    node.RequireKeys({"name", "to", "from", "allow", "deny", "only", "mode", "refuse"});
    const Node& name = node.Require("name");
    if (!IsName(name.String(kAllowedNames))) {
      throw name.Wrong(kAllowedNames);
    }
    RequireNew(names_, name);
    const Node* const to = node.Find("to");
    const Node* const from = node.Find("from");
    if ((to == nullptr) == (from == nullptr)) {
      throw node.Refused(Format("policy '{}' has {}",
                                name.text,
                                to != nullptr ? "both 'to' and 'from'" : "neither 'to' nor 'from'"),
                         "allowed: one of them");
    }
    Policy policy = {.name = name.text,
                     .direction = to != nullptr ? Direction::kTo : Direction::kFrom,
                     .selector = ParseSelector(to != nullptr ? *to : *from),
                     .is_audited = IsOther(node.Find("mode"), "enforce", "audit"),
                     .drops = IsOther(node.Find("refuse"), "reject", "drop")};
    AddEntries(node, policy);
    policies_.policies.push_back(std::move(policy));
  }

  [[nodiscard]] Policies Take() { return std::move(policies_); }

 private:
  using Names = std::map<std::string_view, const Node*>;

  static void RequireNew(Names& names, const Node& name) {
    const auto [first, is_new] = names.emplace(name.text, &name);
    if (!is_new) {
      throw name.Refused(Format("'{}' is defined twice", name.text),
                         Cat("first at ", first->second->Place()));
    }
  }

  std::vector<Cidr> ParseList(const Node& list, const Node& name) {
    std::vector<Cidr> prefixes;
    for (const Node& node : list.Elements()) {
      constexpr std::string_view kAllowed =
          "addresses and prefixes, as '10.20.0.1', '10.20.0.0/16' and 'fd00:20::/48'";
      const std::optional<Cidr> prefix = FindPrefix(node.String(kAllowed));
      prefixes.push_back(prefix ? *prefix : throw node.Wrong(kAllowed));
    }
    std::string remark = prefixes.empty() ? Format("'{}' is empty", name.text) : "";
    std::vector<Cidr> merged = Merged(std::move(prefixes), name.text, remark);
    if (!remark.empty()) {
      remarks_.push_back(Cat(name.Place(), ": ", remark));
    }
    return merged;
  }

  void AddEntries(const Node& node, Policy& policy) {
    const bool is_to = policy.direction == Direction::kTo;
    const Node* const allow = is_to ? &node.Require("allow") : node.Find("allow");
    const Node* const deny = node.Find("deny");
    const Node* const only = node.Find("only");
    if (is_to && deny != nullptr) {
      throw deny->Refused("'deny' goes with 'from'",
                          "what a policy with 'to' does not allow is refused");
    }
    if (!is_to && only != nullptr) {
      throw only->Refused("'only' goes with 'to'", "policies with 'from' are all in force");
    }
    if (allow == nullptr && deny == nullptr) {
      throw node.Refused(Format("policy '{}' lacks 'allow' or 'deny'", policy.name));
    }
    policy.only = only != nullptr && only->Bool();
    policy.is_closed = allow != nullptr;
    if (allow != nullptr) {
      policy.allow = ParseEntries(allow->Elements(), policy.direction);
    }
    if (deny != nullptr) {
      policy.deny = ParseEntries(deny->SomeElements("entry"), policy.direction);
    }
  }

  std::vector<Entry> ParseEntries(const std::vector<Node>& nodes, Direction direction) {
    std::vector<Entry> entries;
    entries.reserve(nodes.size());
    for (const Node& node : nodes) {
      entries.push_back(ParseEntry(node, direction));
    }
    return entries;
  }

  Entry ParseEntry(const Node& node, Direction direction) {
    const std::string_view other_end = direction == Direction::kTo ? "from" : "to";
    node.RequireKeys({other_end, "ports"});
    Entry entry;
    for (const Node& peer : node.Require(other_end).SomeElements("peer")) {
      entry.peers.push_back(ParsePeer(peer));
      if (direction == Direction::kTo && entry.peers.back().kind == Peer::Kind::kNode) {
        remarks_.push_back(
            Cat(peer.Place(), ": the node always reaches allocations: 'node' changes nothing"));
      }
    }
    if (const Node* const ports = node.Find("ports")) {
      for (const Node& each : ports->SomeElements("of 'tcp/8080', 'udp', 'icmp'")) {
        entry.ports.push_back(ParsePorts(each));
      }
    }
    return entry;
  }

  Peer ParsePeer(const Node& node) {
    if (node.kind == Node::Kind::kObject) {
      return {.kind = Peer::Kind::kSelector, .selector = ParseSelector(node)};
    }
    constexpr std::string_view kAllowed =
        R"({"namespace": ...}, same-namespace, outside, node, any, an address, a prefix, a name in )"
        "'addresses'";
    const std::string& text = node.String(kAllowed);
    if (const std::optional<Peer::Kind> kind = FindNamed<Peer::Kind>(kPeerWords, text)) {
      return {.kind = *kind};
    }
    if (const std::optional<Cidr> prefix = FindPrefix(text)) {
      policies_.addresses[prefix->Text()] = {*prefix};
      return {.kind = Peer::Kind::kAddresses, .addresses = prefix->Text()};
    }
    if (!lists_.contains(text)) {
      std::vector<std::string_view> known(kPeerWords.begin(), kPeerWords.end());
      for (const auto& list : lists_) {
        known.push_back(list.first);
      }
      throw node.Wrong(kAllowed, Suggestion(text, known));
    }
    return {.kind = Peer::Kind::kAddresses, .addresses = text};
  }

  std::vector<std::string>& remarks_;
  Policies policies_;
  Names lists_;
  Names names_;  // of policies
};

}  // namespace

std::optional<Ports> FindPorts(std::string_view text) {
  const std::size_t slash = text.find('/');
  const auto* const protocol = std::ranges::find(
      kProtocols, text.substr(0, slash), [](const auto& each) { return each.first; });
  if (protocol == kProtocols.end()) {
    return std::nullopt;
  }
  Ports ports{.protocol = protocol->second};
  if (slash == text.npos) {
    return ports;
  }
  const std::string_view range = text.substr(slash + 1);
  const std::size_t dash = range.find('-');
  const auto first = FindNumber<std::uint16_t>(range.substr(0, dash));
  const auto last = dash == range.npos ? first : FindNumber<std::uint16_t>(range.substr(dash + 1));
  if (!first || !last || *first == 0 || *first > *last ||
      ports.protocol == Ports::Protocol::kIcmp) {
    return std::nullopt;
  }
  ports.first = *first;
  ports.last = *last;
  return ports;
}

std::string Text(const Ports& ports) {
  const std::string_view protocol =
      std::ranges::find(kProtocols, ports.protocol, [](const auto& each) {
        return each.second;
      })->first;
  if (ports.protocol == Ports::Protocol::kIcmp || ports.AreAll()) {
    return std::string(protocol);
  }
  return Cat(protocol, '/', ports.first, ports.first == ports.last ? "" : Cat('-', ports.last));
}

Policies ParsePolicies(const std::vector<SourceText>& sources, std::vector<std::string>& remarks) {
  std::vector<Node> files;
  files.reserve(sources.size());
  for (const SourceText& source : sources) {
    files.push_back(ParseDocument(source));
  }
  Parser parser(remarks);
  for (const Node& file : files) {
    parser.RequireShape(file);
    if (const Node* const addresses = file.Find("addresses")) {
      parser.AddAddresses(*addresses);
    }
  }
  for (const Node& file : files) {
    if (const Node* const policies = file.Find("policies")) {
      for (const Node& policy : policies->Elements()) {
        parser.AddPolicy(policy);
      }
    }
  }
  return parser.Take();
}

}  // namespace nomad_bridge::policy
