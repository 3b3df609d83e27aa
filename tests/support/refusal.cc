#include "tests/support/refusal.h"

namespace nomad_bridge::test {

Command UnderStrace(Command command,
                    const std::string& log,
                    const std::vector<std::string>& options) {
  std::vector<std::string> argv = {"strace", "-o", log};
  argv.insert(argv.end(), options.begin(), options.end());
  command.argv.insert(command.argv.begin(), argv.begin(), argv.end());
  // The leak checker is a tracer itself and would fail under another.
  command.variables["ASAN_OPTIONS"] = "detect_leaks=0";
  return command;
}

Refusal RunFailingAt(Command command, int nth, const std::string& call, const std::string& error) {
  const std::string log = "/run/requests";
  const std::string inject = Cat("inject=", call, ":error=", error, ":when=", nth);
  const std::vector<std::string> options = {"-e", Cat("trace=", call), "-e", inject};
  Refusal refusal{.outcome = Execute(UnderStrace(std::move(command), log, options))};
  // libasan 14 finds no options where its own look at them was refused, and then the checker fails:
  // the command had ended.
  if (refusal.outcome.err.find("LeakSanitizer has encountered a fatal error") !=
      std::string::npos) {
    refusal.outcome.exit_code = refusal.outcome.json.contains("code") ? 1 : 0;
  }
  refusal.happened = FindFile(log).value_or("").find("(INJECTED)") != std::string::npos;
  EnsureFileGone(log);
  return refusal;
}

Refusal RunRefusedAt(Command command, int nth) {
  return RunFailingAt(std::move(command), nth, "sendto", "EPERM");
}

Refusal RunUnansweredAt(Command command, int nth, const std::string& error) {
  return RunFailingAt(std::move(command), nth, "recvmsg", error);
}

}  // namespace nomad_bridge::test
