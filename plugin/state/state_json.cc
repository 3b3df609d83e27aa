#include "plugin/state/state_json.h"

#include <algorithm>
#include <array>
#include <exception>
#include <map>
#include <set>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <variant>

#include <nlohmann/json.hpp>

#include "base/list.h"
#include "base/text.h"
#include "plugin/state/json_places.h"
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

template <typename Value>
concept IsScalar = std::is_integral_v<Value> || std::is_same_v<Value, std::string> || IsText<Value>;

// What has keys.
template <typename Value>
concept IsObject = requires(int visit, const Value& value) {
  Fields(visit, value);
};

// A struct that has a name of its own in a record, and keys that another release may add to.
template <typename Value>
concept IsGroup = std::is_same_v<Value, Record::Link> || std::is_same_v<Value, Record::Ipam> ||
    std::is_same_v<Value, Record::Rules>;

// Appends an object to a text, without a document in between: making and printing those was a fifth
// of an ADD's instructions. As reading costs by the byte, what a missing key means is left out.
class Writer {
 public:
  // Of `others` those keys follow that Fields() does not visit.
  explicit Writer(std::string& text, json others = {}) : text_(text), others_(std::move(others)) {}

  void operator()(const char* key, const auto& field) {
    RemoveOther(key);
    Begin(key);
    Append(field);
  }

  template <typename Value>
  void operator()(const char* key, const Value& field, const Value& missing) {
    RemoveOther(key);
    if (!IsAsMissing(field, missing)) {
      Begin(key);
      Append(field);
    }
  }

  template <IsObject Object>
  void operator()(const char* key, const Object& object, const Object& missing) {
    Writer writer(text_, IsGroup<Object> && !others_.empty() ? others_.value(key, json()) : json());
    const std::size_t size = text_.size();
    const char before = before_;
    RemoveOther(key);
    Begin(key);
    Fields(writer, object, missing);
    writer.End();
    if (writer.before_ == '{') {
      text_.resize(size);
      before_ = before;
    }
  }

  void End() {
    for (const auto& [key, value] : others_.items()) {
      Begin(key);
      text_ += Dump(value);
    }
    text_ += before_ == '{' ? "{}" : "}";
  }

 private:
  static std::string Dump(const json& value) {
    return value.dump(-1, ' ', false, json::error_handler_t::replace);
  }

  template <typename Value>
  static bool IsAsMissing(const Value& field, const Value& missing) {
    if constexpr (IsScalar<Value>) {
      return field == missing;
    } else if constexpr (requires { field.empty(); }) {
      return field.empty() && missing.empty();
    } else {
      return !field && !missing;
    }
  }

  void RemoveOther(const char* key) {
    if (!others_.empty()) {
      others_.erase(key);
    }
  }

  void Begin(const auto& key) {
    text_ += std::exchange(before_, ',');
    Append(key);
    text_ += ':';
  }

  // Most strings need no escapes, for which a serializer looks at every character.
  void Append(std::string_view string) {
    const bool is_plain = std::all_of(string.begin(), string.end(), [](char byte) {
      return byte >= ' ' && byte <= '~' && byte != '"' && byte != '\\';
    });
    if (is_plain) {
      text_ += '"';
      text_ += string;
      text_ += '"';
    } else {
      text_ += Dump(json(string));
    }
  }

  template <typename Value>
  void Append(const Value& value) {
    if constexpr (std::is_same_v<Value, bool>) {
      text_ += value ? "true" : "false";
    } else if constexpr (std::is_integral_v<Value>) {
      text_ += std::to_string(value);
    } else if constexpr (std::is_convertible_v<Value, std::string_view>) {
      Append(std::string_view(value));
    } else if constexpr (std::is_enum_v<Value>) {
      Append(Text(value));
    } else if constexpr (IsText<Value>) {
      Append(value.Text());
    } else {
      static const Value kMissing{};
      Writer writer(text_);
      Fields(writer, value, kMissing);
      writer.End();
    }
  }
  template <typename Value>
  void Append(const std::optional<Value>& value) {
    if (value) {
      Append(*value);
    } else {
      text_ += IsText<Value> ? "\"\"" : "null";
    }
  }
  template <typename Item>
  void Append(const std::vector<Item>& items) {
    AppendList(items);
  }
  void Append(const std::set<std::string>& items) { AppendList(items); }
  void Append(const VlanRange& range) { AppendList(std::array{range.first, range.last}); }
  void AppendList(const auto& items) {
    char before = '[';
    for (const auto& item : items) {
      text_ += std::exchange(before, ',');
      Append(item);
    }
    text_ += before == '[' ? "[]" : "]";
  }
  template <typename Key, typename Value>
  void Append(const std::map<Key, Value>& values) {
    Writer writer(text_);
    for (const auto& [key, value] : values) {
      writer.Begin(key);
      writer.Append(value);
    }
    writer.End();
  }

  std::string& text_;
  char before_ = '{';
  json others_;
};

template <typename Stored>
std::string Written(const Stored& stored, json others = {}) {
  static const Stored kMissing{};
  std::string text;
  Writer writer(text, std::move(others));
  Fields(writer, stored, kMissing);
  writer.End();
  return text;
}

// The places of what Fields() visits.
struct Reader {
  template <typename Value>
  static Place PlaceOf(Value& value) {
    static constexpr Place::Operations kOperations = OperationsOn<Value>();
    return {.value = &value, .operations = &kOperations};
  }

 private:
  template <typename Value>
  static constexpr Place::Operations OperationsOn() {
    Place::Operations operations = {
        .set = [](void* value, const Scalar& from) { Set(*static_cast<Value*>(value), from); }};
    if constexpr (requires(Value & value) { Begin(value); }) {
      operations.begin = [](void* value) { return Begin(*static_cast<Value*>(value)); };
    } else if constexpr (requires(Value & value) { Item(value, std::size_t()); }) {
      operations.item = [](void* value, std::size_t index) {
        return Item(*static_cast<Value*>(value), index);
      };
    } else if constexpr (!IsScalar<Value>) {
      operations.member = [](void* value, std::string_view key) {
        return Member(*static_cast<Value*>(value), key);
      };
    }
    return operations;
  }

  template <typename Wanted>
  static const Wanted& Get(const Scalar& from, const char* wanted) {
    const Wanted* const found = std::get_if<Wanted>(&from);
    return found != nullptr ? *found : throw std::invalid_argument(Cat("a value is ", wanted));
  }
  static std::string_view Text(const Scalar& from) {
    return Get<std::string_view>(from, "no string");
  }
  // Not a fraction, and none that is too large.
  template <typename Value>
  static Value Integer(const Scalar& from) {
    const auto* const positive = std::get_if<std::uint64_t>(&from);
    const auto* const negative = std::get_if<std::int64_t>(&from);
    if (positive != nullptr ? !std::in_range<Value>(*positive)
                            : negative == nullptr || !std::in_range<Value>(*negative)) {
      throw std::out_of_range("a value is no integer of its range");
    }
    return static_cast<Value>(positive != nullptr ? *positive
                                                  : static_cast<std::uint64_t>(*negative));
  }

  template <typename Value>
  static void Set(Value& value, const Scalar& from) {
    if constexpr (std::is_same_v<Value, bool>) {
      value = Get<bool>(from, "neither true nor false");
    } else if constexpr (std::is_integral_v<Value>) {
      value = Integer<Value>(from);
    } else if constexpr (std::is_same_v<Value, std::string>) {
      value = Text(from);
    } else if constexpr (IsText<Value>) {
      value = Value::Parse(Text(from)).value();
    } else {  // a list or an object: all of it has its default
      Get<std::nullptr_t>(from, "no list, and no object");
    }
  }
  static void Set(portmap::Protocol& protocol, const Scalar& from) {
    protocol = portmap::ParseProtocol(Text(from)).value();
  }
  static void Set(config::ForceAddress& force, const Scalar& from) {
    force = FindNamed<config::ForceAddress>(kForceAddressTexts, Text(from)).value();
  }
  static void Set(firewall::Ingress& ingress, const Scalar& from) {
    ingress = firewall::ParseIngress(Text(from)).value();
  }
  static void Set(firewall::Inbound& inbound, const Scalar& from) {
    inbound = firewall::ParseInbound(Text(from)).value();
  }
  // One that is unknown is another release's.
  static void Set(Phase& phase, const Scalar& from) {
    phase = FindNamed<Phase>(kPhaseTexts, Text(from)).value_or(Phase::kLive);
  }
  template <typename Value>
  static void Set(std::optional<Value>& value, const Scalar& from) {
    const auto* const text = std::get_if<std::string_view>(&from);
    if (!std::holds_alternative<std::nullptr_t>(from) && (text == nullptr || !text->empty())) {
      Set(value.emplace(), from);
    }
  }

  template <typename Value>
  static Place Begin(std::optional<Value>& value) {
    return PlaceOf(value.emplace());
  }

  // Of a key that is there twice the last value counts.
  template <typename Value>
  static Place Item(std::vector<Value>& items, std::size_t index) {
    items.resize(index);
    return PlaceOf(items.emplace_back());
  }
  static Place Item(std::set<std::string>& items, std::size_t /*index*/) {
    static constexpr Place::Operations kInsert = {.set = [](void* value, const Scalar& from) {
      static_cast<std::set<std::string>*>(value)->emplace(Text(from));
    }};
    return {.value = &items, .operations = &kInsert};
  }
  static Place Item(VlanRange& range, std::size_t index) {
    return index == 0 ? PlaceOf(range.first) : index == 1 ? PlaceOf(range.last) : Place();
  }

  struct Finder {
    std::string_view key;
    Place found;

    // The length of a name is known when this is compiled, and seldom that of `key`.
    template <std::size_t kSize>
    void operator()(const char (&name)[kSize], auto& field) {
      if (key.size() == kSize - 1 && key == std::string_view(name, kSize - 1)) {
        found = PlaceOf(field);
      }
    }
  };
  template <typename Value>
  static Place Member(Value& value, std::string_view key) {
    Finder finder{.key = key};
    Fields(finder, value);
    return finder.found;
  }
  // A part that is unknown is another release's.
  static Place Member(std::map<cni::Part, Phase>& parts, std::string_view key) {
    const std::optional<cni::Part> part = cni::ParsePart(key);
    return part ? PlaceOf(parts[*part]) : Place();
  }
  template <typename Value>
  static Place Member(std::map<std::string, Value>& values, std::string_view key) {
    return PlaceOf(values[std::string(key)]);
  }
};

template <typename Stored>
Stored Read(std::string_view text) {
  Stored stored;
  ReadJson(text, Reader::PlaceOf(stored));
  return stored;
}

}  // namespace

std::string FormatRecord(const Record& record, const Origin& origin) {
  return Written(
      StoredRecord{.record = record, .origin = origin, .host_veth = HostVethName(record.id)},
      record.text.empty() ? json() : json::parse(record.text));
}

StoredRecord ParseRecord(std::string_view text) {
  auto stored = Read<StoredRecord>(text);
  stored.record.text = text;
  const AttachmentId& id = stored.record.id;
  if (id.network.empty() || id.container_id.empty() || id.ifname.empty() ||
      stored.origin.boot_id.empty() || stored.origin.netns == netlink::NetnsId{}) {
    throw std::invalid_argument("it has no identity");
  }
  if (const auto& vlans = stored.record.link.port.vlans) {
    for (const VlanRange& range : vlans->tagged) {
      if (range.first == 0 || range.last < range.first) {
        throw std::invalid_argument("a range of VLANs is none");
      }
    }
  }
  stored.record.rules.forward_hook.ipv6 = stored.record.HasIpv6();
  return stored;
}

std::string FormatCheckpoint(const Checkpoint& checkpoint, const Origin& origin) {
  return Written(StoredCheckpoint{.checkpoint = checkpoint, .origin = origin});
}

StoredCheckpoint ParseCheckpoint(std::string_view text) {
  return Read<StoredCheckpoint>(text);  // without an origin it is nobody's
}

std::optional<std::string> FindContainerId(std::string_view text) {
  try {
    return json::parse(text).at("containerId").get<std::string>();
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

}  // namespace nomad_bridge::state
