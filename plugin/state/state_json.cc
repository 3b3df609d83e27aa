#include "plugin/state/state_json.h"

#include <array>
#include <exception>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/list.h"
#include "base/text.h"
#include "plugin/state/kernel_names.h"
#include "plugin/state/state_keys.h"

namespace nomad_bridge::state {
namespace {

using nlohmann::json;

// In the order of Phase.
constexpr std::array<std::string_view, 4> kPhaseTexts = {"making", "live", "leaving", "gone"};

std::string_view Text(Phase phase) {
  return kPhaseTexts.at(static_cast<std::size_t>(phase));
}

// In the order of ForceAddress.
constexpr std::array<std::string_view, 3> kForceAddressTexts = {"no", "onOwnBridge", "yes"};

std::string_view Text(config::ForceAddress force) {
  return kForceAddressTexts.at(static_cast<std::size_t>(force));
}

// What is a string in JSON; in an optional, "" if there is none.
template <typename Value>
concept IsText = std::is_enum_v<Value> || requires(Value value) {
  value.Text();
};

// A struct that has a name of its own in a record, and keys that another release may add to.
template <typename Value>
concept IsGroup = std::is_same_v<Value, Record::Link> || std::is_same_v<Value, Record::Ipam> ||
    std::is_same_v<Value, Record::Rules>;

struct Writer {
  json object = json::object();

  void operator()(const char* key, auto& field) { object[key] = Encode(field); }

  // What it has besides stays.
  template <IsGroup Group>
  void operator()(const char* key, Group& group) {
    Writer writer{.object = object.value(key, json::object())};
    Fields(writer, group);
    object[key] = std::move(writer.object);
  }

  template <typename Value>
  static json Encode(Value& value) {
    if constexpr (std::is_enum_v<Value>) {
      return Text(value);
    } else if constexpr (IsText<Value>) {
      return value.Text();
    } else if constexpr (std::is_constructible_v<json, Value>) {
      return value;
    } else {
      Writer writer;
      Fields(writer, value);
      return std::move(writer.object);
    }
  }
  template <typename Value>
  static json Encode(std::optional<Value>& value) {
    return value ? Encode(*value) : IsText<Value> ? json("") : json();
  }
  template <typename Item>
  static json Encode(std::vector<Item>& items) {
    json array = json::array();
    for (Item& item : items) {
      array.push_back(Encode(item));
    }
    return array;
  }
  static json Encode(std::map<cni::Part, Phase>& parts) {
    json phases = json::object();
    for (const auto& [part, phase] : parts) {
      phases[std::string(cni::Text(part))] = Text(phase);
    }
    return phases;
  }
  template <typename Value>
  static json Encode(std::map<std::string, Value>& values) {
    if constexpr (std::is_constructible_v<json, Value>) {
      return values;
    } else {
      json object = json::object();
      for (auto& [key, value] : values) {
        object[key] = Encode(value);
      }
      return object;
    }
  }
  static json Encode(VlanRange& range) { return json::array({range.first, range.last}); }
};

struct Reader {
  const json& object;

  // What another release does not write has its default.
  void operator()(const char* key, auto& field) {
    if (const auto found = object.find(key); found != object.end()) {
      Decode(*found, field);
    }
  }

  template <typename Value>
  static void Decode(const json& from, Value& value) {
    if constexpr (std::is_integral_v<Value> && !std::is_same_v<Value, bool>) {
      value = DecodeInteger<Value>(from);
    } else if constexpr (IsText<Value>) {
      value = Value::Parse(from.get<std::string>()).value();
    } else if constexpr (std::is_constructible_v<json, Value>) {
      from.get_to(value);
    } else {
      // find() would find nothing in an array, either, and all would have its default.
      if (!from.is_object() && !from.is_null()) {
        throw std::invalid_argument(Cat(from.dump(), " is no object"));
      }
      Reader reader{from};
      Fields(reader, value);
    }
  }
  // get() would cut a fraction, or a number that is too large.
  template <typename Value>
  static Value DecodeInteger(const json& from) {
    const bool fits =
        from.is_number_unsigned()
            ? std::in_range<Value>(from.get<std::uint64_t>())
            : from.is_number_integer() && std::in_range<Value>(from.get<std::int64_t>());
    if (!fits) {
      throw std::out_of_range(Cat(from.dump(), " is no integer of the range"));
    }
    return from.get<Value>();
  }
  static void Decode(const json& from, portmap::Protocol& protocol) {
    protocol = portmap::ParseProtocol(from.get<std::string>()).value();
  }
  static void Decode(const json& from, config::ForceAddress& force) {
    force = FindNamed<config::ForceAddress>(kForceAddressTexts, from.get<std::string>()).value();
  }
  static void Decode(const json& from, firewall::Ingress& ingress) {
    ingress = firewall::ParseIngress(from.get<std::string>()).value();
  }
  static void Decode(const json& from, firewall::Inbound& inbound) {
    inbound = firewall::ParseInbound(from.get<std::string>()).value();
  }
  template <typename Value>
  static void Decode(const json& from, std::optional<Value>& value) {
    if (!from.is_null() && from != "") {
      Decode(from, value.emplace());
    }
  }
  template <typename Item>
  static void Decode(const json& from, std::vector<Item>& items) {
    for (const json& each : from) {
      Decode(each, items.emplace_back());
    }
  }
  // A part or a phase that is unknown is another release's.
  static void Decode(const json& from, std::map<cni::Part, Phase>& parts) {
    for (const auto& [name, phase] : from.get_ref<const json::object_t&>()) {
      if (const std::optional<cni::Part> part = cni::ParsePart(name)) {
        parts[*part] =
            FindNamed<Phase>(kPhaseTexts, phase.get<std::string>()).value_or(Phase::kLive);
      }
    }
  }
  template <typename Value>
  static void Decode(const json& from, std::map<std::string, Value>& values) {
    for (const auto& [key, value] : from.get_ref<const json::object_t&>()) {
      Decode(value, values[key]);
    }
  }
  static void Decode(const json& from, VlanRange& range) {
    Decode(from.at(0), range.first);
    Decode(from.at(1), range.last);
  }
};

// Over `object`, which may have keys that we do not know.
template <typename Stored>
json Written(Stored stored, json object = json::object()) {
  Writer writer{.object = std::move(object)};
  Fields(writer, stored);
  return std::move(writer.object);
}

template <typename Stored>
Stored Read(const json& object) {
  Stored stored;
  Reader reader{object};
  Fields(reader, stored);
  return stored;
}

std::string Dump(const json& object) {
  return object.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace

std::string FormatRecord(const Record& record, const Origin& origin) {
  json read = record.text.empty() ? json::object() : json::parse(record.text);
  json object = Written(StoredRecord{.record = record, .origin = origin}, std::move(read));
  object["hostVeth"] = HostVethName(record.id);
  return Dump(object);
}

StoredRecord ParseRecord(std::string_view text) {
  const json object = json::parse(text, nullptr, false);
  if (object.is_discarded()) {
    throw std::invalid_argument("it is no JSON");
  }
  auto stored = Read<StoredRecord>(object);
  stored.record.text = text;
  const AttachmentId& id = stored.record.id;
  if (id.network.empty() || id.container_id.empty() || id.ifname.empty() ||
      stored.origin.boot_id.empty() || stored.origin.netns == netlink::NetnsId{}) {
    throw std::invalid_argument("it has no identity");
  }
  stored.record.rules.forward_hook.ipv6 = stored.record.HasIpv6();
  return stored;
}

std::string FormatCheckpoint(const Checkpoint& checkpoint, const Origin& origin) {
  return Dump(Written(StoredCheckpoint{.checkpoint = checkpoint, .origin = origin}));
}

StoredCheckpoint ParseCheckpoint(std::string_view text) {
  return Read<StoredCheckpoint>(json::parse(text));  // without an origin it is nobody's
}

std::optional<std::string> FindContainerId(std::string_view text) {
  try {
    return json::parse(text).at("containerId").get<std::string>();
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

}  // namespace nomad_bridge::state
