#include "plugin/cni/part.h"

#include <algorithm>
#include <array>
#include <utility>

namespace nomad_bridge::cni {
namespace {

constexpr std::array<std::pair<Part, std::string_view>, 6> kTexts = {
    {{Part::kLoopback, "loopback"},
     {Part::kAddress, "address"},
     {Part::kLink, "link"},
     {Part::kMasquerade, "masquerade"},
     {Part::kForward, "forward"},
     {Part::kPorts, "ports"}}};

}  // namespace

std::string_view Text(Part part) {
  const auto* const known = std::find_if(
      kTexts.begin(), kTexts.end(), [&](const auto& each) { return each.first == part; });
  return known->second;
}

std::optional<Part> ParsePart(std::string_view text) {
  const auto* const known = std::find_if(
      kTexts.begin(), kTexts.end(), [&](const auto& each) { return each.second == text; });
  return known != kTexts.end() ? std::optional(known->first) : std::nullopt;
}

}  // namespace nomad_bridge::cni
