#include "tests/support/isolation.h"

#include <csignal>
#include <iostream>

#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/test.h"

namespace nomad_bridge::test {
namespace {

constexpr std::array kStateDirectories = {"/run", "/var/run", "/var/lib/cni"};
constexpr const char* kMark = "NOMAD_BRIDGE_TEST_ISOLATED";

[[noreturn]] void Die(const std::string& what) {
  std::cerr << what << ": " << ErrnoText(errno) << "\n";
  std::_Exit(EXIT_FAILURE);
}

// The kernel's settings on which tests, and the programs that they run, depend. See
// Documentation/networking/ip-sysctl.rst.
struct Setting {
  const char* family;
  const char* name;
  const char* value;
};
constexpr std::array kDefaults = {Setting{"ipv4", "forwarding", "0"},
                                  Setting{"ipv4", "rp_filter", "0"},
                                  Setting{"ipv4", "arp_ignore", "0"},
                                  Setting{"ipv4", "arp_announce", "0"},
                                  Setting{"ipv4", "proxy_arp", "0"},
                                  Setting{"ipv4", "route_localnet", "0"},
                                  Setting{"ipv4", "accept_local", "0"},
                                  Setting{"ipv6", "forwarding", "0"},
                                  Setting{"ipv6", "accept_ra", "1"},
                                  Setting{"ipv6", "disable_ipv6", "0"}};

// /proc/sys/net shows the network namespace of the process that opens it.
void Reset(const Setting& setting, const char* link) {
  const std::string path = Cat("/proc/sys/net/", setting.family, "/conf/", link, '/', setting.name);
  std::string value;
  std::ifstream(path) >> value;
  // Written only if it differs: some writes wait for the kernel's lock of all links.
  if (!value.empty() && value != setting.value) {
    std::ofstream(path) << setting.value;
  }
}

bool IsDirectory(const char* path) {
  struct stat status {};
  return ::lstat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

// Waits for `child`, reaps all other children meanwhile, and exits with the child's exit code.
[[noreturn]] void ExitAs(pid_t child) {
  int status = 0;
  for (pid_t gone = 0; gone != child;) {
    gone = ::waitpid(-1, &status, 0);
    if (gone < 0 && errno != EINTR) {
      Die("cannot wait for the tests");
    }
  }
  std::_Exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

// Forks, and returns in the child. The parent waits, and ends as the child ended.
void GoOnAsChild() {
  const pid_t child = ::fork();
  if (child < 0) {
    Die("cannot fork");
  }
  if (child > 0) {
    ExitAs(child);
  }
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
}

}  // namespace

bool IsIsolated() {
  return std::getenv(kMark) != nullptr;
}

void EnterIsolation() {
  if (::geteuid() != 0) {
    std::cerr << "kernel and plugin tests need root: they make network namespaces\n";
    std::_Exit(EXIT_FAILURE);
  }
  if (::unshare(CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWPID) != 0) {
    Die("cannot make fresh namespaces");
  }
  GoOnAsChild();  // the first process of the new pid namespace: only waits and reaps,
  GoOnAsChild();  // because signals by default do nothing to it, not even abort()
  if (::mount("", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) != 0 ||
      ::mount("sysfs", "/sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) != 0) {
    Die("cannot mount /proc and /sys afresh");
  }
  ResetNetworkSettings();
  ::mkdir("/var/lib/cni", 0755);
  ::setenv(kMark, "1", 1);
}

void ResetNetworkSettings() {
  for (const Setting& setting : kDefaults) {
    for (const char* const link : {"all", "default", "lo"}) {
      Reset(setting, link);
    }
  }
}

FreshState::FreshState() {
  if (!IsIsolated()) {
    throw std::logic_error("state directories are only replaced in isolation");
  }
  for (const char* directory : kStateDirectories) {
    if (IsDirectory(directory) && ::mount("tmpfs", directory, "tmpfs", 0, "mode=0755") != 0) {
      throw ErrnoError(Code::kIo, Cat("cannot mount a tmpfs on ", directory));
    }
  }
}

FreshState::~FreshState() {
  for (const char* directory : kStateDirectories) {
    if (IsDirectory(directory)) {
      ::umount2(directory, MNT_DETACH);
    }
  }
}

}  // namespace nomad_bridge::test
