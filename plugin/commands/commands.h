// The commands of this binary: one function for each CNI verb and kind of plugin. A process runs
// one of them. `out` is the file descriptor for the result.
//
// Kinds   Interface  nomad-bridge, bridge: an interface with all that the type provides for it
//         Leases     host-local: addresses for an interface that another plugin makes
//         Rules      firewall, portmap: for an interface that another plugin has made (prevResult),
//                    often nomad-bridge itself under another name
//         Loopback   loopback: the container's lo
// Locks   Each function locks its attachment (base/file_lock.h has the order). GC locks one
//         attachment after the other.
// Errors  Thrown as Error. The headers of attachment/, rules/ and link/ have the codes.
// Source  CNI specification 1.1.0, "CNI operations".
#pragma once

#include "plugin/cni/plugin_type.h"
#include "plugin/cni/request.h"

namespace nomad_bridge::commands {

// ADD: makes the attachment, replaces what an earlier ADD of it left, and prints the result. After
// an error everything is undone except what attachments share: bridge, table, forwarding.
void AddInterface(const cni::Request& request, const cni::PluginType& type, int out);
void AddLeases(const cni::Request& request, const cni::PluginType& type, int out);
void AddRules(const cni::Request& request, const cni::PluginType& type, int out);
void AddLoopback(const cni::Request& request, const cni::PluginType& type, int out);

// DEL: removes whatever is left of the attachment; needs only its identity. Continues after errors
// and throws them together. If nothing is left to remove, that is success. DelRules() leaves the
// rules of an attachment with a link of ours to DelInterface().
void DelInterface(const cni::Request& request, const cni::PluginType& type);
void DelLeases(const cni::Request& request, const cni::PluginType& type);
void DelRules(const cni::Request& request, const cni::PluginType& type);
void DelLoopback(const cni::Request& request, const cni::PluginType& type);

// CHECK: repairs the host's side (unless repairOnCheck is false), then compares the container's
// side with prevResult. Throws kChanged, which names every finding. Never changes the container.
void CheckInterface(const cni::Request& request, const cni::PluginType& type);
void CheckLeases(const cni::Request& request, const cni::PluginType& type);
void CheckRules(const cni::Request& request, const cni::PluginType& type);
void CheckLoopback(const cni::Request& request, const cni::PluginType& type);

// Removes every attachment of the network that cni.dev/valid-attachments does not list. Without
// this key removes only stale attachments.
void Gc(const cni::Request& request, const cni::PluginType& type);

// Throws kUnavailable if no ADD can work here.
void Status(const cni::Request& request, const cni::PluginType& type);

}  // namespace nomad_bridge::commands
