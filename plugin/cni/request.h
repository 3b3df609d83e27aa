// What a runtime asks for: the environment and stdin, checked, nothing touched.
//
// Shapes  CNI_* variables and the network config, a JSON object; keys as json.h matches them.
// Errors  In the Go plugins' order, the first failure wins: variables that are malformed or missing
//         (4), stdin (5; 11 if it has not ended within kTimeout), JSON (6), network name (7),
//         unknown verb (4), CNI version (1, or 6 if it is no version at all on CHECK, GC and
//         STATUS). CNI_PATH, which they demand, is optional here as in the specification: only a
//         delegated IPAM plugin is looked for there. A key that is there twice in different letter
//         case is refused on ADD and CHECK only.
// Limits  8 MiB of stdin (5).
// Source  CNI specification 1.1.0, "Parameters"; Go's pkg/skel.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/attachment_id.h"
#include "plugin/cni/json.h"

namespace nomad_bridge::cni {

enum class Verb { kAdd, kDel, kCheck, kGc, kStatus, kVersion };

[[nodiscard]] std::string_view Text(Verb verb);

struct Request {
  Verb verb = Verb::kVersion;
  AttachmentId id;              // container_id and ifname are empty for GC, STATUS and VERSION
  std::string netns_path;       // CNI_NETNS, verbatim; on DEL perhaps empty, or gone
  bool netns_override = false;  // CNI_NETNS_OVERRIDE: the host's own namespace is allowed
  std::string args;             // CNI_ARGS, verbatim
  std::string cni_path;         // CNI_PATH, verbatim; only a delegated IPAM plugin needs it
  std::string cni_version;      // the config's; "0.1.0" if it names none
  JsonPtr config;               // an object; nullptr for VERSION
  std::string config_text;      // the same as it came: a delegated IPAM plugin gets these bytes
};

// An environment: answers a variable's value, or nullptr, as getenv(3) does.
using Environment = std::function<const char*(const char*)>;

// Sets `reply_version` as soon as the config's version is known, so that an error can be answered
// in it. stdin is read to its end except for VERSION, which must work with it closed.
[[nodiscard]] Request ReadRequest(const Environment& environment,
                                  int stdin_fd,
                                  std::string& reply_version);

// A request about a network, and no attachment, as a runtime would make it with that config on
// stdin.
[[nodiscard]] Request RequestFor(Verb verb, std::string config_text);

// The attachments that GC must keep: "cni.dev/valid-attachments" (libcni 1.2.0 also
// "cni.dev/attachments"), an array of {"containerID", "ifname"}; Go writes an empty one as null.
// nullopt if there is no such key at all. Throws kInvalidConfig naming an element of another shape.
[[nodiscard]] std::optional<std::set<AttachmentId>> FindValidAttachments(const Request& request);

// Whether the kernel takes `name` as a link's, unchanged.
[[nodiscard]] bool IsInterfaceName(std::string_view name);
constexpr std::string_view kInterfaceNameRule =
    "1 to 15 bytes, no '/', ':', '%' or white space, and neither '.' nor '..'";

}  // namespace nomad_bridge::cni
