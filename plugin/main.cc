#include <csignal>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "plugin/command_line.h"
#include "plugin/log.h"
#include "plugin/names.h"
#include "plugin/request.h"
#include "plugin/verbs.h"

namespace nomad_bridge {
namespace {

// The verbs that differ from kind to kind.
struct Kind {
  void (*add)(const Request&, const Name&, int);
  void (*del)(const Request&, const Name&);
  void (*check)(const Request&, const Name&);
};

Kind KindOf(const Name& name) {
  if (name.Does(Part::kLink)) {
    return {.add = AddInterface, .del = DelInterface, .check = CheckInterface};
  }
  if (name.Does(Part::kAddress)) {
    return {.add = AddLeases, .del = DelLeases, .check = CheckLeases};
  }
  if (name.DoesRules()) {
    return {.add = AddRules, .del = DelRules, .check = CheckRules};
  }
  return {.add = AddLoopback, .del = DelLoopback, .check = CheckLoopback};
}

void Dispatch(const Request& request, const Name& name) {
  const Kind kind = KindOf(name);
  switch (request.verb) {
    case Verb::kAdd:
      return kind.add(request, name, STDOUT_FILENO);
    case Verb::kDel:
      return kind.del(request, name);
    case Verb::kCheck:
      return kind.check(request, name);
    case Verb::kGc:
      return Gc(request, name);
    case Verb::kStatus:
      return Status(request, name);
    case Verb::kVersion:
      return Version(STDOUT_FILENO);
  }
}

// libcni reads stdout and drops stderr when we fail, so everything that helps is in the document.
int Report(const std::string& version, const Error& error) {
  nlohmann::ordered_json document = {
      {"cniVersion", version}, {"code", static_cast<int>(error.code())}, {"msg", error.msg()}};
  if (!error.details().empty()) {
    document["details"] = error.details();
  }
  Tell(STDOUT_FILENO,
       document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  Say(error.what());
  return EXIT_FAILURE;
}

// A runtime may start us with streams closed. Their numbers must not go to files of ours, which
// would then be written to; and a reader that has gone must not kill us half way, but be an error
// like any other, which undoes everything.
void SecureStreams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) < 0) {
      // The lowest free number is this one. Read-only, so that writing still fails.
      static_cast<void>(::open("/dev/null", O_RDONLY));
    }
  }
  ::signal(SIGPIPE, SIG_IGN);
}

int Run(const char* program, const std::vector<std::string>& arguments) {
  SecureStreams();
  const Name& name = NameFor(program);
  const char* const command = ::getenv("CNI_COMMAND");
  if (command == nullptr || *command == '\0') {
    if (!arguments.empty()) {
      return RunCommandLine(arguments);
    }
    About(name, STDERR_FILENO);
    return EXIT_SUCCESS;
  }
  std::string version = SupportedVersions().back();  // spoken until the config names another
  try {
    const Request request = ReadRequest(::getenv, STDIN_FILENO, version);
    Dispatch(request, name);
    return EXIT_SUCCESS;
  } catch (const Error& error) {
    return Report(version, error);
  } catch (const std::exception& error) {
    return Report(version, Error(Code::kInternal, "unexpected failure", error.what()));
  }
}

}  // namespace
}  // namespace nomad_bridge

int main(int count, char** arguments) {
  return nomad_bridge::Run(count > 0 ? arguments[0] : "",
                           {arguments + (count > 0 ? 1 : 0), arguments + count});
}
