// Settings under /proc/sys/net of the network namespace this process is in (for another namespace
// see InNetns()).
//
// Names   as sysctl(8) shows them with '/' between the parts: "net/ipv4/ip_forward" (a link's name
//         may hold dots).
// Shapes  Values are strings, as in the file but without the newline.
// Errors  kKernel naming the setting and the value.
// Cost    9 us for a setting of the node, or 0.1 to 0.6 ms if other programs have opened settings
//         in hundreds of namespaces. 18 us for a setting of a container or a new interface, and 105
//         us more for the first such setting: see sysctl.cc.
// Source  sysctl(8), proc_sys(5), fsmount(2).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace nomad_bridge::netlink {

// Returns the name of a link's setting: Ipv4Setting("eth0", "rp_filter") is
// "net/ipv4/conf/eth0/rp_filter". "default" stands for the settings that new links begin with,
// "all" for those of all links.
[[nodiscard]] std::string Ipv4Setting(std::string_view ifname, std::string_view setting);
[[nodiscard]] std::string Ipv6Setting(std::string_view ifname, std::string_view setting);

// Returns the value; nullopt if this kernel has no such setting.
[[nodiscard]] std::optional<std::string> FindSysctl(const std::string& name);

// Writes only if the value differs, so a read-only /proc/sys that is already right is no error.
// Returns whether it wrote.
bool EnsureSysctl(const std::string& name, const std::string& value);

// For settings that traffic does not need. Writes without reading first: a new interface still has
// the default settings. Does nothing if this kernel lacks the setting (IPv6 switched off at boot).
// If the setting cannot be written (/proc/sys is read-only) and is not right already, logs a line.
void SetSysctlIfPossible(const std::string& name, const std::string& value);

// Like SetSysctlIfPossible(), but uses the node's /proc, which is cheaper for a command that sets
// only one setting.
void SetOneSysctlIfPossible(const std::string& name, const std::string& value);

// Returns the value as a number; 0 if it is not a number or this kernel has no such setting.
[[nodiscard]] long SysctlNumber(const std::string& name);

// Returns whether the setting exists and is neither "0" nor empty.
[[nodiscard]] bool IsSysctlOn(const std::string& name);

}  // namespace nomad_bridge::netlink
