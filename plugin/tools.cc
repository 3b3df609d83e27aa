#include "plugin/tools.h"

#include <array>
#include <chrono>
#include <utility>

#include <unistd.h>

#include "base/text.h"
#include "plugin/failures.h"

namespace nomad_bridge {
namespace {

constexpr std::chrono::seconds kToolPatience{30};
constexpr std::size_t kMostSaid = 300;

std::string HowItEnded(const Ending& ending) {
  switch (ending.how) {
    case End::kExit:
      return Cat("exit code ", ending.number);
    case End::kSignal:
      return Cat("killed by signal ", ending.number);
    case End::kOverdue:
      return Cat("no end after ", kToolPatience.count(), " s");
    case End::kTooMuch:
      break;
  }
  return "it printed too much";
}

}  // namespace

std::optional<std::string> FindTool(const std::string& name) {
  constexpr std::array kFolders = {"/usr/sbin/", "/sbin/", "/usr/bin/", "/usr/local/sbin/"};
  for (const char* const folder : kFolders) {
    std::string path = Cat(folder, name);
    if (::access(path.c_str(), X_OK) == 0) {
      return path;
    }
  }
  return std::nullopt;
}

Ending RunTool(const std::string& path, std::vector<std::string> arguments, std::string input) {
  return RunProgram({.path = path,
                     .arguments = std::move(arguments),
                     .environment = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"},
                     .input = std::move(input),
                     .patience = kToolPatience});
}

std::string WhyItFailed(const Ending& ending) {
  const std::string said = WithoutNotFound(CutUtf8(Printable(ending.err), kMostSaid));
  return Cat(HowItEnded(ending), said.empty() ? "" : ": ", said);
}

}  // namespace nomad_bridge
