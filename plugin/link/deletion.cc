#include "plugin/link/deletion.h"

#include <optional>
#include <string>

#include <fcntl.h>
#include <sys/types.h>

#include "base/fd.h"
#include "base/file.h"
#include "base/text.h"
#include "plugin/state/record.h"

namespace nomad_bridge::link {
namespace {

std::string DeleterPath() {
  return Cat(state::kStateDirectory, "/.deleter");
}

// Another process may have its number by now: then a DEL waits without need, if that is a zombie.
bool IsLastChildZombie() try {
  std::string pid = FindOwnFile(DeleterPath()).value_or("");
  pid.resize(std::min(pid.size(), pid.find('\n')));
  // proc(5): "<pid> (<name, in which anything may stand>) <state> ..."
  const std::string status = pid.empty() ? "" : FindFile(Format("/proc/{}/stat", pid)).value_or("");
  return status.find(") Z ") != std::string::npos;
} catch (const Error&) {
  return false;
}

void NoteChild(pid_t pid) {
  const UniqueFd file(::open(DeleterPath().c_str(),
                             O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
                             0600));
  WriteBestEffort(file.get(), Cat(pid, '\n'));
}

}  // namespace

void DeletePair(state::Host& host, const rtnl::Link& host_end) {
  if (IsLastChildZombie()) {
    host.net.EnsureLinkGone(host_end.name);
  } else if (const auto child = host.net.EnsureLinkGone(host_end, host.NetfilterSockets())) {
    NoteChild(*child);
  }
}

}  // namespace nomad_bridge::link
