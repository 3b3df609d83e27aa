// Parses policy files. Defines which keys exist, and which values they allow.
#include <algorithm>
#include <filesystem>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/list.h"
#include "base/nearest.h"
#include "base/text.h"
#include "plugin/policy/document.h"
#include "plugin/policy/glob.h"
#include "plugin/policy/policy.h"

namespace nomad_bridge::policy {
namespace {

constexpr std::string_view kAllowedNames =
    "a letter, and up to 31 more letters, digits, '-' and '_'";

// Names become part of names in nf_tables, which nft has to read back.
bool IsName(std::string_view text) {
  constexpr std::size_t kMaxBytes = 32;
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  return text.size() <= kMaxBytes && text.find_first_of(kLetters) == 0 &&
         text.find_first_not_of(Cat(kLetters, "0123456789-_")) == text.npos;
}

// Finds a prefix without host bits; an address is a prefix of full length.
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

// Globs are compared with labels as they are printed.
std::string ParseGlob(const Node& node) {
  constexpr std::string_view kAllowed =
      R"(printable text, '*' for any characters, '?' for one; '\*' and '\?' for these two)";
  const std::string& glob = node.String(kAllowed);
  return glob.empty() || !IsGlob(glob) ? throw node.Wrong(kAllowed) : glob;
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

// Returns whether the value is `other`. A missing value means `usual`; any third value throws.
bool IsOther(const Node* node, std::string_view usual, std::string_view other) {
  const std::string allowed = Format("'{}' or '{}'", usual, other);
  const std::string_view word = node != nullptr ? node->String(allowed) : usual;
  if (word != usual && word != other) {
    throw node->Wrong(allowed, Suggestion(word, {usual, other}));
  }
  return word == other;
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
      if (!IsName(key.text) || FindNamed(kPeerWords, key.text)) {
        throw key.Wrong(Cat(kAllowedNames, "; none of same-namespace, outside, node and any"));
      }
      RequireNew(lists_, key);
      AddList(key, addresses.FindArray(key.text));
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

  void Remark(const Node& node, std::string_view text) {
    remarks_.push_back(Cat(node.Place(), ": ", text));
  }

  // Adds prefixes without host bits, sorted, none of them inside another.
  void AddList(const Node& name, const std::vector<Node>& nodes) {
    std::vector<Cidr> prefixes;
    for (const Node& node : nodes) {
      constexpr std::string_view kAllowed =
          "addresses and prefixes, as '10.20.0.1', '10.20.0.0/16' and 'fd00:20::/48'";
      const std::optional<Cidr> prefix = FindPrefix(node.String(kAllowed));
      prefixes.push_back(prefix ? *prefix : throw node.Wrong(kAllowed));
    }
    std::ranges::sort(prefixes);
    std::vector<Cidr>& merged = policies_.addresses[name.text];
    std::string remark = prefixes.empty() ? Format("'{}' is empty", name.text) : "";
    for (const Cidr& prefix : prefixes) {
      if (merged.empty() || !merged.back().Contains(prefix.address)) {
        merged.push_back(prefix);
      } else if (remark.empty()) {
        remark = Format("'{}': {} is within {}", name.text, prefix, merged.back());
      }
    }
    const std::size_t overlaps = prefixes.size() - merged.size();
    if (!remark.empty()) {
      Remark(name, Cat(remark, overlaps > 1 ? Format(", and {} more overlap", overlaps - 1) : ""));
    }
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
    for (const Node& entry : node.FindArray("allow")) {
      policy.allow.push_back(ParseEntry(entry, policy.direction));
    }
    for (const Node& entry : node.FindArray("deny", "entry")) {
      policy.deny.push_back(ParseEntry(entry, policy.direction));
    }
  }

  Entry ParseEntry(const Node& node, Direction direction) {
    const std::string_view other_end = direction == Direction::kTo ? "from" : "to";
    node.RequireKeys({other_end, "ports"});
    Entry entry;
    static_cast<void>(node.Require(other_end));
    for (const Node& peer : node.FindArray(other_end, "peer")) {
      entry.peers.push_back(ParsePeer(peer));
      if (direction == Direction::kTo && entry.peers.back().kind == Peer::Kind::kNode) {
        Remark(peer, "the node always reaches allocations: 'node' changes nothing");
      }
    }
    for (const Node& ports : node.FindArray("ports", "of 'tcp/8080', 'udp', 'icmp'")) {
      entry.ports.push_back(ParsePorts(ports));
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
    if (const std::optional<Peer::Kind> kind = FindNamed(kPeerWords, text)) {
      return {.kind = *kind};
    }
    if (const std::optional<Cidr> prefix = FindPrefix(text)) {
      policies_.addresses[prefix->Text()] = {*prefix};
      return {.kind = Peer::Kind::kAddresses, .addresses = prefix->Text()};
    }
    if (!lists_.contains(text)) {
      std::vector<std::string_view> known;
      for (const auto& each : kPeerWords) {
        known.push_back(each.second);
      }
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

// Parses all files together: one file may name the addresses of another.
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
  bool are_named = false;
  for (const Node& file : files) {
    are_named = are_named || file.Find("policies") != nullptr;
    for (const Node& policy : file.FindArray("policies")) {
      parser.AddPolicy(policy);
    }
  }
  Policies policies = parser.Take();
  policies.are_named = are_named;
  return policies;
}

// The files whose policies are in force, by path: inode, size and time of change. One of these
// differs after the content has changed.
using Files = std::map<std::string, std::tuple<ino_t, off_t, std::int64_t>>;

Files ListFiles(const std::string& directory, std::vector<std::string>& left_out) {
  std::vector<std::string> names = Entries(directory);
  std::ranges::sort(names);
  Files files;
  for (const std::string& name : names) {
    struct stat status = {};
    const std::string path = Cat(directory, '/', name);
    // Hidden files belong to editors.
    if (!name.ends_with(".json") || name.starts_with('.')) {
      left_out.push_back(Cat(path, ": left out, policies are in *.json"));
    } else if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) {
      throw Error(Code::kIo,
                  Format("cannot read '{}'", path),
                  "policies are in regular files, or links to them");
    } else {
      const std::int64_t changed = status.st_ctim.tv_sec * 1'000'000'000 + status.st_ctim.tv_nsec;
      files.emplace(path, std::tuple(status.st_ino, status.st_size, changed));
    }
  }
  return files;
}

// Throws kTryAgain if a file was changed meanwhile: half of a file may be another policy.
std::vector<SourceText> ReadFiles(const std::string& directory,
                                  std::vector<std::string>& left_out) {
  const Files files = ListFiles(directory, left_out);
  std::vector<SourceText> sources;
  for (const auto& file : files) {
    sources.push_back({.file = file.first, .text = FindFile(file.first).value_or("")});
  }
  std::vector<std::string> the_same;
  if (ListFiles(directory, the_same) != files) {
    throw Error(Code::kTryAgain,
                Format("policies in '{}' were changed while they were read", directory));
  }
  return sources;
}

}  // namespace

Policies ReadPolicies(const std::string& directory, std::vector<std::string>& remarks) {
  if (!FindStatus(directory)) {
    return {};
  }
  if (std::error_code ignored; !std::filesystem::is_directory(directory, ignored)) {
    throw Error(Code::kIo,
                Format("cannot read policies in '{}'", directory),
                "it is no directory: policies are in its *.json files");
  }
  Policies policies = ParsePolicies(ReadFiles(directory, remarks), remarks);
  if (policies.policies.empty()) {
    remarks.push_back(Format("there is no policy in '{}'", directory));
  }
  return policies;
}

}  // namespace nomad_bridge::policy
