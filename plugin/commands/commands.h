// What this binary does, one function per CNI verb and kind of plugin, run once per process.
// Results are printed into the file descriptor `out`.
//
// Kinds   Interface  nomad-bridge, bridge: an interface with all that the type provides for it
//         Leases     host-local: addresses for an interface that another plugin makes
//         Rules      firewall, portmap: for an interface that another plugin has made (prevResult),
//                    often nomad-bridge itself under another name
//         Loopback   loopback: the container's lo
// Locks   Each takes the lock of the attachment it is about (base/file_lock.h has the order); GC
//         takes one after the other.
// Errors  thrown as Error; their codes stand in the headers of attachment/, rules/ and link/.
// Source  CNI specification 1.1.0, "CNI operations".
#pragma once

#include "plugin/cni/plugin_type.h"
#include "plugin/cni/request.h"

namespace nomad_bridge::commands {

// ADD: makes the attachment, replacing what an earlier ADD of it left, and prints the result. On
// failure everything is undone but what attachments share: bridge, table, forwarding.
void AddInterface(const cni::Request& request, const cni::PluginType& type, int out);
void AddLeases(const cni::Request& request, const cni::PluginType& type, int out);
void AddRules(const cni::Request& request, const cni::PluginType& type, int out);
void AddLoopback(const cni::Request& request, const cni::PluginType& type, int out);

// DEL: removes the attachment, whatever is left of it, by its identity alone. Goes on past errors
// and throws them together; nothing left to remove is success.
void DelInterface(const cni::Request& request, const cni::PluginType& type);
void DelLeases(const cni::Request& request, const cni::PluginType& type);
void DelRules(const cni::Request& request, const cni::PluginType& type);
void DelLoopback(const cni::Request& request, const cni::PluginType& type);

// CHECK: repairs the host's side (unless repairOnCheck is false), then compares the container's
// side with prevResult. Throws kChanged naming every mismatch. Never changes the container.
void CheckInterface(const cni::Request& request, const cni::PluginType& type);
void CheckLeases(const cni::Request& request, const cni::PluginType& type);
void CheckRules(const cni::Request& request, const cni::PluginType& type);
void CheckLoopback(const cni::Request& request, const cni::PluginType& type);

// Removes every attachment of the network that is not listed in cni.dev/valid-attachments; without
// that key only stale ones.
void Gc(const cni::Request& request, const cni::PluginType& type);

// Throws kUnavailable if no ADD can work here.
void Status(const cni::Request& request, const cni::PluginType& type);

}  // namespace nomad_bridge::commands
