#include "plugin/state/state_json.h"

#include <algorithm>
#include <map>
#include <optional>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "plugin/state/kernel_names.h"

// The members of each struct and the words of each enumeration. Each macro is in the namespace of
// its type, where nlohmann looks for it, and after the macros of its members' types.

namespace nlohmann {

// Converts addresses and MACs.
template <typename Value>
requires requires(const Value& value) {
  value.Text();
  Value::Parse("").value();
}
struct adl_serializer<Value> {
  static void to_json(json& to, const Value& from) { to = from.Text(); }
  static void from_json(const json& from, Value& to) {
    const auto& text = from.get_ref<const std::string&>();
    const std::optional<Value> parsed = Value::Parse(text);
    to = parsed ? *parsed
                : throw std::invalid_argument(nomad_bridge::Format("'{}' is no address", text));
  }
};

template <typename Value>
struct adl_serializer<std::optional<Value>> {
  static void to_json(json& to, const std::optional<Value>& from) {
    to = from ? json(*from) : json();
  }
  static void from_json(const json& from, std::optional<Value>& to) {
    to = from.is_null() ? std::nullopt : std::optional(from.get<Value>());
  }
};

// Converts an enumerator to its name in `kNames`.
template <const auto& kNames>
struct Named {
  using Enum = typename std::remove_cvref_t<decltype(kNames)>::value_type::first_type;

  static void to_json(json& to, const Enum& from) { to = nomad_bridge::NameOf(kNames, from); }
  static void from_json(const json& from, Enum& to) {
    const auto& name = from.get_ref<const std::string&>();
    const std::optional<Enum> found = nomad_bridge::FindNamed(kNames, name);
    to = found ? *found : throw std::invalid_argument(nomad_bridge::Format("unknown '{}'", name));
  }
};

template <>
struct adl_serializer<nomad_bridge::Protocol> : Named<nomad_bridge::kProtocolNames> {};
template <>
struct adl_serializer<nomad_bridge::firewall::Inbound>
    : Named<nomad_bridge::firewall::kInboundNames> {};
template <>
struct adl_serializer<nomad_bridge::firewall::Ingress>
    : Named<nomad_bridge::firewall::kIngressNames> {};

inline constexpr nomad_bridge::Names<nomad_bridge::config::ForceAddress, 3> kForceAddressNames = {
    {{nomad_bridge::config::ForceAddress::kNo, "no"},
     {nomad_bridge::config::ForceAddress::kOnOwnBridge, "on_own_bridge"},
     {nomad_bridge::config::ForceAddress::kYes, "yes"}}};
template <>
struct adl_serializer<nomad_bridge::config::ForceAddress> : Named<kForceAddressNames> {};

inline constexpr nomad_bridge::Names<nomad_bridge::state::Phase, 3> kPhaseNames = {
    {{nomad_bridge::state::Phase::kMaking, "making"},
     {nomad_bridge::state::Phase::kLive, "live"},
     {nomad_bridge::state::Phase::kLeaving, "leaving"}}};
template <>
struct adl_serializer<nomad_bridge::state::Phase> : Named<kPhaseNames> {};

}  // namespace nlohmann

namespace nomad_bridge {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(AttachmentId, network, container_id, ifname)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(VlanRange, first, last)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(PortVlans, untagged, tagged, keep_default)

namespace netlink {
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(NetnsId, device, inode, cookie)
}

namespace ipam {
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Range, subnet, first, last, gateway)
}

namespace portmap {
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(DnatEntry,
                                                protocol,
                                                host_ip,
                                                host_port,
                                                container_ip,
                                                container_port)
}  // namespace portmap

namespace firewall {
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(ForwardHook, admin_chain, accept_mark_bit, ipv6)
}  // namespace firewall

namespace cni {
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Label, key, value)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(DelegatedIpam, type, cni_path, args, config)
}  // namespace cni

namespace config {
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(PortSpec,
                                                hairpin,
                                                isolated,
                                                locked,
                                                source_check,
                                                vlans)
}  // namespace config

}  // namespace nomad_bridge

// Converts the map to a JSON object. nlohmann does so by itself only for maps with string keys.
template <>
struct nlohmann::adl_serializer<nomad_bridge::state::PartPhases> {
  static void to_json(json& to, const nomad_bridge::state::PartPhases& from) {
    to = json::object();
    for (const auto& [part, phase] : from) {
      to[std::string(Text(part))] = phase;
    }
  }
  static void from_json(const json& from, nomad_bridge::state::PartPhases& to) {
    for (const auto& [name, phase] : from.items()) {
      if (const auto part = nomad_bridge::cni::ParsePart(name)) {
        to[*part] = phase.get<nomad_bridge::state::Phase>();
      }
    }
  }
};

namespace nomad_bridge::state {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Record::Link,
                                                bridge,
                                                mtu,
                                                force_address,
                                                promisc_mode,
                                                makes_bridge,
                                                gateway_ifname,
                                                port,
                                                mac,
                                                foreign_host_ifnames,
                                                foreign_ports,
                                                gateways,
                                                adopted,
                                                made_by_us)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Record::DefaultRoutes, ipv4, ipv6)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Record::Ipam,
                                                addresses,
                                                default_routes,
                                                data_dir,
                                                leases,
                                                ranges,
                                                delegated)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Record::Policy,
                                                sets,
                                                in,
                                                out,
                                                revision,
                                                judges_ports)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Record::Rules,
                                                forward_hook,
                                                ingress,
                                                inbound,
                                                firewalld_zone,
                                                snat,
                                                masq_all,
                                                ip_masq,
                                                random_ports,
                                                non_masquerade_cidrs,
                                                ports,
                                                had_default_route,
                                                policy)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Record,
                                                id,
                                                parts,
                                                labels,
                                                netns_path,
                                                netns,
                                                created,
                                                link,
                                                ipam,
                                                rules)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Origin, boot_id, netns)

namespace {

using nlohmann::json;

constexpr const char* kOrigin = "origin";
constexpr const char* kHostVeth = "host_veth";

// Throws if a number has a fraction or an exponent: none of ours has, and C++ leaves undefined what
// 4e60 becomes as an integer.
void RequireWholeNumbers(const json& value) {
  if (value.is_number_float()) {
    throw std::invalid_argument(Cat(value.dump(), " is no whole number"));
  }
  if (value.is_structured()) {
    std::ranges::for_each(value, RequireWholeNumbers);
  }
}

// Throws if `known`, which is what `document` was read as, differs from it in other things than
// unknown keys: nlohmann reads a port of 70000 as 4464. Returns whether there are unknown keys.
bool HasUnknownKeys(const json& document, const json& known) {
  bool has_unknown_keys = false;
  for (const json& change : json::diff(document, known)) {
    has_unknown_keys = has_unknown_keys || change.at("op") == "remove";
    if (change.at("op") == "replace") {
      const std::string path = change.at("path");
      throw std::invalid_argument(
          Format("{} cannot be {}", path, document.at(json::json_pointer(path)).dump()));
    }
  }
  return has_unknown_keys;
}

StoredRecord Parse(std::string_view text) try {
  json document = json::parse(text);
  RequireWholeNumbers(document);
  StoredRecord stored{document.get<Record>(), document.at(kOrigin).get<Origin>()};
  json known = stored.record;
  known[kOrigin] = stored.origin;
  document.erase(kHostVeth);
  stored.record.is_of_newer_release = HasUnknownKeys(document, known);
  return stored;
} catch (const json::exception& error) {
  // what() is "[json.exception.parse_error.101] parse error at line 1, ..." and quotes the input.
  const std::string_view what = error.what();
  throw std::invalid_argument(Excerpt(what.substr(what.find("] ") + 2)));
}

}  // namespace

std::string FormatRecord(const Record& record, const Origin& origin) {
  json document = record;
  document[kHostVeth] = HostVethName(record.id);
  document[kOrigin] = origin;
  return document.dump(-1, ' ', false, json::error_handler_t::replace);
}

StoredRecord ParseRecord(std::string_view text) {
  StoredRecord stored = Parse(text);
  const auto& [record, origin] = stored;
  if (record.id.network.empty() || record.id.container_id.empty() || record.id.ifname.empty() ||
      origin.boot_id.empty() || origin.netns == netlink::NetnsId{}) {
    throw std::invalid_argument("it has no identity");
  }
  for (const portmap::DnatEntry& port : record.rules.ports) {
    if (port.protocol == Protocol::kIcmp) {
      throw std::invalid_argument("a port of ICMP is none");
    }
  }
  if (const auto& vlans = record.link.port.vlans) {
    for (const VlanRange& range : vlans->tagged) {
      if (range.first == 0 || range.last < range.first) {
        throw std::invalid_argument("a range of VLANs is none");
      }
    }
  }
  return stored;
}

}  // namespace nomad_bridge::state
