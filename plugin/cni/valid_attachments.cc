#include "plugin/cni/valid_attachments.h"

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "plugin/cni/json.h"

namespace nomad_bridge::cni {
namespace {

std::set<AttachmentId> ParseAttachments(const std::string& network, const JsonView& array) {
  std::set<AttachmentId> attachments;
  for (const JsonView& entry : array.Elements()) {
    const std::optional<JsonView> container_id = entry.Find("containerID");
    const std::optional<JsonView> ifname = entry.Find("ifname");
    if (!container_id || !ifname) {
      throw entry.Wrong("an object with 'containerID' and 'ifname'");
    }
    attachments.insert({network, container_id->String(), ifname->String()});
  }
  return attachments;
}

}  // namespace

std::optional<std::set<AttachmentId>> FindValidAttachments(const Request& request) {
  for (const char* const key :
       {"cni.dev/valid-attachments", "cni.dev/attachments"}) {  // the latter: libcni 1.2
    // Not JsonView::Find, to which null is the same as nothing: Go writes an empty array so.
    for (const auto& [present, value] : request.config->items()) {
      if (Lower(present) == key) {
        return value.is_null() ? std::set<AttachmentId>()
                               : ParseAttachments(request.id.network, JsonView(value, key));
      }
    }
  }
  return std::nullopt;
}

}  // namespace nomad_bridge::cni
