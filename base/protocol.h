// The protocols of published ports, listeners and policies.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/names.h"

namespace nomad_bridge {

// IPPROTO_* numbers. kIcmp also stands for ICMPv6.
enum class Protocol : std::uint8_t { kIcmp = 1, kTcp = 6, kUdp = 17, kSctp = 132 };

inline constexpr Names<Protocol, 4> kProtocolNames = {{{Protocol::kIcmp, "icmp"},
                                                       {Protocol::kTcp, "tcp"},
                                                       {Protocol::kUdp, "udp"},
                                                       {Protocol::kSctp, "sctp"}}};

// "tcp"; empty for another number.
[[nodiscard]] constexpr std::string_view Text(Protocol protocol) {
  return NameOf(kProtocolNames, protocol);
}

}  // namespace nomad_bridge
