#include "base/log.h"

#include "base/error.h"
#include "base/file.h"

namespace nomad_bridge {

void WriteBestEffort(int to, std::string_view text) {
  try {
    WriteAll(to, text, "a stream");
  } catch (const Error&) {
    // There is nobody left to be told.
  }
}

}  // namespace nomad_bridge
