// install and uninstall: one file and five links to it in a directory of CNI plugins.
//
// Ours     A file, or what a link leads to, that carries the mark of every build of this program;
//          and a link to "nomad-bridge" beside it, even if that is absent.
// Atomic   Each name leads to the old or the new program at any moment (rename(2)); a running one
//          is not disturbed.
// Locks    none, which any user could hold who may read the directory: each install has a directory
//          of its own for what it prepares, and removes those that others left. One that was still
//          at work then fails without having changed the name.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/text.h"
#include "base/undo.h"
#include "plugin/cli/command.h"
#include "plugin/cli/terminal.h"
#include "plugin/cni/plugin_type.h"

namespace nomad_bridge::cli {
namespace {

namespace fs = std::filesystem;

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

// One of the names, and what is there.
struct Place {
  std::string name;
  std::string path;
  Occupant occupant;
};

void Require(bool is_done, const std::string& what) {
  if (!is_done) {
    throw ErrnoError(Code::kIo, what);
  }
}

// What is at `path` itself, not where a link leads to. `self`: the program, which may be there.
Occupant Find(const std::string& path, bool is_program, const std::string& self) {
  const std::optional<struct stat> status = FindStatus(path);
  if (!status) {
    return Occupant::kNone;
  }
  if (S_ISDIR(status->st_mode)) {
    return Occupant::kDirectory;
  }
  std::error_code none;
  if (!is_program && fs::read_symlink(path, none) == kProgram) {
    return Occupant::kSame;
  }
  // What has no size, such as a pipe or a link that leads nowhere, has the greatest number there.
  const bool is_readable = fs::file_size(path, none) <= kMaxProgramBytes;
  const std::string program =
      is_readable ? FindFile(path, kMaxProgramBytes).value_or("") : std::string();
  if (is_program && status->st_mode == (S_IFREG | kProgramMode) && program == self) {
    return Occupant::kSame;
  }
  return program.find(kMark) != program.npos ? Occupant::kOurs : Occupant::kForeign;
}

void RequireDirectory(const std::string& directory, const std::string& advice) {
  if (std::error_code none; !fs::is_directory(directory, none)) {
    throw Error(Code::kIo, Format("there is no directory '{}'", directory), advice);
  }
}

// The program comes first, so that no link ever leads nowhere.
std::vector<Place> FindPlaces(const std::string& directory, const std::string& self) {
  std::vector<Place> places;
  for (const std::string& name : cni::PluginTypeNames()) {
    const std::string path = Cat(directory, '/', name);
    places.push_back({name, path, Find(path, name == kProgram, self)});
  }
  return places;
}

// All that is in the way is named at once, before anything is changed.
void RequireReplaceable(const std::vector<Place>& places, bool may_replace) {
  std::string foreign;
  for (const Place& place : places) {
    if (place.occupant == Occupant::kDirectory) {
      throw Error(Code::kConflict, Format("'{}' is a directory", place.path));
    }
    if (place.occupant == Occupant::kForeign) {
      foreign += Cat(foreign.empty() ? "" : ", ", Quoted(place.path));
    }
  }
  if (!foreign.empty() && !may_replace) {
    throw Error(Code::kConflict,
                Cat("nothing was changed, as this is not ours: ", foreign),
                Cat("with --replace it is kept beside as <name>", kKeptAs));
  }
}

// What installs prepared that were killed.
void RemoveLeftovers(const std::string& directory) {
  for (const std::string& name : Entries(directory)) {
    if (std::error_code ignored; name.starts_with(kTemporary)) {
      fs::remove_all(Cat(directory, '/', name), ignored);
    }
  }
}

// Gives what is there a second name, which it returns. link(2) never overwrites, so what was kept
// earlier stays.
std::string Keep(const Place& place) {
  for (int number = 1;; ++number) {
    const std::string suffix = Cat(kKeptAs, number == 1 ? "" : Cat('.', number));
    if (::link(place.path.c_str(), (place.path + suffix).c_str()) == 0) {
      return place.name + suffix;
    }
    Require(errno == EEXIST, Format("cannot keep '{}' as '{}{}'", place.path, place.path, suffix));
  }
}

void WriteProgram(const std::string& path, const std::string& self) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  Require(fd.get() >= 0, Format("cannot create '{}'", path));
  WriteAll(fd.get(), self, path);
  // Synced before it gets its name: after a power failure half a plugin is worse than none.
  Require(::fchmod(fd.get(), kProgramMode) == 0 && ::fsync(fd.get()) == 0,
          Format("cannot write '{}'", path));
}

// A new directory beside the plugins, in which they are made before they get their names.
std::string CreateStaging(const std::string& directory) {
  RemoveLeftovers(directory);
  // mkdtemp(3) wants six X, and puts others in their place.
  std::string path = Cat(directory, '/', kTemporary, ".XXXXXX");
  Require(::mkdtemp(path.data()) != nullptr,
          Format("cannot write into the directory '{}'", directory));
  return path;
}

// Returns how, for people.
std::string Install(const Place& place, const std::string& staging, const std::string& self) {
  if (place.occupant == Occupant::kSame) {
    return ", as before";
  }
  const std::string made = Cat(staging, '/', place.name);
  if (place.name == kProgram) {
    WriteProgram(made, self);
  } else {
    Require(::symlink(kProgram.data(), made.c_str()) == 0,
            Format("cannot create the link '{}'", made));
  }
  std::string how = place.occupant == Occupant::kForeign
                        ? Cat(", what was there is kept as ", Keep(place))
                    : place.occupant == Occupant::kOurs ? ", in place of an older one"
                                                        : "";
  Require(::rename(made.c_str(), place.path.c_str()) == 0,
          Format("cannot replace '{}'", place.path));
  return how;
}

std::string Described(const Place& place) {
  return place.name == kProgram ? "this program" : Cat("link to ", kProgram);
}

// What Install() would do, for people.
std::string Planned(const Place& place) {
  switch (place.occupant) {
    case Occupant::kSame:
      return ", as before";
    case Occupant::kOurs:
      return ", would replace an older one";
    case Occupant::kForeign:
      return Format(", would be made, and what is there kept as {}{}", place.name, kKeptAs);
    case Occupant::kNone:
    case Occupant::kDirectory:  // refused before
      return ", would be made";
  }
  return {};
}

void InstallAll(const std::vector<Place>& places,
                const std::string& directory,
                const std::string& self) {
  const std::string staging = CreateStaging(directory);
  Undo undo;
  undo.Then("remove what was prepared", [&] { fs::remove_all(staging); });
  for (const Place& place : places) {
    Print(Format("{}: {}{}\n", place.path, Described(place), Install(place, staging, self)));
  }
}

int RunInstall(const Arguments& arguments) {
  const std::optional<std::string> self = FindFile("/proc/self/exe", kMaxProgramBytes);
  if (!self) {
    throw Error(Code::kIo, "cannot read this program", "is /proc mounted?");
  }
  const std::string& directory = arguments.operands.front();
  const bool is_dry_run = arguments.Has("dry-run");
  if (!arguments.Has("p")) {
    RequireDirectory(directory, "with -p it is made");
  } else if (!is_dry_run) {
    EnsureDirectory(directory);
  }
  const std::vector<Place> places = FindPlaces(directory, *self);
  RequireReplaceable(places, arguments.Has("replace"));
  if (!is_dry_run) {
    InstallAll(places, directory, *self);
    return kYes;
  }
  for (const Place& place : places) {
    Print(Format("{}: {}{}\n", place.path, Described(place), Planned(place)));
  }
  return kYes;
}

// Whether a package of Debian's brought `path`, and will take it away.
bool IsOfPackage(const std::string& path) {
  std::error_code error;
  const std::string file = fs::canonical(path, error);
  const std::string list = FindFile("/var/lib/dpkg/info/nomad-bridge.list").value_or("");
  return Cat('\n', list).find(Cat('\n', file, '\n')) != std::string::npos;
}

// Returns what became of it, for people.
std::string RemoveOurs(const Place& place, bool is_dry_run) {
  if (place.name == kProgram && IsOfPackage(place.path)) {
    return "of the package nomad-bridge, left; 'apt remove nomad-bridge' removes it";
  }
  if (place.occupant == Occupant::kForeign || place.occupant == Occupant::kDirectory) {
    return "not ours, left";
  }
  if (is_dry_run) {
    return "would be removed";
  }
  EnsureFileGone(place.path);
  return "removed";
}

// What was kept is not put back: what the next allocation runs as `bridge` is the operator's
// decision.
int RunUninstall(const Arguments& arguments) {
  const std::string& directory = arguments.operands.front();
  const bool is_dry_run = arguments.Has("dry-run");
  RequireDirectory(directory, "");
  std::vector<Place> places = FindPlaces(directory, "");
  if (!is_dry_run) {
    RemoveLeftovers(directory);
  }
  std::ranges::reverse(places);  // links before what they lead to
  for (const Place& place : places) {
    if (place.occupant != Occupant::kNone && (place.name != kProgram || !arguments.Has("links"))) {
      Print(Format("{}: {}\n", place.path, RemoveOurs(place, is_dry_run)));
    }
  }
  std::vector<std::string> entries = Entries(directory);
  std::ranges::sort(entries);
  for (const std::string& name : entries) {
    if (const std::size_t at = name.find(kKeptAs); at != std::string::npos) {
      Print(Format("{}/{}: left; 'mv' makes it {} again\n", directory, name, name.substr(0, at)));
    }
  }
  return kYes;
}

constexpr std::array kInstallFlags = {
    Flag{"replace", nullptr, "keeps files that are not ours beside, as NAME.before-nomad-bridge"},
    Flag{"p", nullptr, "makes DIR if it is missing"},
    kDryRunFlag};

constexpr std::array kUninstallFlags = {
    Flag{"links", nullptr, "the five links alone: the program stays"},
    kDryRunFlag};

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
