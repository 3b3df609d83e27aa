#include "tests/support/refusal.h"

#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/text.h"

namespace nomad_bridge::test {
namespace {

Refusal RunInjected(Command command, const std::string& call, const std::string& error, int nth) {
  const std::string log = "/run/requests";
  const std::vector<std::string> strace = {"strace",
                                           "-o",
                                           log,
                                           "-e",
                                           Cat("trace=", call),
                                           "-e",
                                           Cat("inject=", call, ":error=", error, ":when=", nth)};
  command.argv.insert(command.argv.begin(), strace.begin(), strace.end());
  // The leak checker is a tracer itself and would fail under another.
  command.variables["ASAN_OPTIONS"] = "detect_leaks=0";
  Refusal refusal{.outcome = Execute(command)};
  refusal.happened = FindFile(log).value_or("").find("(INJECTED)") != std::string::npos;
  EnsureFileGone(log);
  return refusal;
}

}  // namespace

Refusal RunRefusedAt(Command command, int nth) {
  return RunInjected(std::move(command), "sendto", "EPERM", nth);
}

Refusal RunUnansweredAt(Command command, int nth, const std::string& error) {
  return RunInjected(std::move(command), "recvmsg", error, nth);
}

}  // namespace nomad_bridge::test
