#include "plugin/state/json_places.h"

#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/text.h"

namespace nomad_bridge::state {
namespace {

using nlohmann::json;

// What nlohmann's parser calls (its SAX interface): each function returns whether to go on.
class Filler {
 public:
  explicit Filler(Place root) : next_(root) {}

  bool null() { return Set(nullptr); }
  bool boolean(bool value) { return Set(value); }
  bool number_integer(std::int64_t value) { return Set(value); }
  bool number_unsigned(std::uint64_t value) { return Set(value); }
  bool number_float(double value, const std::string& /*text*/) { return Set(value); }
  bool string(const std::string& value) { return Set(std::string_view(value)); }
  static bool binary(const json::binary_t& /*value*/) { return false; }  // never in a text
  bool start_object(std::size_t /*size*/) { return Begin(false); }
  bool start_array(std::size_t /*size*/) { return Begin(true); }
  bool end_object() { return End(); }
  bool end_array() { return End(); }
  static bool parse_error(std::size_t /*at*/,
                          const std::string& /*token*/,
                          const json::exception&) {
    return false;
  }

  bool key(const std::string& key) {
    last_key_ = key;
    const Place& object = open_.back().place;
    next_ = object.operations != nullptr ? object.operations->member(object.value, key) : Place();
    return true;
  }

  // Of what was read last.
  [[nodiscard]] const std::string& last_key() const { return last_key_; }

 private:
  // A list or an object that has not ended yet.
  struct Open {
    Place place;
    bool is_list;
    std::size_t items = 0;
  };

  Place Next() {
    if (open_.empty() || !open_.back().is_list) {
      return next_;
    }
    Open& list = open_.back();
    return list.place.operations != nullptr
               ? list.place.operations->item(list.place.value, list.items++)
               : Place();
  }

  bool Set(const Scalar& scalar) {
    if (const Place place = Next(); place.operations != nullptr) {
      place.operations->set(place.value, scalar);
    }
    return true;
  }

  bool Begin(bool is_list) {
    Place place = Next();
    if (place.operations != nullptr && place.operations->begin != nullptr) {
      place = place.operations->begin(place.value);
    }
    if (place.operations != nullptr &&
        (is_list ? place.operations->item == nullptr : place.operations->member == nullptr)) {
      throw std::invalid_argument(is_list ? "there is a list where none can be"
                                          : "there is an object where none can be");
    }
    open_.push_back({.place = place, .is_list = is_list});
    return true;
  }

  bool End() {
    open_.pop_back();
    return true;
  }

  std::string last_key_;
  Place next_;  // of the root, or of the key that was read last
  std::vector<Open> open_;
};

}  // namespace

void ReadJson(std::string_view text, Place root) {
  Filler filler(root);
  bool is_json = false;
  try {
    is_json = json::sax_parse(text, &filler);
  } catch (const std::exception& error) {
    throw std::invalid_argument(Format("key '{}': {}", filler.last_key(), error.what()));
  }
  if (!is_json) {
    throw std::invalid_argument("it is no JSON");
  }
}

}  // namespace nomad_bridge::state
