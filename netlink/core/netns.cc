#include "netlink/core/netns.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <set>
#include <utility>

#include <fcntl.h>
#include <linux/magic.h>
#include <linux/nsfs.h>
#include <linux/sockios.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"

namespace nomad_bridge::netlink {
namespace {

constexpr const char* kCurrent = "/proc/self/ns/net";

// An open network namespace, or the reason why it could not be opened.
struct Opened {
  UniqueFd fd;
  std::string refusal;
  bool for_lack = false;  // fds or memory ran out; the path may be right
};

Opened TryOpen(const std::string& path) {
  // The path may be any file: without O_NONBLOCK, opening a FIFO would wait for its writer.
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) {
    const int why = errno;
    return {.refusal = ErrnoText(why), .for_lack = why == EMFILE || why == ENFILE || why == ENOMEM};
  }
  struct statfs system {};
  if (::fstatfs(fd.get(), &system) != 0) {
    return {.refusal = ErrnoText(errno)};
  }
  // NS_GET_NSTYPE only on nsfs: another file may give the same ioctl number another meaning.
  if (system.f_type != NSFS_MAGIC || ::ioctl(fd.get(), NS_GET_NSTYPE) != CLONE_NEWNET) {
    return {.refusal = "it is no network namespace"};
  }
  return {.fd = std::move(fd)};
}

}  // namespace

Netns::Netns(UniqueFd fd) : fd_(std::move(fd)) {
  struct stat status {};
  if (::fstat(fd_.get(), &status) != 0) {
    throw ErrnoError(Code::kKernel, "cannot identify a network namespace");
  }
  id_ = {.device = status.st_dev, .inode = status.st_ino};
}

Netns Netns::Current() {
  UniqueFd fd(::open(kCurrent, O_RDONLY | O_CLOEXEC));
  if (!fd) {
    throw ErrnoError(Code::kKernel, "cannot open this process's network namespace");
  }
  return Netns(std::move(fd));
}

Netns Netns::Open(const std::string& path) {
  Opened opened = TryOpen(path);
  if (!opened.fd) {
    throw Error(Code::kInvalidEnvironment,
                Format("cannot open CNI_NETNS '{}'", path),
                std::move(opened.refusal));
  }
  return Netns(std::move(opened.fd));
}

std::optional<Netns> Netns::Find(const std::string& path) {
  Opened opened = TryOpen(path);
  if (opened.for_lack) {
    throw Error(Code::kKernel, Format("cannot open '{}'", path), std::move(opened.refusal));
  }
  return opened.fd ? std::optional(Netns(std::move(opened.fd))) : std::nullopt;
}

Netns Netns::OfSocket(int socket) {
  UniqueFd fd(::ioctl(socket, SIOCGSKNS));
  if (!fd) {
    throw ErrnoError(Code::kKernel, "cannot open a socket's network namespace");
  }
  return Netns(std::move(fd));
}

std::uint64_t NetnsCookie(int socket) {
  std::uint64_t cookie = 0;
  socklen_t size = sizeof cookie;
  return ::getsockopt(socket, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &size) == 0 ? cookie : 0;
}

void ForEachNetns(const std::function<void(const Netns& netns, const std::string& path)>& act) {
  std::set<ino_t> seen;  // nsfs is one device, so inodes are enough
  const auto visit = [&](const std::string& path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) == 0 && seen.insert(status.st_ino).second) {
      if (const std::optional<Netns> netns = Netns::Find(path)) {
        act(*netns, path);
      }
    }
  };
  // proc(5): "36 35 0:4 net:[4026532441] /run/netns/name ..."
  constexpr std::size_t kMaxBytes = 64 << 20;
  const std::string mounts = FindFile("/proc/self/mountinfo", kMaxBytes).value_or("");
  for (const std::string& line : SplitFields(mounts, "\n")) {
    const std::vector<std::string> fields = SplitFields(line, " ");
    if (fields.size() > 4 && fields[3].starts_with("net:[")) {
      visit(fields[4]);
    }
  }
  for (const std::string& name : Entries("/proc")) {
    if (std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; })) {
      visit(Format("/proc/{}/ns/net", name));
    }
  }
}

namespace {

bool& IsAway() {
  static bool is_away = false;
  return is_away;
}

// Enters `home` again. Ends the process if it cannot.
struct GoBack {
  bool was_away = false;

  void operator()(const Netns* home) const {
    if (::setns(home->fd(), CLONE_NEWNET) != 0) {
      std::abort();
    }
    IsAway() = was_away;
  }
};

}  // namespace

bool IsInAnotherNetns() {
  return IsAway();
}

Netns Netns::Create() {
  const Netns home = Current();
  if (::unshare(CLONE_NEWNET) != 0) {
    throw ErrnoError(Code::kKernel, "cannot make a network namespace");
  }
  const std::unique_ptr<const Netns, GoBack> way_back(&home, GoBack{IsAway()});
  return Current();
}

void InNetns(const Netns& ns, const std::function<void()>& act) {
  struct stat here {};
  if (::stat(kCurrent, &here) == 0 &&
      ns.id() == NetnsId{.device = here.st_dev, .inode = here.st_ino}) {
    act();
    return;
  }
  const Netns home = Netns::Current();
  if (::setns(ns.fd(), CLONE_NEWNET) != 0) {
    throw ErrnoError(Code::kKernel, "cannot enter a network namespace");
  }
  const std::unique_ptr<const Netns, GoBack> way_back(&home, GoBack{std::exchange(IsAway(), true)});
  act();
}

}  // namespace nomad_bridge::netlink
