#include "plugin/foreign/tools.h"

#include <array>
#include <chrono>
#include <utility>

#include <unistd.h>

#include "base/text.h"
#include "plugin/cni/error_list.h"

namespace nomad_bridge::foreign {
namespace {

constexpr std::chrono::seconds kToolTimeout{30};
constexpr std::size_t kMaxStderrBytes = 300;

}  // namespace

std::optional<std::string> FindTool(const std::string& name) {
  constexpr std::array kDirectories = {"/usr/sbin/", "/sbin/", "/usr/bin/", "/usr/local/sbin/"};
  for (const char* const directory : kDirectories) {
    std::string path = Cat(directory, name);
    if (::access(path.c_str(), X_OK) == 0) {
      return path;
    }
  }
  return std::nullopt;
}

ExitInfo RunTool(const std::string& path, std::vector<std::string> arguments, std::string input) {
  return RunSubprocess({.path = path,
                        .arguments = std::move(arguments),
                        .environment = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"},
                        .input = std::move(input),
                        .timeout = kToolTimeout});
}

std::string WhyItFailed(const ExitInfo& exit) {
  const std::string message = cni::WithoutNotFound(CutUtf8(Printable(exit.err), kMaxStderrBytes));
  const std::string end = exit.how == End::kOverdue
                              ? Cat("no end after ", kToolTimeout.count(), " s")
                              : exit.HowItEnded();
  return Cat(end, message.empty() ? "" : ": ", message);
}

}  // namespace nomad_bridge::foreign
