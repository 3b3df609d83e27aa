#include "plugin/cli/command_line.h"

#include <cstdlib>
#include <exception>
#include <optional>

#include "base/log.h"
#include "base/text.h"
#include "plugin/cli/install.h"

namespace nomad_bridge::cli {
namespace {

constexpr int kMisunderstood = 2;

constexpr const char* kUsage =
    R"(A CNI plugin: runtimes start it with CNI_COMMAND and a network config on stdin.

Usage: nomad-bridge install DIR [--replace]
       nomad-bridge --help

install lays this program into DIR, as nomad-bridge, and links to it under the names
of the reference plugins it stands in for: bridge, host-local, firewall, portmap,
loopback. An older nomad-bridge is replaced, also while it is running. A file that is
not ours is refused; with --replace it is kept beside, as NAME.before-nomad-bridge.
)";

int Misunderstood(const std::string& why) {
  WriteBestEffort(STDERR_FILENO, Cat("nomad-bridge: ", why, "\n\n", kUsage));
  return kMisunderstood;
}

int RunInstall(const std::vector<std::string>& arguments) {
  Installation wanted;
  for (const std::string& argument : arguments) {
    if (argument == "--replace") {
      wanted.replace = true;
    } else if (argument.substr(0, 1) == "-") {
      return Misunderstood(Cat("install has no option ", Quoted(argument)));
    } else if (argument.empty() || !wanted.folder.empty()) {
      return Misunderstood("install wants one DIR");
    } else {
      wanted.folder = argument;
    }
  }
  if (wanted.folder.empty()) {
    return Misunderstood("install wants a DIR");
  }
  Install(wanted, STDOUT_FILENO);
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
    return Misunderstood(Cat("unknown command ", Quoted(command)));
  } catch (const std::exception& error) {
    LogLine(error.what());
    return EXIT_FAILURE;
  }
}

}  // namespace nomad_bridge::cli
