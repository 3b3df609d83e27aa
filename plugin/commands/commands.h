// What this binary does, one function per CNI verb and kind of plugin. Each runs once per process;
// errors are thrown, results are printed into the file descriptor `out`.
//
// Kinds   Interface  nomad-bridge, bridge: makes an interface, and all that the name does with it
//         Leases     host-local: addresses for an interface that somebody else makes
//         Rules      firewall, portmap: for an interface that somebody else has made (prevResult),
//                    often we ourselves under another name
//         Loopback   loopback: the container's lo
// Source  CNI specification 1.1.0, "CNI operations".
#pragma once

#include "plugin/cni/plugin_type.h"
#include "plugin/cni/request.h"

namespace nomad_bridge::commands {

// ADD: makes the attachment, or takes over what an earlier ADD of it left, and prints the result.
// On failure everything is taken back but what attachments share: bridge, table, forwarding.
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

// CHECK: puts the host's side right (unless repairOnCheck is false), then compares the container's side
// with prevResult. Throws kChanged naming every difference. Never touches the container.
void CheckInterface(const cni::Request& request, const cni::PluginType& type);
void CheckLeases(const cni::Request& request, const cni::PluginType& type);
void CheckRules(const cni::Request& request, const cni::PluginType& type);
void CheckLoopback(const cni::Request& request, const cni::PluginType& type);

// Removes every attachment of the network that is not listed in cni.dev/valid-attachments. Without
// any list only those whose namespace has gone.
void Gc(const cni::Request& request, const cni::PluginType& type);

// Throws kUnavailable if an ADD could not possibly work here.
void Status(const cni::Request& request, const cni::PluginType& type);

}  // namespace nomad_bridge::commands
