// What people ask for on the command line: runtimes speak by CNI_COMMAND, and then it is not
// looked at.
//
// Exit codes  0  done
//             1  failed, with the reason on stderr
//             2  not understood: the usage is on stderr
#pragma once

#include <string>
#include <vector>

namespace nomad_bridge::cli {

// `arguments` without the program's name, at least one. Answers the exit code.
[[nodiscard]] int RunCommandLine(const std::vector<std::string>& arguments);

}  // namespace nomad_bridge::cli
