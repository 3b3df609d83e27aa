#include "tests/bench/world.h"

#include <cerrno>
#include <stdexcept>

#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"

namespace nomad_bridge::bench {
namespace {

void Require(bool done, const std::string& what) {
  if (!done) {
    throw std::runtime_error(Cat("cannot ", what, ": ", ErrnoText(errno)));
  }
}

UniqueFd OpenNamespace(const char* kind) {
  UniqueFd fd(::open(Cat("/proc/self/ns/", kind).c_str(), O_RDONLY | O_CLOEXEC));
  Require(static_cast<bool>(fd), Cat("open our ", kind, " namespace"));
  return fd;
}

void MountTmpfs(const char* folder) {
  struct stat status {};
  // A link leads into a folder that has its own already: /var/run into /run.
  if (::lstat(folder, &status) == 0 && S_ISDIR(status.st_mode)) {
    Require(::mount("none", folder, "tmpfs", 0, nullptr) == 0, Cat("mount a tmpfs on ", folder));
  }
}

void BringLoopbackUp() {
  const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{.ifr_ifrn = {"lo"}, .ifr_ifru = {}};
  request.ifr_flags = IFF_UP;
  Require(::ioctl(socket.get(), SIOCSIFFLAGS, &request) == 0, "bring lo up");
}

}  // namespace

World::World() {
  const UniqueFd home_network = OpenNamespace("net");
  const UniqueFd home_mounts = OpenNamespace("mnt");
  Require(::unshare(CLONE_NEWNET | CLONE_NEWNS) == 0, "make namespaces (this needs root)");
  Require(::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0, "keep mounts private");
  for (const char* const folder : {"/run", "/var/run", "/var/lib/cni"}) {
    MountTmpfs(folder);
  }
  EnsureFolder("/run/netns");
  BringLoopbackUp();
  network_ = OpenNamespace("net");
  mounts_ = OpenNamespace("mnt");
  // Back, so that the next world is not made inside this one.
  Require(::setns(home_network.get(), CLONE_NEWNET) == 0, "go back to our network namespace");
  Require(::setns(home_mounts.get(), CLONE_NEWNS) == 0, "go back to our mount namespace");
}

void World::Enter() const {
  Require(::setns(network_.get(), CLONE_NEWNET) == 0, "enter a world's network namespace");
  Require(::setns(mounts_.get(), CLONE_NEWNS) == 0, "enter a world's mount namespace");
}

std::string World::MakeGuest() {
  std::string path = Cat("/run/netns/guest-", ++containers_);
  Require(CreateFile(path, ""), Cat("create ", path));
  Require(::unshare(CLONE_NEWNET) == 0, "make a container's network namespace");
  Require(::mount("/proc/self/ns/net", path.c_str(), nullptr, MS_BIND, nullptr) == 0,
          Cat("bind a namespace to ", path));
  Require(::setns(network_.get(), CLONE_NEWNET) == 0, "go back to the host's network namespace");
  return path;
}

}  // namespace nomad_bridge::bench
