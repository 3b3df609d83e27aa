#include "plugin/policy/program_json.h"

#include <set>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"

namespace nomad_bridge::policy {

using nlohmann::json;

// nlohmann finds these by the namespace of their type.
NLOHMANN_JSON_SERIALIZE_ENUM(Direction, {{Direction::kTo, "to"}, {Direction::kFrom, "from"}})

void to_json(json& to, const Selector& selector) {
  to = {selector.nomad_namespace, selector.job, selector.group};
}
void from_json(const json& from, Selector& selector) {
  from.at(0).get_to(selector.nomad_namespace);
  from.at(1).get_to(selector.job);
  from.at(2).get_to(selector.group);
}
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Index, selectors, peers, has_same_namespace, closes_any)

// A word, {"addresses": "office"}, or a selector.
void to_json(json& to, const Peer& peer) {
  if (peer.kind == Peer::Kind::kSelector) {
    to = peer.selector;
  } else if (peer.kind == Peer::Kind::kAddresses) {
    to = {{"addresses", peer.addresses}};
  } else {
    to = NameOf(kPeerWords, peer.kind);
  }
}
void from_json(const json& from, Peer& peer) {
  if (from.is_string()) {
    peer.kind = FindNamed(kPeerWords, from.get_ref<const std::string&>()).value();
  } else if (from.is_object()) {
    peer = {.kind = Peer::Kind::kAddresses, .addresses = from.at("addresses").get<std::string>()};
  } else {
    peer = {.kind = Peer::Kind::kSelector, .selector = from.get<Selector>()};
  }
}

void to_json(json& to, const Ports& ports) {
  to = Text(ports);
}
void from_json(const json& from, Ports& ports) {
  ports = FindPorts(from.get_ref<const std::string&>()).value();
}

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Entry, peers, ports)
// Without the selector, which the index has.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Policy,
                                   name,
                                   direction,
                                   only,
                                   is_audited,
                                   drops,
                                   allow,
                                   deny,
                                   is_closed)

namespace {

constexpr int kVersion = 2;
constexpr int kHashDigits = 16;

// Calls `read` with the document in `text`.
template <typename Read>
auto Decode(std::string_view text, Read read) try {
  return read(json::parse(text));
} catch (const std::exception& error) {  // of nlohmann, or of std::optional
  throw Error(Code::kDecode, "the compiled policies are damaged", error.what());
}

// Returns the name under which steps use a list. A prefix that a peer names is a list under its own
// text, which contains '/' as no other name does; steps then use only the hash.
std::string NameInSteps(const std::string& name, const std::vector<Cidr>& prefixes) {
  const std::string hash = Hex(StableHash(Joined(prefixes, "\t")), kHashDigits);
  return name.find('/') == std::string::npos ? Cat(name, '-', hash) : hash;
}

}  // namespace

std::string Write(const Policies& policies) {
  Index index;
  std::set<Selector> peers;
  std::string lines;
  json lists = json::object();
  for (const Policy& policy : policies.policies) {
    index.selectors.push_back(policy.selector);
    index.closes_any |= policy.direction == Direction::kTo && !policy.is_audited;
    json line = policy;
    json& names = line["lists"] = json::object();
    for (const Peer* const peer : PeersOf(policy)) {
      if (peer->kind == Peer::Kind::kSelector) {
        peers.insert(peer->selector);
      }
      index.has_same_namespace |= peer->kind == Peer::Kind::kSameNamespace;
      if (peer->kind == Peer::Kind::kAddresses) {
        const std::vector<Cidr>& prefixes = policies.addresses.at(peer->addresses);
        const std::string in_steps = NameInSteps(peer->addresses, prefixes);
        names[peer->addresses] = in_steps;
        json& list = lists[in_steps] = json::array();
        for (const Cidr& prefix : prefixes) {
          list.push_back(prefix.Text());
        }
      }
    }
    lines += Cat(line.dump(), '\n');
  }
  index.peers.assign(peers.begin(), peers.end());
  json first = index;
  first["version"] = kVersion;
  return Cat(first.dump(), '\n', lines, lists.dump(), '\n');
}

Index ReadIndex(std::string_view line) {
  return Decode(line, [](const json& document) {
    if (document.at("version") != kVersion) {
      throw Error(Code::kDecode, "another release has written them");
    }
    return document.get<Index>();
  });
}

CompiledPolicy ReadPolicy(std::string_view line) {
  return Decode(line, [](const json& document) {
    return CompiledPolicy{.policy = document.get<Policy>(),
                          .lists = document.at("lists").get<ListNames>()};
  });
}

Lists ReadLists(std::string_view line) {
  return Decode(line, [](const json& document) {
    Lists lists;
    for (const auto& [name, prefixes] : document.items()) {
      std::vector<Cidr>& list = lists[name];
      for (const json& prefix : prefixes) {
        list.push_back(Cidr::Parse(prefix.get_ref<const std::string&>()).value());
      }
      if (!name.ends_with(NameInSteps("/", list))) {
        throw Error(Code::kDecode, Format("the list '{}' is another one", name));
      }
    }
    return lists;
  });
}

}  // namespace nomad_bridge::policy
