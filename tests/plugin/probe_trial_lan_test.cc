// nomad-bridge test on the node's own bridge to its LAN.
#include "tests/plugin/lan_world.h"

namespace nomad_bridge::test {
namespace {

class TrialOnLan : public LanWorld {
 protected:
  void Try(json plugin, bool publishes) {
    const json name = plugin.at("name");
    plugin.erase("name");
    plugin.erase("cniVersion");
    plugin["capabilities"] = {{"portMappings", publishes}};
    plugin["ipam"]["routes"] = {{{"dst", "0.0.0.0/0"}}, {{"dst", "::/0"}}};
    ReplaceFile("/run/lan.conflist",
                json({{"cniVersion", "1.0.0"}, {"name", name}, {"plugins", {plugin}}}).dump());
    EXPECT_THAT(RunLine("test /run/lan.conflist"), Exits(0, Out(HasSubstr(" 0 failed"))));
  }

  const std::string resolv_conf_ = [] {
    std::ofstream("/run/resolv.conf") << "nameserver " << kOutsideIp4 << '\n';
    return "/run/resolv.conf";
  }();
  Mounted resolv_{{"--bind", resolv_conf_}, "/etc/resolv.conf"};
};

TEST_F(TrialOnLan, FindsNothingBehindTheRouter) {
  Try(OnLan(), false);
}

TEST_F(TrialOnLan, FindsNothingBehindTheNode) {
  Try(OnLanBehindTheNode(), true);
}

TEST_F(TrialOnLan, FindsNothingThroughBridgeNetfilter) {
  SetBridgeNf("1");
  Try(OnLan(), false);
}

}  // namespace
}  // namespace nomad_bridge::test
