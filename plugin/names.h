// The names this binary answers to: one table from the name it was started under to what it does
// and which defaults it has. A name more is a row more.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/attachment.h"
#include "plugin/labels.h"
#include "plugin/parts.h"

namespace nomad_bridge {

// What a key means if the config does not have it.
struct Defaults {
  std::string bridge;
  std::string data_dir;
  // How addresses come about if the config does not say; empty: there are none (a bare link).
  std::string ipam_type;
  // Whatever the config says, as to the reference host-local: another IPAM plugin may run this one
  // with its own name there.
  bool is_ipam = false;
  // Of the one range, if the config has neither ranges nor subnet; empty: ranges are required.
  std::string subnet;
  std::string admin_chain;
  bool is_gateway = false;
  bool is_default_gateway = false;  // unless ipam.routes is there: then the routes say it
  bool force_address = false;
  bool hairpin_mode = false;
  bool ip_masq = false;
};

struct Name {
  std::string name;
  Parts parts;
  Defaults defaults;
  // Whether prevResult becomes part of ADD's result. The reference bridge plugin drops it, and
  // plugins behind it count on that: the bridge is interface 0.
  bool passes_on = true;

  [[nodiscard]] bool Does(Part part) const { return parts.contains(part); }
  // Whether rules in nf_tables belong to it.
  [[nodiscard]] bool DoesRules() const;
};

// The row for `program` (argv[0]); a name that is not in the table is nomad-bridge under another
// name.
[[nodiscard]] const Name& NameFor(std::string_view program);

// Every name of the table, our own first: what `install` lays.
[[nodiscard]] std::vector<std::string> Names();

// The host end of an attachment's veth pair: "veth" and 11 hexadecimal digits. Derived, so that a
// lost record can still be cleaned up; the link's alias says whether it really is ours.
[[nodiscard]] std::string HostVethName(const Attachment& who);

// The alias of that link: "nomad-bridge net=<network> id=<container> if=<ifname> job=... ", at most
// 255 bytes.
[[nodiscard]] std::string LinkAlias(const Attachment& who, const Labels& labels);
[[nodiscard]] bool IsAliasOf(std::string_view alias, const Attachment& who);

// The comment of an attachment's elements: its host veth (the owner's key), then for people its
// container and labels, at most 128 bytes.
[[nodiscard]] std::string ElementComment(const Attachment& who, const Labels& labels);

}  // namespace nomad_bridge
