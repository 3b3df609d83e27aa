// Shows an attachment: as a JSON object, and the values of this object as cells of a table.
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
// Returns a duration in its largest whole unit: "3m".
[[nodiscard]] std::string ShowAge(std::chrono::system_clock::duration age);

[[nodiscard]] Json ToJson(const Attachment& attachment, const Inventory& inventory);

// Cells for values of ToJson().
[[nodiscard]] Cell ShowShortId(const Json& id);
[[nodiscard]] Cell ShowAddresses(const Json& addresses);
[[nodiscard]] Cell ShowFirstAddress(const Json& addresses);
[[nodiscard]] Cell ShowPorts(const Json& ports);
[[nodiscard]] Cell ShowAgeSince(const Json& created);
[[nodiscard]] Cell ShowState(const Json& state);
// A cell for the result of ToJson(): "ok, drops" if rules have dropped packets of it.
[[nodiscard]] Cell ShowStateAndDrops(const Json& attachment);

// Returns "'9d01c7e4' (web/api)" for the result of ToJson(): the allocation with its job and group.
[[nodiscard]] std::string ShowName(const Json& attachment);

}  // namespace nomad_bridge::cli
