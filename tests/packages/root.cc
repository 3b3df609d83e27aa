#include "tests/packages/root.h"

#include <sys/mount.h>
#include <unistd.h>

#include "tests/support/test.h"

namespace nomad_bridge::test {
namespace {

constexpr const char* kRoot = "/mnt/root";

void Mount(const std::string& options, const std::string& source, const std::string& target) {
  fs::create_directories(target);
  std::vector<std::string> argv = Words(Cat("mount ", options));
  argv.insert(argv.end(), {source, target});
  Must({.argv = argv});
}

}  // namespace

std::string ReleaseFile(const std::string& begin,
                        const std::string& end,
                        const std::string& directory) {
  const std::string where = Cat(NOMAD_BRIDGE_PACKAGES "/", directory);
  for (const fs::directory_entry& entry : fs::directory_iterator(where)) {
    const std::string name = entry.path().filename();
    if (name.starts_with(begin) && name.ends_with(end)) {
      return entry.path();
    }
  }
  throw std::runtime_error(Format("no file {}...{} in {}", begin, end, where));
}

Root::Root(const std::string& release) {
  Mount("-t tmpfs", "tmpfs", "/mnt");
  if (release.empty()) {
    fs::create_directories(kRoot);
  } else {
    fs::create_directories("/mnt/upper");
    fs::create_directories("/mnt/work");
    const fs::path store = fs::read_symlink(Cat(NOMAD_BRIDGE_PACKAGES "/roots/", release));
    Mount(Cat("-t overlay -o upperdir=/mnt/upper,workdir=/mnt/work,lowerdir=", store.string()),
          "overlay",
          kRoot);
  }
  Mount("-t proc", "proc", Path("/proc"));
  Mount("--rbind", "/run", Path("/run"));
}

Root::~Root() {
  ::umount2("/mnt", MNT_DETACH);
}

std::string Root::Path(const std::string& path) const {
  return Cat(kRoot, path);
}

Command Root::In(Command command) const {
  command.in_child = [] {
    if (::chroot(kRoot) != 0 || ::chdir("/") != 0) {
      ::_exit(127);
    }
  };
  return command;
}

Outcome Root::Run(const std::vector<std::string>& argv, const Variables& variables) const {
  Command command{.argv = argv, .variables = variables, .inherits_environment = false};
  command.variables.insert({{"PATH", "/usr/sbin:/usr/bin:/sbin:/bin"},
                            {"DEBIAN_FRONTEND", "noninteractive"},
                            {"LC_ALL", "C.UTF-8"}});
  return Execute(In(std::move(command)));
}

void Root::Put(const std::string& file, const std::string& path) const {
  fs::create_directories(fs::path(Path(path)).parent_path());
  fs::copy_file(file, Path(path), fs::copy_options::overwrite_existing);
}

std::vector<std::string> Root::Files() const {
  std::vector<std::string> files;
  for (auto entry = fs::recursive_directory_iterator(kRoot);
       entry != fs::recursive_directory_iterator();
       ++entry) {
    const std::string path = entry->path().string().substr(std::string(kRoot).size());
    const bool is_apart = std::ranges::any_of(std::vector{"/proc",
                                                          "/run",
                                                          "/sys",
                                                          "/var/lib/dpkg",
                                                          "/var/lib/rpm",
                                                          "/root/.rpmdb",
                                                          "/var/lib/dnf",
                                                          "/var/log",
                                                          "/var/cache"},
                                              [&](const char* apart) { return path == apart; });
    if (is_apart) {
      entry.disable_recursion_pending();
    }
    files.push_back(path);
  }
  std::ranges::sort(files);
  return files;
}

}  // namespace nomad_bridge::test
