// The command line, for people: one function per command. A runtime sets CNI_COMMAND, and then the
// arguments are not looked at.
//
// Shapes     exit codes: 0 done; 1 failed, the reason is on stderr; 2 wrong usage, the usage text is
//            on stderr
// Errors     none: reported on stderr and in the exit code
#pragma once

#include <string>
#include <vector>

namespace nomad_bridge::cli {

// `arguments` without the program's name, at least one. Returns the exit code.
[[nodiscard]] int RunCommandLine(const std::vector<std::string>& arguments);

}  // namespace nomad_bridge::cli
