// A World for tests of real clients: programs that start plugins by themselves, from a directory
// that `nomad-bridge install` has filled.
//
// Containers  each has a root directory of its own, made of Debian's static busybox, and serves one
//             page on port 80 that holds its name. They run without cgroups: the machine's are
//             hidden, as everything else of it is.
// Plugins     kPlugins; what the clients' own lists name beyond our names is in
//             kReferenceDirectory.
#pragma once

#include "tests/support/world.h"

namespace nomad_bridge::test {

constexpr const char* kPlugins = "/run/plugins";

class ClientWorld : public World {
 protected:
  ClientWorld();

  // A fresh root directory; what it serves with kServe is `name`.
  [[nodiscard]] static std::string MakeRoot(const std::string& name);
  static inline const std::vector<std::string> kServe =
      {"/bin/busybox", "httpd", "-f", "-p", "80", "-h", "/www"};

  static void WriteFile(const std::string& path, const std::string& content);

  // What asks for the page, within a few seconds, and what it got from the answer. (The static
  // busybox's own wget crashes.)
  [[nodiscard]] static std::vector<std::string> PageProgram(const std::string& address, int port);
  static inline const std::string kPageRequest = "GET /index.html HTTP/1.0\r\n\r\n";
  [[nodiscard]] static std::string PageIn(const std::string& answer);

  // One try: the page, or "" if there is no answer.
  [[nodiscard]] static std::string Page(const Node& from, const std::string& address, int port);
  // A server that has just been started is given time to listen.
  [[nodiscard]] static std::string AwaitPage(const Node& from,
                                             const std::string& address,
                                             int port);

  // The aliases of the bridge's ports, which name the attachment: only ours have one.
  [[nodiscard]] std::vector<std::string> AliasesOn(const std::string& bridge);
};

}  // namespace nomad_bridge::test
