#include "tests/support/refusal.h"

#include <string>
#include <vector>

#include "base/file.h"
#include "base/text.h"

namespace nomad_bridge::test {

Refusal RunRefusedAt(Command command, int nth) {
  const std::string log = "/run/requests";
  const std::vector<std::string> strace = {
      "strace", "-o", log, "-e", "trace=sendto", "-e", Cat("inject=sendto:error=EPERM:when=", nth)};
  command.argv.insert(command.argv.begin(), strace.begin(), strace.end());
  // The leak checker is a tracer itself and would fail under another.
  command.variables["ASAN_OPTIONS"] = "detect_leaks=0";
  Refusal refusal{.outcome = Execute(command)};
  refusal.happened = FindFile(log).value_or("").find("(INJECTED)") != std::string::npos;
  EnsureFileGone(log);
  return refusal;
}

}  // namespace nomad_bridge::test
