// The request of a runtime: reads and checks the environment and stdin, and changes nothing.
//
// Shapes  CNI_* variables and the network config, a JSON object; json.h defines how keys match.
// Errors  The first failure in the order of the Go plugins: malformed or missing variables (4),
//         stdin (5; 11 if it has not ended within kTimeout), JSON (6), network name (7), unknown
//         verb (4), CNI version (1, or 6 on CHECK, GC and STATUS if it is no version at all). The
//         Go plugins require CNI_PATH; here it is optional, as in the specification: only a
//         delegated IPAM plugin is looked up there. A key that occurs twice in different letter
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
  std::string netns_path;       // CNI_NETNS, verbatim; on DEL it may be empty, or gone
  bool netns_override = false;  // CNI_NETNS_OVERRIDE: the host's own namespace is allowed
  std::string args;             // CNI_ARGS, verbatim
  std::string cni_path;         // CNI_PATH, verbatim; only a delegated IPAM plugin needs it
  std::string cni_version;      // of the config; "0.1.0" if it names none
  JsonPtr config;               // an object; nullptr for VERSION
  std::string config_text;      // the original text: a delegated IPAM plugin gets these bytes
};

// An environment: returns a variable's value, or nullptr, like getenv(3).
using Environment = std::function<const char*(const char*)>;

// Reads the request. Sets `reply_version` as soon as the config's version is known, so that errors
// are answered in that version. Reads stdin to its end, except for VERSION, which must work if
// stdin is closed.
[[nodiscard]] Request ReadRequest(const Environment& environment,
                                  int stdin_fd,
                                  std::string& reply_version);

// Returns a request about a network without an attachment, as a runtime would send it with that
// config on stdin.
[[nodiscard]] Request RequestFor(Verb verb, std::string config_text);

// Returns the attachments that GC must keep: "cni.dev/valid-attachments" (libcni 1.2.0 also has
// "cni.dev/attachments"), an array of {"containerID", "ifname"}; Go writes an empty array as null.
// Returns nullopt if the config has no such key. Throws kInvalidConfig, which names the element, if
// an element has another shape.
[[nodiscard]] std::optional<std::set<AttachmentId>> FindValidAttachments(const Request& request);

// Returns whether the kernel accepts `name` as the name of a link, unchanged.
[[nodiscard]] bool IsInterfaceName(std::string_view name);
constexpr std::string_view kInterfaceNameRule =
    "1 to 15 bytes, no '/', ':', '%' or white space, and neither '.' nor '..'";

}  // namespace nomad_bridge::cni
