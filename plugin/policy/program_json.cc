#include "plugin/policy/program_json.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"

namespace nomad_bridge::policy {

using nlohmann::json;

// nlohmann finds these by the namespace of their type.
NLOHMANN_JSON_SERIALIZE_ENUM(Direction, {{Direction::kTo, "to"}, {Direction::kFrom, "from"}})
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Selector, nomad_namespace, job, group)

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
  } else if (const auto addresses = from.find("addresses"); addresses != from.end()) {
    peer = {.kind = Peer::Kind::kAddresses, .addresses = addresses->get<std::string>()};
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
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Policy,
                                   name,
                                   direction,
                                   selector,
                                   only,
                                   is_audited,
                                   drops,
                                   allow,
                                   deny,
                                   is_closed)

namespace {

constexpr int kVersion = 1;
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
  json judged = {{"version", kVersion}, {"policies", policies.policies}, {"lists", json::object()}};
  json lists = json::object();
  for (const Policy& policy : policies.policies) {
    for (const Peer* const peer : PeersOf(policy)) {
      if (peer->kind == Peer::Kind::kAddresses) {
        const std::vector<Cidr>& prefixes = policies.addresses.at(peer->addresses);
        const std::string in_steps = NameInSteps(peer->addresses, prefixes);
        judged["lists"][peer->addresses] = in_steps;
        json& list = lists[in_steps] = json::array();
        for (const Cidr& prefix : prefixes) {
          list.push_back(prefix.Text());
        }
      }
    }
  }
  return Cat(judged.dump(), '\n', lists.dump(), '\n');
}

Compiled ReadCompiled(std::string_view text) {
  return Decode(text, [](const json& document) {
    if (document.at("version") != kVersion) {
      throw Error(Code::kDecode, "another release has written them");
    }
    return Compiled{.policies = document.at("policies").get<std::vector<Policy>>(),
                    .lists = document.at("lists").get<ListNames>()};
  });
}

Lists ReadLists(std::string_view text) {
  return Decode(text, [](const json& document) {
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
