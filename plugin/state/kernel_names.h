// Makes the names of objects in the kernel from an attachment's identity. So the objects can be
// removed even if the record is lost, and no foreign object is ever taken for ours.
//
// Shapes   Link names are at most 15 bytes, aliases 255, comments of nf_tables elements 128.
//          Aliases and comments are cut at the boundary of a character.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/attachment_id.h"
#include "plugin/cni/labels.h"

namespace nomad_bridge::state {

// Returns the name of the host end of an attachment's veth pair: "veth" and 11 hexadecimal digits.
// The alias of a link with that name decides whether it is ours.
[[nodiscard]] std::string HostVethName(const AttachmentId& id);
// Returns these names for all of `ids`.
template <typename Ids>
[[nodiscard]] std::set<std::string> HostVethNames(const Ids& ids) {
  std::set<std::string> names;
  for (const AttachmentId& id : ids) {
    names.insert(HostVethName(id));
  }
  return names;
}
// Returns whether `name` looks like the name of a host veth. Few programs other than ours use such
// names.
[[nodiscard]] bool IsHostVethName(std::string_view name);

// Returns the alias of a host veth, at most 255 bytes: "nomad-bridge net=<network> id=<container>
// if=<ifname> job=... ".
[[nodiscard]] std::string LinkAlias(const AttachmentId& id, const cni::Labels& labels);
[[nodiscard]] bool IsAliasOf(std::string_view alias, const AttachmentId& id);

// The parsed alias, for people. Parts that were cut are missing. ParseAlias() returns nullopt for
// an alias that is not ours.
struct ParsedAlias {
  AttachmentId id;
  cni::ShortLabels labels;
};
[[nodiscard]] std::optional<ParsedAlias> ParseAlias(std::string_view alias);

// Returns the comment of an attachment's elements, at most 128 bytes: its host veth (the owner's
// key), then its container and labels for people.
[[nodiscard]] std::string ElementComment(const AttachmentId& id, const cni::Labels& labels);

}  // namespace nomad_bridge::state
