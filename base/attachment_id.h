// The identity of an attachment: all state is keyed by it, and DEL needs nothing else.
//
// Shapes     network and container_id: plain names, of any length; ifname: 1-15 bytes, no '/', ':'
//            or white space. Checked on entry (plugin/cni/request.h), assumed elsewhere.
// Source     CNI specification 1.1.0, "Parameters": a plugin keys its state by (network,
//            CNI_CONTAINERID, CNI_IFNAME).
#pragma once

#include <algorithm>
#include <compare>
#include <string>
#include <string_view>

namespace nomad_bridge {

// Returns whether `text` is [A-Za-z0-9][A-Za-z0-9_.-]*, as network names and container ids must be,
// because they become file names.
[[nodiscard]] inline bool IsPlainName(std::string_view text) {
  const auto is_alphanumeric = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
  };
  return !text.empty() && is_alphanumeric(text.front()) && std::ranges::all_of(text, [&](char c) {
    return is_alphanumeric(c) || c == '_' || c == '.' || c == '-';
  });
}

struct AttachmentId {
  std::string network;
  std::string container_id;
  std::string ifname;

  auto operator<=>(const AttachmentId&) const = default;
};

}  // namespace nomad_bridge
