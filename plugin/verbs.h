// What this binary does, one function per CNI verb. Each runs once per process; errors are thrown,
// results are printed.
//
// Source  CNI specification 1.1.0, "CNI operations".
#pragma once

#include <ostream>

#include "plugin/names.h"
#include "plugin/request.h"

namespace nomad_bridge {

// Makes the attachment, or takes over what an earlier ADD of it left, and prints the result. On
// failure everything is taken back but what attachments share: bridge, table, forwarding.
void Add(const Request& request, const Name& name, std::ostream& out);

// Removes the attachment, whatever is left of it, by its identity alone. Goes on past errors and
// throws them together; nothing left to remove is success.
void Del(const Request& request, const Name& name);

// Puts the host's side right (unless repairOnCheck is false), then compares the guest's side with
// prevResult. Throws kChanged naming every difference. Never touches the guest.
void Check(const Request& request, const Name& name);

// Removes every attachment of the network that is not listed in cni.dev/valid-attachments. Without
// any list only those whose namespace has gone.
void Gc(const Request& request, const Name& name);

// Throws kUnavailable if an ADD could not possibly work here.
void Status(const Request& request, const Name& name);

// Prints the versions of the protocol that we speak.
void Version(std::ostream& out);

// For people and for Nomad's fingerprint: what this is, on stderr.
void About(const Name& name, std::ostream& err);

}  // namespace nomad_bridge
