#include "base/log.h"

#include "base/error.h"
#include "base/file.h"

namespace nomad_bridge {

void WriteBestEffort(int fd, std::string_view text) {
  try {
    WriteAll(fd, text, "the log");
  } catch (const Error&) {
    // Nowhere to report it.
  }
}

}  // namespace nomad_bridge
