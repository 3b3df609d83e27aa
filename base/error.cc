#include "base/error.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/text.h"

namespace nomad_bridge {

Error::Error(Code code, std::string msg, std::string details, Fix fix)
    : code_(code),
      msg_(std::move(msg)),
      details_(std::move(details)),
      fix_(std::move(fix)),
      what_(details_.empty() ? msg_ : Cat(msg_, ": ", details_)) {}

std::string ErrnoText(int error, std::string_view words) {
  const char* const name = ::strerrorname_np(error);
  return Format("{} ({})",
                words.empty() ? ::strerror(error) : words,
                name != nullptr ? name : "unknown errno");
}

Error ErrnoError(Code code, std::string msg) {
  const int error = errno;
  return {code, std::move(msg), ErrnoText(error)};
}

}  // namespace nomad_bridge
