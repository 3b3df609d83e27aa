#include <gtest/gtest.h>

#include "plugin/cni/plugin_type.h"

namespace nomad_bridge {
namespace {

TEST(TypeOf, FindsTheRowByTheProgramsBaseName) {
  EXPECT_EQ(cni::TypeOf("/opt/cni/bin/nomad-bridge").name, "nomad-bridge");
  EXPECT_EQ(cni::TypeOf("").name, "nomad-bridge");
  EXPECT_TRUE(cni::TypeOf("nomad-bridge").Provides(cni::Part::kPorts));
}

}  // namespace
}  // namespace nomad_bridge
