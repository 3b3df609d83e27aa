// Which ports of a bridge lead beyond the node: asked of the kernel, and of a dump of all links.
#include "plugin/link/uplink.h"
#include "tests/kernel/rtnl_world.h"

namespace nomad_bridge::test {
namespace {

using UplinksOfABridge = RtnlWorld;

TEST_F(UplinksOfABridge, AreTheSameByEitherLookup) {
  const rtnl::Link bridge = Bridge();
  const auto add = [&](const std::string& name) {
    host().Must(
        Words(Cat("ip link add ", name, " master br0 type veth peer name ", name, " netns ") +
              container().name()));
  };
  add("vethab");
  add("veth0123456789a");
  add("vb-machine");
  Add(host(), "elsewhere");
  EXPECT_FALSE(link::HasUplink(net_, bridge));
  EXPECT_EQ(link::FindUplinks(net_.Links(), bridge), std::set<std::string>());

  add("named");
  EXPECT_TRUE(link::HasUplink(net_, bridge));
  AddPort("out");
  AddPort("vethnear");  // its other end is in this namespace
  EXPECT_EQ(link::FindUplinks(net_.Links(), bridge),
            (std::set<std::string>{"named", "out", "vethnear"}));
}

}  // namespace
}  // namespace nomad_bridge::test
