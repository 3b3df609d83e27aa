// What tests of leases and ranges call things.
#pragma once

#include "ipam/range.h"
#include "ipam/store.h"
#include "tests/support/test.h"

namespace nomad_bridge::ipam {

inline const LeaseOwner kAlice{.container_id = "alice", .ifname = "eth0"};
inline const LeaseOwner kBob{.container_id = "bob", .ifname = "eth0"};

inline Ip At(const std::string& text) {
  return Ip::Parse(text).value();
}

// `subnet`, with what `spec` adds.
inline RangeSpec Spec(const std::string& subnet, RangeSpec spec = {}) {
  spec.path = "ipam.ranges[0][0]";
  spec.subnet = Cidr::Parse(subnet).value();
  return spec;
}

}  // namespace nomad_bridge::ipam
