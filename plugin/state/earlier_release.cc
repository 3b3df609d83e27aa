#include "plugin/state/earlier_release.h"

#include <array>
#include <utility>

#include <nlohmann/json.hpp>

namespace nomad_bridge::state {
namespace {

using nlohmann::json;

struct Move {
  const char* from;
  const char* to;
};

// "gate", "giver" and the like are names of that release.
constexpr std::array kMoves = {
    Move{"bridge", "/link/bridge"},
    Move{"gate", "/link/gatewayIfname"},
    Move{"hostLinks", "/link/foreignHostIfnames"},
    Move{"port", "/link/port"},
    Move{"mac", "/link/mac"},
    Move{"gateways", "/link/gateways"},
    Move{"addresses", "/ipam/addresses"},
    Move{"dataDir", "/ipam/dataDir"},
    Move{"leases", "/ipam/leases"},
    Move{"giver", "/ipam/delegated"},
    Move{"ipMasq", "/rules/ipMasq"},
    Move{"snat", "/rules/snat"},
    Move{"masqAll", "/rules/masqAll"},
    Move{"adminChain", "/rules/adminChain"},
    Move{"acceptMarkBit", "/rules/acceptMarkBit"},
    Move{"ingress", "/rules/ingress"},
    Move{"firewalldZone", "/rules/firewalldZone"},
    Move{"ports", "/rules/ports"},
};

void Rename(json& object, const char* from, const char* to) {
  if (const auto found = object.find(from); found != object.end()) {
    object[to] = std::move(*found);
    object.erase(from);
  }
}

}  // namespace

json Translate(json record) {
  if (!record.contains("gate")) {
    return record;
  }
  for (const Move& move : kMoves) {
    if (const auto found = record.find(move.from); found != record.end()) {
      json value = std::move(*found);
      record.erase(found);
      record[json::json_pointer(move.to)] = std::move(value);
    }
  }
  for (json& port : record["rules"]["ports"]) {
    Rename(port, "guestIp", "containerIp");
    Rename(port, "guestPort", "containerPort");
  }
  // A list of DELs has removed its rules already: they are not to be repaired.
  if (record.value("leaving", "") == "without rules") {
    json phases = json::object();
    for (const json& part : record["parts"]) {
      const bool is_of_link = part == "link" || part == "address" || part == "loopback";
      phases[part.get<std::string>()] = is_of_link ? "live" : "leaving";
    }
    record["parts"] = std::move(phases);
  }
  record.erase("leaving");
  return record;
}

}  // namespace nomad_bridge::state
