#include <array>
#include <cerrno>
#include <cstdio>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/text.h"
#include "plugin/cli/command.h"
#include "plugin/cli/plugin_directory.h"
#include "plugin/cli/terminal.h"
#include "plugin/cni/plugin_type.h"

namespace nomad_bridge::cli {
namespace {

constexpr std::string_view kTemporary = ".nomad-bridge.new";

// A name in the directory, and what is there before the installation.
struct Entry {
  std::string name;
  Finding finding = Finding::kAbsent;
};

// Names everything that stands in the way at once.
void CheckAll(const PluginDirectory& directory, const std::vector<Entry>& entries, bool replace) {
  std::string foreign;
  for (const Entry& entry : entries) {
    if (entry.finding == Finding::kDirectory) {
      throw Error(Code::kConflict, Format("'{}' is a directory", directory.Path(entry.name)));
    }
    if (entry.finding == Finding::kForeign) {
      foreign += Cat(foreign.empty() ? "" : ", ", Quoted(directory.Path(entry.name)));
    }
  }
  if (!foreign.empty() && !replace) {
    throw Error(Code::kConflict,
                Cat("nothing was changed, as this is not ours: ", foreign),
                Cat("with --replace it is kept beside as <name>", kKeptAs));
  }
}

// Gives what is there a second name. link(2) never overwrites, so what was kept earlier stays.
std::string Keep(const PluginDirectory& directory, const std::string& name) {
  for (int number = 1;; ++number) {
    std::string kept = Cat(name, kKeptAs, number == 1 ? "" : Cat('.', number));
    if (::linkat(directory.fd(), name.c_str(), directory.fd(), kept.c_str(), 0) == 0) {
      return kept;
    }
    if (errno != EEXIST) {
      throw ErrnoError(Code::kIo, Format("cannot keep '{}' as '{}'", directory.Path(name), kept));
    }
  }
}

void WriteProgram(const PluginDirectory& directory, const std::string& self) {
  const std::string path = directory.Path(kTemporary);
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd) {
    throw ErrnoError(Code::kIo, Format("cannot create '{}'", path));
  }
  WriteAll(fd.get(), self, path);
  // Synced before it gets its name: after a power failure half a plugin is worse than none.
  if (::fchmod(fd.get(), kProgramMode) != 0 || ::fsync(fd.get()) != 0) {
    throw ErrnoError(Code::kIo, Format("cannot write '{}'", path));
  }
}

void WriteLink(const PluginDirectory& directory) {
  if (::symlinkat(kProgram.data(), directory.fd(), kTemporary.data()) != 0) {
    throw ErrnoError(Code::kIo, Format("cannot create the link '{}'", directory.Path(kTemporary)));
  }
}

// In one step: the name always exists.
void MoveInto(const PluginDirectory& directory, const std::string& name) {
  if (::renameat(directory.fd(), kTemporary.data(), directory.fd(), name.c_str()) != 0) {
    throw ErrnoError(Code::kIo, Format("cannot replace '{}'", directory.Path(name)));
  }
}

std::string What(const Entry& entry) {
  return entry.name == kProgram ? "this program" : Cat("link to ", kProgram);
}

void InstallEntry(const PluginDirectory& directory, const Entry& entry, const std::string& self) {
  const std::string path = directory.Path(entry.name);
  if (entry.finding == Finding::kSame) {
    Print(Format("{}: {}, as before\n", path, What(entry)));
    return;
  }
  std::string note = entry.finding == Finding::kOurs ? ", in place of an older one" : "";
  // A leftover of an install that was killed: we hold the lock.
  EnsureFileGone(directory.Path(kTemporary));
  try {
    if (entry.name == kProgram) {
      WriteProgram(directory, self);
    } else {
      WriteLink(directory);
    }
    if (entry.finding == Finding::kForeign) {
      note = Cat(", what was there is kept as ", Keep(directory, entry.name));
    }
    MoveInto(directory, entry.name);
  } catch (const Error&) {
    EnsureFileGone(directory.Path(kTemporary));
    throw;
  }
  Print(Cat(path, ": ", What(entry), note, '\n'));
}

// Everything is checked before anything is changed.
int RunInstall(const Arguments& arguments) {
  const std::string self = ReadSelf();
  EnsureDirectory(arguments.operands.front());
  const PluginDirectory directory(arguments.operands.front());

  std::vector<Entry> entries;
  for (const std::string& name : cni::PluginTypeNames()) {
    entries.push_back({name, Inspect(directory.Path(name), name == kProgram, self)});
  }
  CheckAll(directory, entries, arguments.Has("replace"));

  // The program comes first in the list, so that no link ever leads nowhere.
  for (const Entry& entry : entries) {
    InstallEntry(directory, entry, self);
  }
  return kYes;
}

constexpr std::array kInstallFlags = {
    Flag{"replace", nullptr, "keeps files that are not ours beside, as NAME.before-nomad-bridge"}};

}  // namespace

// Each name always leads to the old or to the new program (rename(2)), and a running one is not disturbed.
const Command kInstall = {
    .name = "install",
    .operands = "DIR",
    .summary = "copies this program to DIR, with links for the plugins it stands in for",
    .text =
        R"(Copies this program to DIR, as nomad-bridge, and creates links to it under the names of
the reference plugins it stands in for: bridge, host-local, firewall, portmap, loopback.
An older nomad-bridge is replaced, also while it is running. A file that is not ours is
refused, and then nothing is changed.
)",
    .flags = kInstallFlags,
    .least = 1,
    .most = 1,
    .run = RunInstall};

}  // namespace nomad_bridge::cli
