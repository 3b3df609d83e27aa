// main() of kernel and plugin tests: like GoogleTest's own, but in fresh namespaces. Listing the
// tests needs no rights.
#include <csignal>

#include <gtest/gtest.h>

#include "tests/support/isolation.h"

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (!::testing::GTEST_FLAG(list_tests)) {
    nomad_bridge::test::EnterIsolation();
    // A peer that hangs up must not end us.
    std::signal(SIGPIPE, SIG_IGN);
  }
  return RUN_ALL_TESTS();
}
