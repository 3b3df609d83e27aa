#include "tests/support/node.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include "tests/support/isolation.h"

namespace nomad_bridge::test {
namespace {

constexpr const char* kOwn = "/proc/self/ns/net";

UniqueFd OpenNamespace(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) {
    throw ErrnoError(Code::kIo, Cat("cannot open ", path));
  }
  return fd;
}

// Returns to the namespace in which it was created, or ends the process: a test must not go on in
// the wrong namespace.
class WayBack {
 public:
  WayBack() : home_(OpenNamespace(kOwn)) {}
  WayBack(const WayBack&) = delete;
  WayBack& operator=(const WayBack&) = delete;
  ~WayBack() {
    if (::setns(home_.get(), CLONE_NEWNET) != 0) {
      std::abort();
    }
  }

 private:
  UniqueFd home_;
};

}  // namespace

Node::Node(std::string name, bool with_loopback)
    : name_(std::move(name)), path_(Cat("/run/netns/", name_)) {
  EnsureDirectory("/run/netns");
  if (!CreateFile(path_, "")) {
    throw std::logic_error(Cat("there is a node '", name_, "' already"));
  }
  const WayBack way_back;
  if (::unshare(CLONE_NEWNET) != 0 || ::mount(kOwn, path_.c_str(), "", MS_BIND, nullptr) != 0) {
    throw ErrnoError(Code::kInternal, Cat("cannot make the namespace ", name_));
  }
  fd_ = OpenNamespace(path_);
  ResetNetworkSettings();
  if (with_loopback) {
    Must({"ip", "link", "set", "lo", "up"});
  }
}

void Node::Kill() {
  fd_ = UniqueFd();
  ::umount2(path_.c_str(), MNT_DETACH);
  EnsureFileGone(path_);
}

void Node::Enter() const {
  if (::setns(fd_.get(), CLONE_NEWNET) != 0) {
    throw ErrnoError(Code::kInternal, Cat("cannot enter ", name_));
  }
}

void Node::Do(const std::function<void()>& act) const {
  const WayBack way_back;
  Enter();
  act();
}

Outcome Node::Run(const std::vector<std::string>& argv, const std::string& input) const {
  Outcome outcome;
  Do([&] { outcome = Execute(argv, input); });
  return outcome;
}

std::string Node::Must(const std::vector<std::string>& argv, const std::string& input) const {
  std::string out;
  Do([&] { out = test::Must({.argv = argv, .input = input, .variables = {}}); });
  return out;
}

json Node::Json(const std::vector<std::string>& argv) const {
  const std::string out = Must(argv);
  return out.find_first_not_of(" \n") == std::string::npos ? json::array() : json::parse(out);
}

std::string Node::Sysctl(const std::string& name) const {
  std::string value;
  Do([&] { value = FindFile(Cat("/proc/sys/", name)).value_or(""); });
  while (!value.empty() && value.back() == '\n') {
    value.pop_back();
  }
  return value;
}

std::vector<std::string> Node::SysctlDirectory(const std::string& name) const {
  std::vector<std::string> names;
  Do([&] { names = Entries(Cat("/proc/sys/", name)); });
  return names;
}

void Node::SetSysctl(const std::string& name, const std::string& value) const {
  Do([&] {
    const std::string path = Cat("/proc/sys/", name);
    const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (!fd || ::write(fd.get(), value.data(), value.size()) < 0) {
      throw ErrnoError(Code::kIo, Cat("cannot write '", value, "' to ", path));
    }
  });
}

}  // namespace nomad_bridge::test
