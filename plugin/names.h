// The names this binary answers to: one table from the name it was started under to what it does
// and which defaults it has.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/attachment.h"
#include "plugin/config.h"

namespace nomad_bridge {

// What an attachment is made of, in the order ADD makes it. DEL goes backwards.
enum class Part { kLoopback, kAddress, kLink, kMasquerade, kForward, kPorts };

struct Name {
  std::string name;
  std::vector<Part> parts;
  Defaults defaults;

  [[nodiscard]] bool Does(Part part) const;
};

// The row for `program` (argv[0]); a name that is not in the table is nomad-bridge under another
// name.
[[nodiscard]] const Name& NameFor(std::string_view program);

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
