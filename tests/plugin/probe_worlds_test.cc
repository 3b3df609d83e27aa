// What keeps a published port from answering, where a row of fixtures/damages.txt says too little.
#include "tests/plugin/probe_world.h"

namespace nomad_bridge::test {
namespace {

class BrokenUplink : public ProbeWorld {};

// With a link that is set down go its IPv6 addresses and the routes by a gateway.
TEST_F(BrokenUplink, IsNamedWithWhatItHasLost) {
  const json down = CauseAfter("ip link set uplink down");
  EXPECT_EQ(down.at("what"), "interface 'uplink', which leads to it, is down");
  EXPECT_EQ(FailedStation(Diagnose(kTcp)), "uplink");
  Paste(down.at("fix"));
  EXPECT_TRUE(Soon([&] { return Answers(kTcp); }));
  EXPECT_EQ(At(Diagnose(kTcp), "/causes/0/what"),
            "this node has no default route for IPv4: clients beyond its own networks get no "
            "answer; it had one when the port was published");
}

// Packets of a probe are caught before that queue; requests for the neighbour are lost there.
TEST_F(BrokenUplink, WhoseQueueLosesAllIsNamedByInspectAndDoctor) {
  host().Must(Words("tc qdisc add dev uplink root blackhole"));
  const std::string what = "'uplink' sends nothing: its queue is a blackhole";
  EXPECT_EQ(Diagnose(kTcp).at("cause"), what);
  host().Must(Words("ip neigh flush dev uplink"));
  EXPECT_EQ(Diagnose(kTcp).at("causes").size(), 1U);
  EXPECT_EQ(Diagnose(kTcp).at("cause"), what);
  EXPECT_THAT(RunLine("inspect 8080 -no-probe"), Exits(1, Out(HasSubstr(what))));
  EXPECT_THAT(RunLine("doctor ports.blocked"),
              Exits(1, Out(HasSubstr(Cat(what, "\n      fix: tc qdisc del dev uplink root")))));
}

class BrokenPort : public ProbeWorld {};

// As load balancers do: the kernel takes the packets, though no link has the address.
TEST_F(BrokenPort, IsNoneOnAnAddressThatIsLocalByARoute) {
  Node& other = AddContainer("other");
  host().Must(Words("ip route add local 192.0.2.0/28 dev lo"));
  outside().Must(Words(Cat("ip route add 192.0.2.0/28 via ", kHostIp4)));
  Attach(Publish({Port(8082, 82, "tcp", "192.0.2.5")}), As("other", other));
  Serve(other, Protocol::kTcp, {"0.0.0.0"}, 82, "hello");
  ASSERT_EQ(TcpText(outside(), "192.0.2.5", 8082), "hello");
  EXPECT_EQ(DiagnosisOf("8082").at("causes"), json::array());
  EXPECT_THAT(RunLine("doctor ports.blocked"), Exits(0));
}

TEST_F(BrokenPort, IsTheCauseOnlyIfItIsAskedAbout) {
  host().Must(Words("ip address delete 198.51.100.9/24 dev uplink"));
  EXPECT_EQ(Diagnose(kTcp).at("cause"), nullptr) << "is the other port's";
  EXPECT_THAT(Diagnose(kSecond).at("cause").get<std::string>(),
              HasSubstr("is no address of this node"));
}

}  // namespace
}  // namespace nomad_bridge::test
