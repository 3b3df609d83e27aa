// docs/recipes.md, "podman": its file and its commands.
#include "tests/clients/client_page.h"
#include "tests/clients/podman_settings.h"

namespace nomad_bridge::test {
namespace {

constexpr const char* kPodman = R"(#!/bin/sh
HOME=/run/podman exec /usr/bin/podman --storage-driver=vfs --root=/run/podman/root \
  --runroot=/run/podman/runroot --tmpdir=/run/podman/tmp "$@"
)";

// Asks until the page is there.
constexpr const char* kAsk = R"(
until /bin/busybox nc -w 3 "$1" "$2" </dev/null >/run/page 2>/dev/null && [ -s /run/page ]; do
  sleep 0.1
done
)";

class PodmanPage : public ClientPage {
 protected:
  PodmanPage() : ClientPage("podman") {
    EnsureDirectory("/run/podman");
    WriteProgram("/run/bin/podman", kPodman);
    EnsureDirectory("/etc/containers/containers.conf.d");
    std::ofstream("/etc/containers/containers.conf") << FileIn("toml");
    std::ofstream("/etc/containers/containers.conf.d/10-isolated.conf")
        << kPodmanSettings << "network_config_dir = \"/run/podman/networks\"\n";
    // Serves one page, and ends.
    SaveImage("/run/nginx.tar",
              "docker.io/library/nginx:latest",
              {"/bin/busybox", "nc", "-l", "-p", "80", "-e", "/bin/busybox", "echo", "page"});
    Must(InShell("podman load -i /run/nginx.tar"));
  }
};

TEST_F(PodmanPage, CommandsPublishAPort) {
  Process asking = Process::Start({.argv = {"sh", "-c", kAsk, "ask", kHostIp4, "8080"},
                                   .in_child = [&] { outside().Enter(); }});

  Type();

  ExpectAllTyped();
  EXPECT_EQ(asking.Wait().exit_code, 0);
  EXPECT_EQ(FindFile("/run/page"), "page\n");
  EXPECT_THAT(host().Must({"nft", "list", "tables"}), HasSubstr("table inet nomad-bridge"));
}

}  // namespace
}  // namespace nomad_bridge::test
