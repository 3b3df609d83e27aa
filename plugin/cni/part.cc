#include "plugin/cni/part.h"

#include <algorithm>
#include <array>

namespace nomad_bridge::cni {
namespace {

// In the order of Part.
constexpr std::array<std::string_view, 6> kTexts =
    {"loopback", "address", "link", "masquerade", "forward", "ports"};

}  // namespace

std::string_view Text(Part part) {
  return kTexts.at(static_cast<std::size_t>(part));
}

std::optional<Part> ParsePart(std::string_view text) {
  const auto* const known = std::find(kTexts.begin(), kTexts.end(), text);
  return known != kTexts.end() ? std::optional(static_cast<Part>(known - kTexts.begin()))
                               : std::nullopt;
}

}  // namespace nomad_bridge::cni
