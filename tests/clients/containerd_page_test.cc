// docs/recipes.md, "containerd": its commands.
#include "tests/clients/client_page.h"
#include "tests/clients/containerd_daemon.h"

namespace nomad_bridge::test {
namespace {

// Pulls from a file, and asks the daemon of the test.
constexpr const char* kCtr = R"(set -e
ctr="/usr/bin/ctr --address $SOCKET"
case $1 in
  image)
    [ "$2 $3" = "pull docker.io/library/alpine:latest" ]
    exec $ctr image import /run/alpine.tar ;;
  run)
    shift
    exec $ctr run --runc-binary $RUNTIME "$@" ;;
esac
)";

class ContainerdPage : public ClientPage {
 protected:
  ContainerdPage() : ClientPage("containerd"), daemon_(StartContainerd()) {
    WriteProgram("/run/bin/ctr",
                 Cat("#!/bin/sh\nSOCKET=", kSocket, "\nRUNTIME=", kNoCgroups, '\n', kCtr));
    SaveImage("/run/alpine.tar", "docker.io/library/alpine:latest", {"/bin/busybox", "sh"});
  }

 private:
  Process daemon_;
};

TEST_F(ContainerdPage, CommandsShowTheAddress) {
  const Outcome shown = Type();

  ExpectAllTyped();
  EXPECT_THAT(shown.out, HasSubstr("inet 172.26.240.2/20"));
  EXPECT_THAT(host().Must({"nft", "list", "tables"}), HasSubstr("table inet nomad-bridge"));
}

}  // namespace
}  // namespace nomad_bridge::test
