// A request as a runtime makes it, through ReadRequest.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include "plugin/cni/request.h"
#include "tests/support/test.h"

namespace nomad_bridge::test {

using RuntimeVariables = std::map<std::string, std::string>;

// A file in memory that is read from its start.
inline UniqueFd MemoryFile(const std::string& content) {
  UniqueFd file(::memfd_create("content", MFD_CLOEXEC));
  EXPECT_EQ(::pwrite(file.get(), content.data(), content.size(), 0),
            static_cast<ssize_t>(content.size()));
  return file;
}

inline cni::Request ReadFrom(int stdin_fd,
                             const RuntimeVariables& variables,
                             std::string& reply_version) {
  const cni::Environment environment = [&](const char* name) {
    const auto variable = variables.find(name);
    return variable != variables.end() ? variable->second.c_str() : nullptr;
  };
  return cni::ReadRequest(environment, stdin_fd, reply_version);
}

}  // namespace nomad_bridge::test
