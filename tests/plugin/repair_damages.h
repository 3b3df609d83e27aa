// The table of damages: what somebody breaks on the host's side, and the words in which all
// commands report it.
#pragma once

#include "tests/support/named.h"
#include "tests/support/test.h"

namespace nomad_bridge::test {

// Happens to an allocation with ports 8080/tcp and 8053/udp, on a host that is shared with another.
struct Damage : Named {
  // For sh in the host: $table is our table, $leases the data dir's, $address and $veth the
  // allocation's.
  const char* command;
  std::string text;                // in every column; VETH and ADDRESS are the allocation's
  std::string check;               // of doctor's
  const char* before = ":";        // for sh, before the first ADD; $binary is the built one
  bool takes_admin_rules = false;  // the operator's own rules go with it, and cannot come back
  const char* firewall = "none";   // beside us
  bool is_of_all = false;          // of every allocation, although it names one

  // Then the ADD of another leaves it to its owner's CHECK; else it repairs it without a word.
  [[nodiscard]] bool IsOfOneAllocation() const {
    const bool names_one = text.find("VETH") != text.npos || text.find("ADDRESS") != text.npos;
    return names_one && !is_of_all;
  }
  [[nodiscard]] bool IsOfRules() const {
    const std::string_view words(command);
    return words.starts_with("nft ") || words.starts_with("iptables ") ||
           words.starts_with("ip6tables ");
  }
};

[[nodiscard]] std::vector<Damage> Damages();

}  // namespace nomad_bridge::test
