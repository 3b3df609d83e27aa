#include <csignal>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "plugin/cli/command.h"
#include "plugin/cni/plugin_type.h"
#include "plugin/cni/request.h"
#include "plugin/cni/result.h"
#include "plugin/cni/version.h"
#include "plugin/commands/commands.h"
#include "plugin/state/events.h"

namespace nomad_bridge {
namespace {

// The functions for the verbs that differ between plugin types.
struct Handlers {
  void (*add)(const cni::Request&, const cni::PluginType&, int);
  void (*del)(const cni::Request&, const cni::PluginType&);
  void (*check)(const cni::Request&, const cni::PluginType&);
};

Handlers HandlersOf(const cni::PluginType& type) {
  if (type.Provides(cni::Part::kLink)) {
    return {.add = commands::AddInterface,
            .del = commands::DelInterface,
            .check = commands::CheckInterface};
  }
  if (type.Provides(cni::Part::kAddress)) {
    return {.add = commands::AddLeases, .del = commands::DelLeases, .check = commands::CheckLeases};
  }
  if (type.ProvidesRules()) {
    return {.add = commands::AddRules, .del = commands::DelRules, .check = commands::CheckRules};
  }
  return {
      .add = commands::AddLoopback, .del = commands::DelLoopback, .check = commands::CheckLoopback};
}

void Dispatch(const cni::Request& request, const cni::PluginType& type) {
  const Handlers handlers = HandlersOf(type);
  switch (request.verb) {
    case cni::Verb::kAdd:
      return handlers.add(request, type, STDOUT_FILENO);
    case cni::Verb::kDel:
      return handlers.del(request, type);
    case cni::Verb::kCheck:
      return handlers.check(request, type);
    case cni::Verb::kGc:
      return commands::Gc(request, type);
    case cni::Verb::kStatus:
      return commands::Status(request, type);
    case cni::Verb::kVersion:
      return cni::PrintVersions(STDOUT_FILENO);
  }
}

int Report(std::string_view verb, const std::string& version, const Error& error) {
  cni::PrintError(version, error, STDOUT_FILENO);
  LogLine("{}", error.what());
  if (verb == Text(cni::Verb::kAdd)) {
    state::CountRefusedAdd(error.code());
  }
  return EXIT_FAILURE;
}

// Sets up streams and signals. A runtime may start us with closed streams; the kernel must not give
// their numbers to our files, or output would go into these files. Ignores SIGPIPE and SIGXFSZ: if
// a reader is gone or a file must not grow, the write then fails like any other, and the command
// undoes everything. Resets SIGCHLD: if a runtime left it ignored, a child would have no exit
// status.
void SetUpProcess() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) < 0) {
      // The lowest free number is that of this stream. Read-only, so that writing still fails.
      static_cast<void>(::open("/dev/null", O_RDONLY));
    }
  }
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);  // RLIMIT_FSIZE: writing fails with EFBIG
  ::signal(SIGCHLD, SIG_DFL);
}

int Run(const char* program, const std::vector<std::string>& arguments) {
  SetUpProcess();
  const cni::PluginType& type = cni::TypeOf(program);
  const char* const command = ::getenv("CNI_COMMAND");
  if (command == nullptr || *command == '\0') {
    // A runtime that runs us for the fingerprint has no terminal.
    if (!arguments.empty() || ::isatty(STDOUT_FILENO) == 1) {
      return cli::RunCommandLine(arguments.empty() ? std::vector<std::string>{"help"} : arguments);
    }
    cni::PrintVersionBanner(type, STDERR_FILENO);
    return EXIT_SUCCESS;
  }
  std::string version = cni::SupportedVersions().back();  // for errors before the config names one
  try {
    const cni::Request request = cni::ReadRequest(::getenv, STDIN_FILENO, version);
    Dispatch(request, type);
    return EXIT_SUCCESS;
  } catch (const Error& error) {
    return Report(command, version, error);
  } catch (const std::exception& error) {
    return Report(command, version, Error(Code::kInternal, "unexpected failure", error.what()));
  }
}

}  // namespace
}  // namespace nomad_bridge

int main(int count, char** arguments) {
  return nomad_bridge::Run(count > 0 ? arguments[0] : "",
                           {arguments + (count > 0 ? 1 : 0), arguments + count});
}
