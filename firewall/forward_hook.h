// What a network needs of the static rules in iptables' own tables (firewall/static_rules.h). A
// header of its own, so that config and records need not know the ruleset.
#pragma once

#include <string>

namespace nomad_bridge::firewall {

struct ForwardHook {
  std::string admin_chain = "NOMAD-ADMIN";  // empty: no static rules, nothing is forwarded for it
  int accept_mark_bit = 12;                 // 0..31; one for the whole node
  bool ipv6 = false;                        // table ip6 filter too

  bool operator==(const ForwardHook&) const = default;
};

}  // namespace nomad_bridge::firewall
