// The names of what an attachment has in the kernel, derived from its identity: what a lost record
// named can still be cleaned up, and nothing foreign is ever taken for ours.
//
// Shapes   Link names are at most 15 bytes, aliases 255, comments of nf_tables elements 128; the
//          last two are cut at a character's boundary.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/attachment_id.h"
#include "plugin/cni/labels.h"

namespace nomad_bridge::state {

// The host end of an attachment's veth pair: "veth" and 11 hexadecimal digits. Whether a link of
// that name is ours is decided by its alias.
[[nodiscard]] std::string HostVethName(const AttachmentId& id);
// Of all of `ids`.
template <typename Ids>
[[nodiscard]] std::set<std::string> HostVethNames(const Ids& ids) {
  std::set<std::string> names;
  for (const AttachmentId& id : ids) {
    names.insert(HostVethName(id));
  }
  return names;
}
// Whether `name` has that form, which few programs' links have beside ours.
[[nodiscard]] bool IsHostVethName(std::string_view name);

// The alias of that link: "nomad-bridge net=<network> id=<container> if=<ifname> job=... ", at most
// 255 bytes.
[[nodiscard]] std::string LinkAlias(const AttachmentId& id, const cni::Labels& labels);
[[nodiscard]] bool IsAliasOf(std::string_view alias, const AttachmentId& id);

// The inverse, for people: what was cut is missing. nullopt for an alias that is not ours.
struct ParsedAlias {
  AttachmentId id;
  cni::ShortLabels labels;
};
[[nodiscard]] std::optional<ParsedAlias> ParseAlias(std::string_view alias);

// The comment of an attachment's elements: its host veth (the owner's key), then for people its
// container and labels, at most 128 bytes.
[[nodiscard]] std::string ElementComment(const AttachmentId& id, const cni::Labels& labels);

}  // namespace nomad_bridge::state
