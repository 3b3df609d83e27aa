// What describes our tables, and lives in them: one element in set "about" of table inet
// nomad-bridge. It is written in the batch that makes or changes the tables, and is gone with them.
// So a command finds out with one request whether the tables are those that it wants.
//
//   elements = { 0x00001000 comment "boot=9c1e77a0 tables=a8263d9accaee067 rules=90ab17c2d3e4..." }
//
// Errors  kKernel.
#pragma once

#include <optional>
#include <string>

#include "netlink/nft/element.h"
#include "netlink/nft/socket.h"

namespace nomad_bridge::firewall {

struct About {
  int accept_mark_bit = 0;      // the key is the mark with this bit
  std::string boot;             // the boot in which the tables were made
  std::string tables_revision;  // of the release that made them
  std::string policy_revision;  // of the policies whose chains are in them; empty: none
  // A hash of the rules that were last compared with what they should be. Empty: they have not been
  // compared since our last change of a rule.
  std::string rules;

  bool operator==(const About&) const = default;
};

// Returns the description in the kernel. Returns nullopt if there is none, or if it is not one of
// ours: then nothing is known of the tables.
[[nodiscard]] std::optional<About> FindAbout(nft::Socket& socket);

[[nodiscard]] nft::Element ElementOf(const About& about);

// Returns a hash of the rules of our tables in the kernel, for About::rules.
[[nodiscard]] std::string HashOfRules(nft::Socket& socket);

}  // namespace nomad_bridge::firewall
