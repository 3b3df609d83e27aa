#include "netlink/core/sysctl.h"

#include <array>
#include <cerrno>
#include <string_view>

#include <fcntl.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/text.h"

namespace nomad_bridge::netlink {
namespace {

enum class Absent { kIsAnError, kIsFine };

void Set(const std::string& name, const std::string& value, Absent absent) {
  const UniqueFd fd(::open(("/proc/sys/" + name).c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd && errno == ENOENT && absent == Absent::kIsFine) {
    return;
  }
  // One write(2): the kernel takes each for a whole value.
  if (!fd || ::write(fd.get(), value.data(), value.size()) < 0) {
    throw ErrnoError(Code::kKernel, Format("cannot set '{}' to '{}'", name, value));
  }
}

}  // namespace

std::optional<std::string> FindSysctl(const std::string& name) {
  const UniqueFd fd(::open(("/proc/sys/" + name).c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd && errno == ENOENT) {
    return std::nullopt;
  }
  // One read(2), too: the kernel gives a whole value.
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
  Set(name, value, Absent::kIsAnError);
  return true;
}

void SetSysctlIfPresent(const std::string& name, const std::string& value) {
  Set(name, value, Absent::kIsFine);
}

bool IsSysctlOn(const std::string& name) {
  const std::optional<std::string> value = FindSysctl(name);
  return value && !value->empty() && value != "0";
}

}  // namespace nomad_bridge::netlink
