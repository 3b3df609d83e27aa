// install and uninstall: one file and five links to it in a directory of CNI plugins.
//
// Ours     A file, or what a link leads to, that carries the mark of every build of this program;
//          and a link to "nomad-bridge" beside it, even if that is absent.
// Atomic   Each name leads to the old or the new program at any moment (rename(2)); a running one
//          is not disturbed.
// Locks    none, which any user could hold who may read the directory: each install has temporary
//          files of its own, and removes those that others left. One that was still at work then
//          fails without having changed the name.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/text.h"
#include "plugin/cli/command.h"
#include "plugin/cli/terminal.h"
#include "plugin/cni/plugin_type.h"

namespace nomad_bridge::cli {
namespace {

// Identifies our programs, also those of other versions; must never change.
constexpr std::string_view kMark =
    "\nThis file is the CNI plugin nomad-bridge, and may replace itself.\n";
constexpr std::string_view kProgram = "nomad-bridge";
constexpr std::string_view kTemporary = ".nomad-bridge.new";  // begins their names
constexpr std::string_view kKeptAs = ".before-nomad-bridge";
constexpr mode_t kProgramMode = 0755;
constexpr std::size_t kMaxProgramBytes = 256 << 20;  // a build for debugging has some 50 MB

enum class Occupant {
  kNone,
  kSame,  // as install would make it
  kOurs,
  kForeign,
  kDirectory,
};

void Require(bool is_done, const std::string& what) {
  if (!is_done) {
    throw ErrnoError(Code::kIo, what);
  }
}

// Not the process id, which is another process's in another namespace.
std::uint64_t Random() {
  std::uint64_t value = 0;
  Require(::getrandom(&value, sizeof value, 0) == sizeof value, "cannot get a random number");
  return value;
}

class PluginDirectory {
 public:
  // Has to exist and be writable.
  explicit PluginDirectory(const std::string& path)
      : path_(path), temporary_(Path(Cat(kTemporary, '.', Hex(Random(), 16)))) {
    const UniqueFd directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    Require(directory.get() >= 0, Format("cannot open the directory '{}'", path));
    Require(::faccessat(directory.get(), ".", W_OK | X_OK, AT_EACCESS) == 0,
            Format("cannot write into the directory '{}'", path));
    for (const std::string& name : Entries(path)) {
      if (name.starts_with(kTemporary)) {
        EnsureFileGone(Path(name));  // of an install that was killed
      }
    }
  }

  [[nodiscard]] std::string Path(std::string_view name) const { return Cat(path_, '/', name); }

  // What is at `name` itself, not where a link leads to. `self`: the program, which `name` may be.
  [[nodiscard]] Occupant Find(const std::string& name, const std::string& self) const {
    const std::string path = Path(name);
    const std::optional<struct stat> status = FindStatus(path);
    if (!status) {
      return Occupant::kNone;
    }
    if (S_ISDIR(status->st_mode)) {
      return Occupant::kDirectory;
    }
    std::error_code no_link;
    const bool is_program = name == kProgram;
    if (!is_program && std::filesystem::read_symlink(path, no_link) == kProgram) {
      return Occupant::kSame;
    }
    struct stat target {};
    const bool is_file = ::stat(path.c_str(), &target) == 0 && S_ISREG(target.st_mode) &&
                         target.st_size <= static_cast<off_t>(kMaxProgramBytes);
    const std::string program =
        is_file ? FindFile(path, kMaxProgramBytes).value_or("") : std::string();
    if (is_program && status->st_mode == (S_IFREG | kProgramMode) && program == self) {
      return Occupant::kSame;
    }
    return program.find(kMark) != program.npos ? Occupant::kOurs : Occupant::kForeign;
  }

  // Gives what is there a second name. link(2) never overwrites, so what was kept earlier stays.
  [[nodiscard]] std::string Keep(const std::string& name) const {
    for (int number = 1;; ++number) {
      std::string kept = Cat(name, kKeptAs, number == 1 ? "" : Cat('.', number));
      if (::link(Path(name).c_str(), Path(kept).c_str()) == 0) {
        return kept;
      }
      Require(errno == EEXIST, Format("cannot keep '{}' as '{}'", Path(name), kept));
    }
  }

  // The program, or a link to it, as the temporary file.
  void Write(bool is_program, const std::string& self) const {
    if (!is_program) {
      return Require(::symlink(kProgram.data(), temporary_.c_str()) == 0,
                     Format("cannot create the link '{}'", temporary_));
    }
    const UniqueFd fd(::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    Require(fd.get() >= 0, Format("cannot create '{}'", temporary_));
    WriteAll(fd.get(), self, temporary_);
    // Synced before it gets its name: after a power failure half a plugin is worse than none.
    Require(::fchmod(fd.get(), kProgramMode) == 0 && ::fsync(fd.get()) == 0,
            Format("cannot write '{}'", temporary_));
  }

  // Returns how, for people.
  [[nodiscard]] std::string Install(const std::string& name,
                                    Occupant occupant,
                                    const std::string& self) const {
    std::string how = occupant == Occupant::kOurs ? ", in place of an older one" : "";
    try {
      Write(name == kProgram, self);
      if (occupant == Occupant::kForeign) {
        how = Cat(", what was there is kept as ", Keep(name));
      }
      Require(::rename(temporary_.c_str(), Path(name).c_str()) == 0,
              Format("cannot replace '{}'", Path(name)));
    } catch (const Error&) {
      EnsureFileGone(temporary_);
      throw;
    }
    return how;
  }

 private:
  std::string path_;
  std::string temporary_;
};

// What is where each of `names` goes. All that is in the way is named at once, before anything is
// changed.
std::vector<Occupant> FindOccupants(const PluginDirectory& directory,
                                    const std::vector<std::string>& names,
                                    const std::string& self,
                                    bool may_replace) {
  std::string foreign;
  std::vector<Occupant> occupants;
  for (const std::string& name : names) {
    occupants.push_back(directory.Find(name, self));
    if (occupants.back() == Occupant::kDirectory) {
      throw Error(Code::kConflict, Format("'{}' is a directory", directory.Path(name)));
    }
    if (occupants.back() == Occupant::kForeign) {
      foreign += Cat(foreign.empty() ? "" : ", ", Quoted(directory.Path(name)));
    }
  }
  if (!foreign.empty() && !may_replace) {
    throw Error(Code::kConflict,
                Cat("nothing was changed, as this is not ours: ", foreign),
                Cat("with --replace it is kept beside as <name>", kKeptAs));
  }
  return occupants;
}

int RunInstall(const Arguments& arguments) {
  const std::optional<std::string> self = FindFile("/proc/self/exe", kMaxProgramBytes);
  if (!self) {
    throw Error(Code::kIo, "cannot read this program", "is /proc mounted?");
  }
  const std::string& path = arguments.operands.front();
  if (arguments.Has("p")) {
    EnsureDirectory(path);
  } else if (!FindStatus(path)) {
    throw Error(Code::kIo, Format("there is no directory '{}'", path), "with -p it is made");
  }
  const PluginDirectory directory(path);
  // The program comes first among them, so that no link ever leads nowhere.
  const std::vector<std::string> names = cni::PluginTypeNames();
  const std::vector<Occupant> occupants =
      FindOccupants(directory, names, *self, arguments.Has("replace"));
  for (std::size_t i = 0; i < names.size(); ++i) {
    Print(Format("{}: {}{}\n",
                 directory.Path(names[i]),
                 names[i] == kProgram ? "this program" : Cat("link to ", kProgram),
                 occupants[i] == Occupant::kSame
                     ? ", as before"
                     : directory.Install(names[i], occupants[i], *self)));
  }
  return kYes;
}

// Whether a package of Debian's brought `path`, and will take it away.
bool IsOfPackage(const std::string& path) {
  constexpr std::string_view kDirectory = "/var/lib/dpkg/info";
  std::error_code error;
  const std::string file = std::filesystem::canonical(path, error);
  const std::string list = Cat(kDirectory, '/', kProgram, ".list");
  return Cat('\n', FindFile(list).value_or("")).find(Cat('\n', file, '\n')) != std::string::npos;
}

void RemoveOurs(const PluginDirectory& directory, const std::string& name) {
  const std::string path = directory.Path(name);
  const Occupant occupant = directory.Find(name, "");
  if (name == kProgram && IsOfPackage(path)) {
    return Print(
        Format("{}: of the package {}, left; 'apt remove {}' removes it\n", path, name, name));
  }
  const bool is_ours = occupant == Occupant::kSame || occupant == Occupant::kOurs;
  if (is_ours) {
    EnsureFileGone(path);
  }
  if (occupant != Occupant::kNone) {
    Print(Cat(path, is_ours ? ": removed\n" : ": not ours, left\n"));
  }
}

// What was kept is not put back: what the next allocation runs as `bridge` is the operator's
// decision.
int RunUninstall(const Arguments& arguments) {
  const PluginDirectory directory(arguments.operands.front());
  std::vector<std::string> names = cni::PluginTypeNames();
  std::ranges::reverse(names);  // links before what they lead to
  if (arguments.Has("links")) {
    std::erase(names, kProgram);
  }
  for (const std::string& name : names) {
    RemoveOurs(directory, name);
  }
  std::vector<std::string> entries = Entries(arguments.operands.front());
  std::ranges::sort(entries);
  for (const std::string& name : entries) {
    if (const std::size_t at = name.find(kKeptAs); at != std::string::npos) {
      Print(Format("{}: left; 'mv' makes it {} again\n", directory.Path(name), name.substr(0, at)));
    }
  }
  return kYes;
}

constexpr std::array kInstallFlags = {
    Flag{"replace", nullptr, "keeps files that are not ours beside, as NAME.before-nomad-bridge"},
    Flag{"p", nullptr, "makes DIR if it is missing"}};

constexpr std::array kUninstallFlags = {
    Flag{"links", nullptr, "the five links alone: the program stays"}};

}  // namespace

const Command kInstall = {
    .name = "install",
    .operands = {"DIR", 1, 1},
    .summary = "copies this program to DIR, with links for the plugins it stands in for",
    .text =
        R"(Copies this program to DIR, as nomad-bridge, and creates links to it under the names of
the reference plugins it stands in for: bridge, host-local, firewall, portmap, loopback.
An older nomad-bridge is replaced, also while it is running. A file that is not ours is
refused, and then nothing is changed.
)",
    .flags = kInstallFlags,
    .run = RunInstall};

const Command kUninstall = {
    .name = "uninstall",
    .operands = {"DIR", 1, 1},
    .summary = "removes from DIR what install put there",
    .text =
        R"(Removes nomad-bridge from DIR, and the links and copies of it under the names of the
reference plugins. Nothing is put back: what install kept as NAME.before-nomad-bridge, and
what is not ours, stays and is named; so does a program that a package brought. Attachments that
run go on, but have no DEL then.
)",
    .flags = kUninstallFlags,
    .run = RunUninstall};

}  // namespace nomad_bridge::cli
