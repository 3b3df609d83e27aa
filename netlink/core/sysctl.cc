#include "netlink/core/sysctl.h"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <string_view>

#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/text.h"
#include "netlink/core/netns.h"

namespace nomad_bridge::netlink {
namespace {

// Mounts an instance of procfs that has no path. Returns an empty UniqueFd if the kernel or a
// security policy refuses the mount.
UniqueFd MountProc() {
  const UniqueFd context(::fsopen("proc", FSOPEN_CLOEXEC));
  if (!context || ::fsconfig(context.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0) {
    return {};
  }
  return UniqueFd(::fsmount(context.get(), FSMOUNT_CLOEXEC, 0));
}

// For each namespace in which a setting was opened, the kernel keeps an entry for net/ipv4 and
// net/ipv6 in the node's /proc, all under one name. Every later open, by any program, compares all
// these entries: with 700 containers that have IPv6, an ADD took 11 ms instead of 3. So we open
// settings of containers and of our interfaces in a procfs instance of our own, which ends with
// this process. The unmount is most of its cost (80 us). We use /proc if we cannot mount an
// instance.
constexpr int kNodesProc = -1;

int OwnProc() {
  static const UniqueFd kOwn = MountProc();
  return kOwn.get();
}

// We open the node's own settings in the node's /proc, where its operator may have made /proc/sys
// read-only on purpose.
int ProcForThisNetns() {
  return IsInAnotherNetns() ? OwnProc() : kNodesProc;
}

UniqueFd Open(int proc, const std::string& name, int flags) {
  return UniqueFd(proc < 0 ? ::open(Cat("/proc/sys/", name).c_str(), flags | O_CLOEXEC)
                           : ::openat(proc, Cat("sys/", name).c_str(), flags | O_CLOEXEC));
}

// Returns whether it could write; if not, errno has the reason.
bool Write(int proc, const std::string& name, const std::string& value) {
  const UniqueFd fd = Open(proc, name, O_WRONLY);
  // One write(2): the kernel takes each write for a whole value.
  return fd && ::write(fd.get(), value.data(), value.size()) >= 0;
}

void WriteBestEffort(int proc, const std::string& name, const std::string& value) {
  if (Write(proc, name, value) || errno == ENOENT) {
    return;
  }
  const int error = errno;
  if (FindSysctl(name) != value) {
    LogLine("cannot set '{}' to '{}': {}", name, value, ErrnoText(error));
  }
}

}  // namespace

std::string Ipv4Setting(std::string_view ifname, std::string_view setting) {
  return Cat("net/ipv4/conf/", ifname, '/', setting);
}

std::string Ipv6Setting(std::string_view ifname, std::string_view setting) {
  return Cat("net/ipv6/conf/", ifname, '/', setting);
}

std::optional<std::string> FindSysctl(const std::string& name) {
  const UniqueFd fd = Open(ProcForThisNetns(), name, O_RDONLY);
  if (!fd && errno == ENOENT) {
    return std::nullopt;
  }
  // One read(2), too: it returns a whole value.
  std::array<char, 256> value{};
  const ssize_t got = fd ? ::read(fd.get(), value.data(), value.size()) : -1;
  if (got < 0) {
    throw ErrnoError(Code::kKernel, Format("cannot read '{}'", name));
  }
  const std::string_view text(value.data(), static_cast<std::size_t>(got));
  return std::string(text.substr(0, text.find('\n')));
}

bool EnsureSysctl(const std::string& name, const std::string& value) {
  if (FindSysctl(name) == value) {
    return false;
  }
  if (!Write(ProcForThisNetns(), name, value)) {
    throw ErrnoError(Code::kKernel, Format("cannot set '{}' to '{}'", name, value));
  }
  return true;
}

void SetSysctlIfPossible(const std::string& name, const std::string& value) {
  WriteBestEffort(OwnProc(), name, value);
}

void SetOneSysctlIfPossible(const std::string& name, const std::string& value) {
  WriteBestEffort(kNodesProc, name, value);
}

long SysctlNumber(const std::string& name) {
  return std::strtol(FindSysctl(name).value_or("0").c_str(), nullptr, 10);
}

bool IsSysctlOn(const std::string& name) {
  const std::optional<std::string> value = FindSysctl(name);
  return value && !value->empty() && value != "0";
}

}  // namespace nomad_bridge::netlink
