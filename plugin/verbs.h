// What this binary does, one function per CNI verb and kind of plugin. Each runs once per process;
// errors are thrown, results are printed into the file descriptor `out`.
//
// Kinds   Interface  nomad-bridge, bridge: makes an interface, and all that the name does with it
//         Leases     host-local: addresses for an interface that somebody else makes
//         Rules      firewall, portmap: for an interface that somebody else has made (prevResult),
//                    often we ourselves under another name
//         Loopback   loopback: the guest's lo
// Source  CNI specification 1.1.0, "CNI operations".
#pragma once

#include "plugin/names.h"
#include "plugin/request.h"

namespace nomad_bridge {

// ADD: makes the attachment, or takes over what an earlier ADD of it left, and prints the result.
// On failure everything is taken back but what attachments share: bridge, table, forwarding.
void AddInterface(const Request& request, const Name& name, int out);
void AddLeases(const Request& request, const Name& name, int out);
void AddRules(const Request& request, const Name& name, int out);
void AddLoopback(const Request& request, const Name& name, int out);

// DEL: removes the attachment, whatever is left of it, by its identity alone. Goes on past errors
// and throws them together; nothing left to remove is success.
void DelInterface(const Request& request, const Name& name);
void DelLeases(const Request& request, const Name& name);
void DelRules(const Request& request, const Name& name);
void DelLoopback(const Request& request, const Name& name);

// CHECK: puts the host's side right (unless repairOnCheck is false), then compares the guest's side
// with prevResult. Throws kChanged naming every difference. Never touches the guest.
void CheckInterface(const Request& request, const Name& name);
void CheckLeases(const Request& request, const Name& name);
void CheckRules(const Request& request, const Name& name);
void CheckLoopback(const Request& request, const Name& name);

// Removes every attachment of the network that is not listed in cni.dev/valid-attachments. Without
// any list only those whose namespace has gone.
void Gc(const Request& request, const Name& name);

// Throws kUnavailable if an ADD could not possibly work here.
void Status(const Request& request, const Name& name);

// Prints the versions of the protocol that we speak.
void Version(int out);

// For people and for Nomad's fingerprint: what this is, on stderr.
void About(const Name& name, int err);

}  // namespace nomad_bridge
