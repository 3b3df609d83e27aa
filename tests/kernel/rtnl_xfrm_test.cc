// The policies of IPsec that ip(8) has made.
#include "netlink/core/netns.h"
#include "netlink/rtnl/xfrm.h"
#include "tests/support/world.h"

namespace nomad_bridge::test {
namespace {

class Xfrm : public World {
 protected:
  bool Ends(rtnl::XfrmWay way) {
    const rtnl::XfrmFlow flow = {.way = way,
                                 .source = Ip::Parse("198.51.100.7"),
                                 .destination = Ip::Parse("172.26.64.2"),
                                 .protocol = 6,
                                 .source_port = 40000,
                                 .destination_port = 80};
    return rtnl::XfrmPolicies::In(netlink::Netns::Open(container().path())).FindEnd(flow) !=
           nullptr;
  }
};

// What comes by an interface of IPsec is asked of that one's policies alone.
TEST_F(Xfrm, DefaultIsNotKnownToEndWhatAnInterfaceMayLetPass) {
  container().Must(Words("ip xfrm policy setdefault fwd block out block"));
  EXPECT_TRUE(Ends(rtnl::XfrmWay::kForward));
  EXPECT_TRUE(Ends(rtnl::XfrmWay::kOut));
  EXPECT_FALSE(Ends(rtnl::XfrmWay::kIn));
  container().Must(Words("ip xfrm policy add src 0.0.0.0/0 dst 0.0.0.0/0 dir fwd if_id 42"));
  EXPECT_FALSE(Ends(rtnl::XfrmWay::kForward));
  EXPECT_TRUE(Ends(rtnl::XfrmWay::kOut));
  container().Must(Words("ip xfrm policy add src 0.0.0.0/0 dst 0.0.0.0/0 dir fwd action block"));
  EXPECT_TRUE(Ends(rtnl::XfrmWay::kForward));
}

}  // namespace
}  // namespace nomad_bridge::test
