// install and uninstall: put one file and five links to it into a directory of CNI plugins, or
// remove them.
//
// Ours     A link to "nomad-bridge" in the same directory, even if that file is missing. Also a
//          file with the mark that every build of this program has, even behind another link.
// Atomic   At any moment, each name leads to the old or to the new program (rename(2)). A running
//          program is not disturbed.
#include <algorithm>
#include <array>
#include <cerrno>
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
#include "plugin/cli/inventory.h"
#include "plugin/cli/terminal.h"
#include "plugin/cni/plugin_type.h"
#include "plugin/state/host.h"

namespace nomad_bridge::cli {
namespace {

namespace fs = std::filesystem;

// Identifies our programs of all versions, so it must never change.
constexpr std::string_view kMark =
    "\nThis file is the CNI plugin nomad-bridge, and may replace itself.\n";
constexpr std::string_view kProgram = "nomad-bridge";
constexpr std::string_view kKeptAs = ".before-nomad-bridge";
constexpr mode_t kProgramMode = 0755;
constexpr std::size_t kMaxProgramBytes = 256 << 20;  // a build for debugging has some 50 MB

void Require(bool is_done, const std::string& what) {
  if (!is_done) {
    throw ErrnoError(Code::kIo, what);
  }
}

// One of our names in the directory, and what has the name now.
struct Place {
  std::string name;
  std::string path;
  bool is_taken = false;
  bool is_ours = false;

  [[nodiscard]] bool IsForeign() const { return is_taken && !is_ours; }
};

bool IsOurs(const std::string& path) {
  std::error_code none;
  if (fs::read_symlink(path, none) == kProgram) {
    return true;
  }
  // Fails for anything but a regular file, so a pipe is never opened.
  const std::uintmax_t size = fs::file_size(path, none);
  return !none && size <= kMaxProgramBytes &&
         FindFile(path, kMaxProgramBytes).value_or("").find(kMark) != std::string::npos;
}

// Returns the program first, so that no link ever leads to a missing file.
std::vector<Place> FindPlaces(const std::string& directory, const std::vector<std::string>& names) {
  std::vector<Place> places;
  for (const std::string& name : names) {
    const std::string path = Cat(directory, '/', name);
    places.push_back({name, path, FindStatus(path).has_value(), IsOurs(path)});
  }
  return places;
}

// Gives the file a second name, and returns this name. link(2) never overwrites, so files that were
// kept earlier stay.
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
  // Syncs the file before it gets its name: after a power failure half a plugin would be worse than
  // none.
  Require(::fchmod(fd.get(), kProgramMode) == 0 && ::fsync(fd.get()) == 0,
          Format("cannot write '{}'", path));
}

void Install(const Place& place, const std::string& self) {
  // The process id keeps two installs from writing the same file.
  const std::string fresh = Cat(place.path, ".new-", ::getpid());
  EnsureFileGone(fresh);
  Undo undo;
  undo.Then("remove what was prepared", [&] { EnsureFileGone(fresh); });
  if (place.name == kProgram) {
    WriteProgram(fresh, self);
  } else {
    Require(::symlink(kProgram.data(), fresh.c_str()) == 0,
            Format("cannot create the link '{}'", fresh));
  }
  const std::string kept = place.IsForeign() ? Keep(place) : "";
  Require(::rename(fresh.c_str(), place.path.c_str()) == 0,
          Format("cannot replace '{}'", place.path));
  Print(Format("{}: {}{}\n",
               place.path,
               place.name == kProgram ? "this program" : Cat("link to ", kProgram),
               kept.empty() ? "" : Cat(", what was there is kept as ", kept)));
}

int RunInstall(const Arguments& arguments) {
  const std::optional<std::string> self = FindFile("/proc/self/exe", kMaxProgramBytes);
  if (!self) {
    throw Error(Code::kIo, "cannot read this program", "is /proc mounted?");
  }
  const std::string& directory = arguments.operands.front();
  EnsureDirectory(directory);
  const std::vector<Place> places = FindPlaces(
      directory,
      arguments.Has("only") ? std::vector{std::string(kProgram)} : cni::PluginTypeNames());
  // Names all files that are in the way in one error, before anything is changed.
  std::string foreign;
  for (const Place& place : places) {
    if (place.IsForeign() && (!arguments.Has("replace") || fs::is_directory(place.path))) {
      foreign += Cat(foreign.empty() ? "" : ", ", Quoted(place.path));
    }
  }
  if (!foreign.empty()) {
    throw Error(Code::kConflict,
                Cat("nothing was changed, because this is not ours: ", foreign),
                Cat("-replace renames such a file to NAME", kKeptAs));
  }
  for (const Place& place : places) {
    Install(place, *self);
  }
  return kYes;
}

// Throws unless all attachments are stale: without the program, the others would get no DEL. An
// attachment without a record counts, too.
void RequireNoneRuns() {
  state::Host host = state::Host::OpenToLook();
  const Inventory inventory = TakeInventory(host);
  const auto count = static_cast<std::size_t>(std::ranges::count_if(
      inventory.attachments, [](const auto& each) { return each.state != State::kDead; }));
  if (count != 0) {
    throw Error(Code::kConflict,
                Format("nothing was removed: this node still has {}, and DEL needs the program",
                       Counted(count, "attachment")),
                "stop their allocations first: nomad node drain -self -enable");
  }
}

// Does not restore kept files: the operator decides what the next allocation runs as `bridge`.
int RunUninstall(const Arguments& arguments) {
  RequireNoneRuns();
  std::vector<Place> places = FindPlaces(arguments.operands.front(), cni::PluginTypeNames());
  std::ranges::reverse(places);  // the links before the program
  for (const Place& place : places) {
    if (place.is_ours) {
      EnsureFileGone(place.path);
    }
    if (place.is_taken) {
      Print(Format("{}: {}\n", place.path, place.is_ours ? "removed" : "not ours, left"));
    }
  }
  return kYes;
}

constexpr std::array kInstallFlags = {
    Flag{"only", nullptr, "creates no links, and leaves what has their names"},
    Flag{"replace", nullptr, "keeps files that are not ours, as NAME.before-nomad-bridge"}};

}  // namespace

const Command kInstall = {
    .name = "install",
    .operands = {"DIR", 1, 1},
    .summary = "copies this program to DIR, with its links",
    .text =
        R"(Copies this program to DIR, as nomad-bridge, and creates links to it under the
names of the reference plugins that it stands in for: bridge, host-local,
firewall, portmap, loopback. Replaces an older nomad-bridge, also while it is
running. A file that is not ours is refused, and then nothing is changed. Beside
the reference plugins: -only, or -replace.
)",
    .flags = kInstallFlags,
    .run = RunInstall};

const Command kUninstall = {
    .name = "uninstall",
    .operands = {"DIR", 1, 1},
    .summary = "removes from DIR what install put there",
    .text =
        R"(Removes nomad-bridge from DIR, and the links and copies of it under the names
of the reference plugins. Puts nothing back: what install kept as
NAME.before-nomad-bridge, and what is not ours, stays. Refused as long as an
attachment is alive, because its DEL needs the program.
)",
    .run = RunUninstall};

}  // namespace nomad_bridge::cli
