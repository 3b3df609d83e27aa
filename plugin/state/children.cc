#include "plugin/state/children.h"

#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include <fcntl.h>

#include "base/fd.h"
#include "base/file.h"
#include "base/text.h"
#include "netlink/core/background_request.h"
#include "plugin/state/record.h"

namespace nomad_bridge::state {
namespace {

constexpr std::size_t kMaxZombies = 64;

std::string Path() {
  return Cat(kStateDirectory, "/.children");
}

std::vector<pid_t> NotedChildren() {
  std::vector<pid_t> pids;
  for (const std::string& pid : SplitFields(FindOwnFile(Path()).value_or(""), "\n")) {
    pids.push_back(std::atoi(pid.c_str()));
  }
  return pids;
}

// Returns whether `pid` is a zombie. If another process has the number by now and is a zombie, too,
// a command only waits without need.
bool IsZombie(pid_t pid) {
  // proc(5): "<pid> (<name, which may contain anything>) <state> ..."
  return FindFile(Format("/proc/{}/stat", pid)).value_or("").find(") Z ") != std::string::npos;
}

void Write(const std::vector<pid_t>& pids, int flags) {
  const UniqueFd file(::open(
      Path().c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | flags, 0600));
  std::string text;
  for (const pid_t pid : pids) {
    text += Cat(pid, '\n');
  }
  WriteBestEffort(file.get(), text);
}

}  // namespace

bool MayStartChild() try {
  std::vector<pid_t> pids = NotedChildren();
  if (pids.size() < kMaxZombies) {
    return true;
  }
  std::erase_if(pids, [](pid_t pid) { return !IsZombie(pid); });
  Write(pids, O_TRUNC);
  return pids.size() < kMaxZombies;
} catch (const Error&) {
  return true;
}

void NoteChild(pid_t pid) {
  Write({pid}, O_APPEND);
}

void LeaveRemovedToChild(const Host& host) {
  if (!MayStartChild()) {
    return;
  }
  std::vector<int> sockets = {host.nft.fd()};
  if (host.conntrack) {
    sockets.push_back(host.conntrack->fd());
  }
  if (const std::optional<pid_t> child = netlink::CloseAfterGracePeriod(sockets)) {
    NoteChild(*child);
  }
}

}  // namespace nomad_bridge::state
