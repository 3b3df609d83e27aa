// Who gives an attachment its addresses if not we do: an IPAM plugin of somebody else.
//
// Errors  those of delegate.h.
#pragma once

#include <optional>
#include <string>

#include "base/attachment.h"
#include "plugin/request.h"

namespace nomad_bridge {

// With all that it takes to ask again, also when another command has to: a record keeps it.
struct Giver {
  std::string type;
  std::string cni_path;
  std::string args;    // CNI_ARGS
  std::string config;  // its stdin, byte for byte
};

// Whom `request` speaks of by `ipam_type`; nullopt if that is ourselves, or nobody.
[[nodiscard]] std::optional<Giver> FindGiver(const Request& request, const std::string& ipam_type);

// What it answers on stdout. `who` and `netns_path` are those that it is about.
std::string Ask(const Giver& giver,
                Verb verb,
                const Attachment& who,
                const std::string& netns_path);

}  // namespace nomad_bridge
