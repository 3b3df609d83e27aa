// The command line, for people. A runtime sets CNI_COMMAND, and then the arguments are not looked at.
//
// Shapes     command.h has exit codes and flags. Data goes to stdout, remarks and errors to stderr.
// Errors     none: reported on stderr and in the exit code
#pragma once

#include <span>
#include <string>
#include <vector>

#include "plugin/cli/command.h"

namespace nomad_bridge::cli {

// `arguments` without the program's name, at least one. Returns the exit code.
[[nodiscard]] int RunCommandLine(const std::vector<std::string>& arguments);

// All, in the order of help.
[[nodiscard]] std::span<const Command* const> Commands();

// What every command has besides its own.
[[nodiscard]] std::span<const Flag> CommonFlags();

}  // namespace nomad_bridge::cli
