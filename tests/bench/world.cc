#include "tests/bench/world.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "tests/support/process.h"

namespace nomad_bridge::bench {
namespace {

void Require(bool done, const std::string& what) {
  if (!done) {
    throw ErrnoError(Code::kInternal, Cat("cannot ", what));
  }
}

UniqueFd OpenNamespace(const char* kind) {
  UniqueFd fd(::open(Cat("/proc/self/ns/", kind).c_str(), O_RDONLY | O_CLOEXEC));
  Require(static_cast<bool>(fd), Cat("open our ", kind, " namespace"));
  return fd;
}

}  // namespace

World::World() {
  const UniqueFd home_network = OpenNamespace("net");
  const UniqueFd home_mounts = OpenNamespace("mnt");
  Require(::unshare(CLONE_NEWNET | CLONE_NEWNS) == 0, "make namespaces");
  state_.emplace();
  EnsureDirectory("/run/netns");
  Require(test::Execute({"ip", "link", "set", "lo", "up"}).exit_code == 0, "bring lo up");
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

std::string World::MakeContainer() {
  std::string path = Cat("/run/netns/container-", ++containers_);
  Require(CreateFile(path, ""), Cat("create ", path));
  Require(::unshare(CLONE_NEWNET) == 0, "make a container's network namespace");
  Require(::mount("/proc/self/ns/net", path.c_str(), nullptr, MS_BIND, nullptr) == 0,
          Cat("bind a namespace to ", path));
  Require(::setns(network_.get(), CLONE_NEWNET) == 0, "go back to the host's network namespace");
  return path;
}

}  // namespace nomad_bridge::bench
