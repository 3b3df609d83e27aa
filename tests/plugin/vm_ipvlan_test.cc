// A container behind ipvlan, which has its master's MAC. Only under a kernel with ipvlan: see
// tests/with-kernel.
#include "tests/plugin/gc_world.h"

namespace nomad_bridge::test {
namespace {

const Living kIpvlan = {{"Ipvlan"}, {{"type", "ipvlan"}, {"master", "uplink"}}, {}};

INSTANTIATE_TEST_SUITE_P(Plugins, GcOfForeignAttachments, ::testing::Values(kIpvlan), kNameOf);
INSTANTIATE_TEST_SUITE_P(Plugins, GcOfRecordedAttachments, ::testing::Values(kIpvlan), kNameOf);

}  // namespace
}  // namespace nomad_bridge::test
