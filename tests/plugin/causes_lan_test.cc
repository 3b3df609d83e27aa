// Why a published port of an allocation on the node's own bridge to its LAN, where no address is
// ours, does not answer: each row breaks one thing; inspect and doctor name it, and the fix,
// pasted, heals it.
#include "tests/plugin/causes_world.h"
#include "tests/plugin/lan_world.h"
#include "tests/support/soon.h"

namespace nomad_bridge::test {
namespace {

struct LanCause : Named {
  std::string damage;  // run by sh on the host, or in the container if the name begins so
  std::string says;
  bool doctors = true;  // it is the node's
};

class CauseOnLan : public LanWorld, public ::testing::WithParamInterface<LanCause> {
 protected:
  void SetUp() override {
    host().SetSysctl("net/ipv4/ip_forward", "1");
    host().SetSysctl("net/ipv6/conf/all/forwarding", "1");
    outside().Must({"ip", "address", "add", Cat(kFarIp4, "/32"), "dev", "lo"});
    const json routes = {{{"dst", "0.0.0.0/0"}}, {{"dst", "::/0"}}};
    Attach(Publish({Port(8080, 80)}, OnLan({{"ipam", {{"routes", routes}}}})));
    Serve(container(), Protocol::kTcp, {"0.0.0.0"}, 80, "hello");
  }

  bool Answers(std::chrono::milliseconds patience = std::chrono::milliseconds(1500)) {
    return test::Ask(outside(),
                     {.to = kHostIp4, .port = 8080, .from = kFarIp4, .patience = patience})
        .has_value();
  }
  json Causes() {
    return At(RunLine("inspect -json 8080").json, "/attachments/0/diagnosis")
        .value("causes", json::array());
  }
};

TEST_P(CauseOnLan, IsNamedAndItsFixHeals) {
  ASSERT_TRUE(Answers());
  EXPECT_THAT(Causes(), IsEmpty());
  EXPECT_THAT(RunLine("doctor ports.blocked"), Exits(0));
  Node& where = GetParam().name.starts_with("Container") ? container() : host();
  where.Shell(GetParam().damage);
  EXPECT_FALSE(Answers(std::chrono::milliseconds(250)));
  const json causes = Causes();
  ASSERT_EQ(causes.size(), 1) << causes;
  EXPECT_EQ(causes[0].at("what"), GetParam().says);
  EXPECT_EQ(RunLine("doctor ports.blocked").exit_code, GetParam().doctors ? 1 : 0);
  const std::string advice = causes[0].value("advice", "");
  const std::string_view condition = "if 198.51.100.2 is the LAN's router: ";
  host().Shell(advice.starts_with(condition) ? advice.substr(condition.size())
                                             : causes[0].at("fix").get<std::string>());
  EXPECT_TRUE(Soon([&] { return Answers(); }));
  EXPECT_THAT(Causes(), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(
    Lan,
    CauseOnLan,
    ::testing::ValuesIn(std::vector<LanCause>{
        {"Route",
         "ip route del 198.51.100.0/24 dev lan",
         "the route to 198.51.100.0/24 by 'lan' is missing"},
        {"RuleOfMain",
         "ip rule del pref 32766",
         "no packet gets to 198.51.100.50: the ip rule by which table main is looked up is "
         "missing"},
        {"RuleThatProhibits",
         "ip rule add iif lan prohibit priority 100",
         "what comes by 'lan' for 198.51.100.50 does not get there: ip rule 100 says prohibit"},
        {"PermanentNeighbour",
         "ip neigh replace 198.51.100.50 lladdr 02:00:00:00:00:99 dev lan nud permanent",
         "a permanent neighbour entry on 'lan' has 198.51.100.50 at 02:00:00:00:00:99, not at "
         "0a:58:c6:33:64:32"},
        {"BlackholeRoute",
         "ip route add blackhole 198.51.100.50",
         "no packet gets to 198.51.100.50: the route to 198.51.100.50/32 is blackhole"},
        {"ContainerRoute",
         "ip route del default",
         "no default route for IPv4: answers find no way back",
         false},
        {"ContainerGateway",
         "ip route replace default via 198.51.100.99; ping -c1 -W1 203.0.113.9 || true",
         "its default route leads to 198.51.100.99, which is not there",
         false},
    }),
    kNameOf);

}  // namespace
}  // namespace nomad_bridge::test
