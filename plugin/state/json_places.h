// JSON whose values go to their places while it is parsed. A document of all of them first, as
// nlohmann::json makes it, takes longer than all else that `metrics` does with a record.
//
// Errors  std::invalid_argument if the text is no JSON; with the key, if a list or an object stands
//         where the place takes none, and for what the place throws.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <variant>

namespace nomad_bridge::state {

using Scalar =
    std::variant<std::nullptr_t, bool, std::int64_t, std::uint64_t, double, std::string_view>;

// Where a value goes. That of a key that we do not know goes nowhere, with all that is in it.
struct Place {
  struct Operations {
    void (*set)(void* value, const Scalar& scalar);
    Place (*member)(void* value, std::string_view key);  // nullptr: it is no object
    Place (*item)(void* value, std::size_t index);       // nullptr: it is no list
    Place (*begin)(void* value);                         // of an optional: that of what is in it
  };

  void* value = nullptr;
  const Operations* operations = nullptr;
};

void ReadJson(std::string_view text, Place root);

}  // namespace nomad_bridge::state
