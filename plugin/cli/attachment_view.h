// Shows an attachment: as cells of a table, and as a JSON object.
//
// Shapes   Ids are cut to eight characters. A missing value is "-", an unknown value "?" (JSON:
//          null). Ports: "8080->80/tcp,udp"; if a port is published on only one address of the
//          host, the address comes first. Numbers of bytes: "803 kB", "12.4 MB", by thousands.
//          Durations: "3m", "2h", "5d".
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "plugin/cli/document.h"
#include "plugin/cli/inventory.h"
#include "plugin/cli/terminal.h"

namespace nomad_bridge::cli {

[[nodiscard]] std::string ShortId(const std::string& id);
[[nodiscard]] std::string OrDash(const std::string& text);
[[nodiscard]] std::string ShowBytes(std::uint64_t bytes);

enum class Extent { kFirst, kAll };
[[nodiscard]] std::string ShowAddresses(const Attachment& attachment, Extent extent);
[[nodiscard]] std::string ShowPorts(const Attachment& attachment);
// Returns a duration in its largest whole unit: "3m".
[[nodiscard]] std::string ShowAge(std::chrono::system_clock::duration age);
// Returns the time since the attachment's ADD: "3m"; "-" if it is unknown.
[[nodiscard]] std::string ShowAgeOf(const Attachment& attachment);
[[nodiscard]] Cell ShowState(const Attachment& attachment);

[[nodiscard]] Json ToJson(const Attachment& attachment, const Inventory& inventory);

}  // namespace nomad_bridge::cli
