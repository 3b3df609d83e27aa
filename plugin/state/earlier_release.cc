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
  record.erase("leaving");  // how far a list of DELs had come
  return record;
}

}  // namespace nomad_bridge::state
