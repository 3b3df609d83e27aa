// Who lives, and what becomes of the dead.
//
// Alive    An attachment lives as long as its namespace does: the recorded path still leads to the
//          recorded namespace, or anything else (a process, a mount elsewhere) still holds the
//          namespace that its host veth, or a stranger's, leads to. One that another command is
//          working on counts as living.
// Why      Nomad never tells us of an allocation that ended while its agent was away. What such an
//          attachment held is given back when somebody needs it: an address of a full pool, a host
//          port.
#pragma once

#include <string>
#include <vector>

#include "plugin/host.h"
#include "plugin/record.h"

namespace nomad_bridge {

[[nodiscard]] bool IsAlive(Host& host, const Record& record);

// Records of this node's attachments that are alive, but for `except`.
[[nodiscard]] std::vector<Record> LivingOthers(Host& host, const Attachment& except);

// Removes all of `who` if it is dead: elements, link, leases, record. False if it lives, or is
// unknown to us.
[[nodiscard]] bool BuryIfDead(Host& host, const Attachment& who);

// Buries every dead attachment of `network`, elements included; returns how many. Then leases from
// before the last boot, which no namespace can have survived.
int BuryTheDead(Host& host, const std::string& network, const std::string& data_dir);

}  // namespace nomad_bridge
