#include "netlink/core/sysctl.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/text.h"

namespace nomad_bridge::netlink {
namespace {

void Write(const std::string& name, const std::string& value) {
  const UniqueFd fd(::open(("/proc/sys/" + name).c_str(), O_WRONLY | O_CLOEXEC));
  // One write(2): the kernel takes each for a whole value.
  if (!fd || ::write(fd.get(), value.data(), value.size()) < 0) {
    throw ErrnoError(Code::kKernel, Format("cannot set '{}' to '{}'", name, value));
  }
}

}  // namespace

std::optional<std::string> FindSysctl(const std::string& name) {
  std::optional<std::string> value = FindFile("/proc/sys/" + name);
  if (value && value->ends_with('\n')) {
    value->pop_back();
  }
  return value;
}

bool EnsureSysctl(const std::string& name, const std::string& value) {
  if (FindSysctl(name) == value) {
    return false;
  }
  Write(name, value);
  return true;
}

bool EnsureSysctlIfPresent(const std::string& name, const std::string& value) {
  const std::optional<std::string> present = FindSysctl(name);
  if (!present || present == value) {
    return false;
  }
  Write(name, value);
  return true;
}

bool IsSysctlOn(const std::string& name) {
  const std::optional<std::string> value = FindSysctl(name);
  return value && !value->empty() && value != "0";
}

}  // namespace nomad_bridge::netlink
