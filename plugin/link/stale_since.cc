#include "plugin/link/stale_since.h"

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "plugin/state/kernel_names.h"
#include "plugin/state/record.h"

namespace nomad_bridge::link {
namespace {

std::string Directory() {
  return Cat(state::kStateDirectory, "/.dead");
}

std::string PathOf(const std::string& host_veth) {
  return Cat(Directory(), '/', host_veth);
}

}  // namespace

void NoteStale(const std::set<std::string>& host_veths) try {
  for (const std::string& name : Entries(Directory())) {
    if (!host_veths.contains(name)) {
      EnsureFileGone(PathOf(name));
    }
  }
  for (const std::string& name : host_veths) {
    EnsureDirectory(Directory());
    static_cast<void>(CreateFile(PathOf(name), ""));
  }
} catch (const Error& error) {
  LogLine("{}, ignoring: since when an attachment is stale will not be known", error.what());
}

std::optional<std::chrono::system_clock::time_point> FindStaleSince(const AttachmentId& id) {
  const std::optional<struct stat> status = FindStatus(PathOf(state::HostVethName(id)));
  return status ? std::optional(std::chrono::system_clock::from_time_t(status->st_mtim.tv_sec))
                : std::nullopt;
}

}  // namespace nomad_bridge::link
