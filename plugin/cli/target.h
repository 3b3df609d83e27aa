// The target of a connection, as operators type it.
//
// Errors  UsageError if the words are no target; CannotTell if an allocation has no known address.
#pragma once

#include <cstdint>
#include <string>

#include "base/ip.h"
#include "base/protocol.h"
#include "plugin/cli/inventory.h"

namespace nomad_bridge::cli {

struct Target {
  Protocol protocol = Protocol::kTcp;
  Ip address;
  std::string name = {};  // not empty: `address` is what the allocation resolves this to
  std::uint16_t port = 0;

  // "10.0.0.1:22", "[2001:db8::1]:53/udp", "api.example:80"
  [[nodiscard]] std::string Text() const;
};

// Parses "10.0.0.1:22", "[2001:db8::1]:53/udp", "api:8080", "shop/api:8080". A name that is no
// allocation's stays in `name`.
[[nodiscard]] Target ParseTarget(const std::string& word, const Inventory& inventory);

}  // namespace nomad_bridge::cli
