// Which ports of a bridge lead beyond the node: asked of the kernel, and of a dump of all links.
#include "plugin/link/uplink.h"
#include "tests/kernel/rtnl_world.h"

namespace nomad_bridge::test {
namespace {

using UplinksOf = RtnlWorld;

TEST_F(UplinksOf, ABridgeAreTheSameByEitherWay) {
  const rtnl::Link bridge = Bridge();
  for (const std::string name : {"vethab", "veth0123456789a", "vb-machine", "named"}) {
    host().Must(
        Words(Cat("ip link add ", name, " master br0 type veth peer name ", name, " netns ") +
              container().name()));
  }
  AddPort("out");
  AddPort("vethnear");  // its other end is in this namespace
  Add(host(), "elsewhere");
  const std::set<std::string> expected = {"named", "out", "vethnear"};

  EXPECT_EQ(link::FindUplinks(net_, bridge), expected);
  EXPECT_EQ(link::FindUplinks(net_.Links(), bridge), expected);
}

}  // namespace
}  // namespace nomad_bridge::test
