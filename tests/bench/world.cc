#include "tests/bench/world.h"

#include <chrono>
#include <thread>

#include <fcntl.h>
#include <sched.h>

#include "base/error.h"
#include "base/text.h"
#include "tests/support/process.h"

namespace nomad_bridge::bench {
namespace {

UniqueFd OpenMountNamespace() {
  return UniqueFd(::open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC));
}

void EnterMountNamespace(const UniqueFd& mounts) {
  if (::setns(mounts.get(), CLONE_NEWNS) != 0) {
    throw ErrnoError(Code::kInternal, "cannot enter a mount namespace");
  }
}

}  // namespace

World::World() {
  const UniqueFd home = OpenMountNamespace();
  if (::unshare(CLONE_NEWNS) != 0) {
    throw ErrnoError(Code::kInternal, "cannot make a mount namespace");
  }
  mounts_ = OpenMountNamespace();
  // Of its own: a look for a file of net/ipv6 in one /proc takes longer with every namespace in
  // which somebody has looked, and the other worlds have as many.
  test::Must({.argv = {"mount", "-t", "proc", "proc", "/proc"}});
  state_.emplace();
  host_.emplace("host");
  EnterMountNamespace(home);  // else the next world would be made inside this one
}

void World::Enter() const {
  host_->Enter();
  EnterMountNamespace(mounts_);
}

std::string World::MakeContainer() {
  return test::Node(Cat("container-", ++containers_), /*with_loopback=*/false).path();
}

void AwaitQuiet() {
  // There is no event to wait for (world.h).
  std::this_thread::sleep_for(std::chrono::seconds(5));
}

}  // namespace nomad_bridge::bench
