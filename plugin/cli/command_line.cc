#include "plugin/cli/command_line.h"

#include <cstdlib>
#include <exception>

#include "base/log.h"
#include "base/text.h"
#include "plugin/cli/install.h"

namespace nomad_bridge::cli {
namespace {

constexpr int kWrongUsage = 2;

constexpr const char* kUsage =
    R"(A CNI plugin: runtimes start it with CNI_COMMAND and a network config on stdin.

Usage: nomad-bridge install DIR [--replace]
       nomad-bridge --help

install copies this program to DIR, as nomad-bridge, and creates links to it under the
names of the reference plugins it stands in for: bridge, host-local, firewall, portmap,
loopback. An older nomad-bridge is replaced, also while it is running. A file that is
not ours is refused; with --replace it is kept beside, as NAME.before-nomad-bridge.
)";

int WrongUsage(const std::string& why) {
  WriteBestEffort(STDERR_FILENO, Format("nomad-bridge: {}\n\n{}", why, kUsage));
  return kWrongUsage;
}

int RunInstall(const std::vector<std::string>& arguments) {
  Installation installation;
  for (const std::string& argument : arguments) {
    if (argument == "--replace") {
      installation.replace = true;
    } else if (argument.substr(0, 1) == "-") {
      return WrongUsage(Format("install has no option '{}'", argument));
    } else if (argument.empty() || !installation.directory.empty()) {
      return WrongUsage("install wants one DIR");
    } else {
      installation.directory = argument;
    }
  }
  if (installation.directory.empty()) {
    return WrongUsage("install wants a DIR");
  }
  Install(installation, STDOUT_FILENO);
  return EXIT_SUCCESS;
}

}  // namespace

int RunCommandLine(const std::vector<std::string>& arguments) {
  try {
    const std::string& command = arguments.at(0);
    if (command == "--help" || command == "-h" || command == "help") {
      WriteBestEffort(STDOUT_FILENO, kUsage);
      return EXIT_SUCCESS;
    }
    if (command == "install") {
      return RunInstall({arguments.begin() + 1, arguments.end()});
    }
    return WrongUsage(Format("unknown command '{}'", command));
  } catch (const std::exception& error) {
    LogLine("{}", error.what());
    return EXIT_FAILURE;
  }
}

}  // namespace nomad_bridge::cli
