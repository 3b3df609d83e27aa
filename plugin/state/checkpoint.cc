#include "plugin/state/checkpoint.h"

#include <sstream>

#include "base/file.h"
#include "base/text.h"

namespace nomad_bridge::state {
namespace {

constexpr const char* kFile = "/run/nomad-bridge/.generation";
constexpr std::string_view kSharedLine = "shared ";
constexpr std::string_view kOpenedLine = "opened ";
constexpr std::string_view kNoteLine = "note ";

}  // namespace

std::optional<Checkpoint> CheckpointFile::Find() const {
  std::istringstream text(FindFile(kFile).value_or(""));
  Origin origin;
  Checkpoint checkpoint;
  text >> origin.boot_id >> origin.netns.device >> origin.netns.inode >> checkpoint.generation >>
      checkpoint.accept_mark_bit;
  if (!text || origin != here_) {
    return std::nullopt;
  }
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with(kSharedLine)) {
      checkpoint.shared.push_back(line.substr(kSharedLine.size()));
    } else if (line.starts_with(kOpenedLine)) {
      checkpoint.opened_ifnames.push_back(line.substr(kOpenedLine.size()));
    } else if (line.starts_with(kNoteLine)) {
      checkpoint.notes.push_back(line.substr(kNoteLine.size()));
    }
  }
  return checkpoint;
}

void CheckpointFile::Write(const Checkpoint& checkpoint) const {
  EnsureDirectory(kStateFolder);
  std::string text = Format("{} {} {} {} {}\n",
                            here_.boot_id,
                            here_.netns.device,
                            here_.netns.inode,
                            checkpoint.generation,
                            checkpoint.accept_mark_bit);
  for (const std::string& hash : checkpoint.shared) {
    text += Cat(kSharedLine, hash, '\n');
  }
  for (const std::string& ifname : checkpoint.opened_ifnames) {
    text += Cat(kOpenedLine, ifname, '\n');
  }
  for (const std::string& note : checkpoint.notes) {
    text += Cat(kNoteLine, note, '\n');
  }
  ReplaceFile(kFile, text);
}

}  // namespace nomad_bridge::state
