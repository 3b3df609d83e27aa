// A port published on one address of the node, and the same port on all of them; host addresses
// that can never answer.

#include "tests/support/world.h"

namespace nomad_bridge::test {
namespace {

class HostPort : public World {
 protected:
  HostPort() : other_(AddContainer("other")) { UseOnce(DualStack(), As("other", other_)); }

  [[nodiscard]] static json On(const std::string& host_ip, const std::string& protocol = "tcp") {
    return Publish({Port(8080, 80, protocol, host_ip)}, DualStack());
  }
  // The first container's.
  void Take(const json& config) {
    Attach(config, As("billing", container(), NomadArgs("billing", "billing")));
  }
  Outcome MustRefuseOther(const json& config) {
    return MustRefuse(102, config, As("other", other_));
  }

  Node& other_;
};

TEST_F(HostPort, IsRefusedOnOneAddressIfTakenOnAll) {
  Take(On(""));

  for (const std::string address : {kHostIp4, kHostIp6}) {
    EXPECT_THAT(
        MustRefuseOther(On(address)),
        AllOf(Msg(HasSubstr("(as tcp 8080) is taken by job 'billing'")), Msg(HasSubstr(address))));
  }
}

TEST_F(HostPort, IsRefusedOnAllAddressesIfTakenOnOneAlsoAfterAFlush) {
  Take(On(kHostIp4));

  EXPECT_THAT(
      MustRefuseOther(On("")),
      Msg(HasSubstr("host port tcp 8080 (as tcp 198.51.100.1:8080) is taken by job 'billing'")));
  host().Must({"nft", "flush", "ruleset"});
  EXPECT_EQ(ErrorCode(RunPlugin("ADD", On(""), As("other", other_))), 102);
}

TEST_F(HostPort, OverlapsOnlyInItsFamilyAndProtocol) {
  Take(On("0.0.0.0"));

  Attach(On(kHostIp6), As("six", other_));
  Attach(On(kHostIp4, "udp"), As("udp", AddContainer("udp")));
}

TEST_F(HostPort, MayHaveTwoOwnersOnTwoAddresses) {
  Take(On(kHostIp4));

  Attach(On("127.0.0.1"), As("other", other_));
}

TEST_F(HostPort, IsTakenOverFromAStaleOwnerWithAllOverlaps) {
  Take(On(kHostIp4));
  KillContainer(container());

  Attach(On(""), As("other", other_));

  EXPECT_THAT(Elements("hostip4"), IsEmpty());
  EXPECT_FALSE(HasRecord("billing"));
}

TEST_F(HostPort, MayHaveAnotherTargetOnOneAddress) {
  Attach(Publish({Port(8080, 80), Port(8080, 81, "tcp", kHostIp4)}, DualStack()));
}

TEST_F(HostPort, IsNamedOnStderrIfTheNodeLacksItsAddress) {
  EXPECT_THAT(MustRun("ADD", On("203.0.113.9")),
              Err(HasSubstr("host port tcp 203.0.113.9:8080 is published on an address")));

  EXPECT_THAT(MustRun("ADD", On("198.51.100.255"), As("other", other_)).err,
              HasSubstr("198.51.100.255"));
}

TEST_F(HostPort, GivesNoMessageOnAnAddressOfTheNode) {
  for (const std::string address : {kHostIp4, kHostIp6, "127.0.0.1", "127.1.2.3", ""}) {
    EXPECT_EQ(MustRun("ADD", On(address)).err, "") << address;
  }
}

TEST_F(HostPort, IsNamedIfAProcessOfTheNodeListensOnIt) {
  for (const std::string address : {"0.0.0.0", kHostIp4, "127.0.0.1"}) {
    const Server node = Server::Start(host(), Protocol::kTcp, address, 8080, "node");
    const Outcome added = MustRun("ADD", On(""));
    ASSERT_THAT(Lines(added.err), SizeIs(1)) << address;
    EXPECT_THAT(added.err, HasSubstr("host port tcp 8080 is also used by the node: process "));
    EXPECT_THAT(added.err, HasSubstr(Cat("'nb_plugin_rules' listens on ", address, ";")));
  }
  const Server six = Server::Start(host(), Protocol::kUdp, "::", 8080, "node");
  EXPECT_THAT(MustRun("ADD", On(kHostIp6, "udp")).err, HasSubstr("listens on ::;"));
}

TEST_F(HostPort, GivesNoMessageIfTheNodeListensElsewhere) {
  const Server other_address = Server::Start(host(), Protocol::kTcp, "127.0.0.1", 8080, "node");
  const Server other_port = Server::Start(host(), Protocol::kTcp, "0.0.0.0", 8081, "node");
  const Server other_protocol = Server::Start(host(), Protocol::kUdp, "0.0.0.0", 8080, "node");
  const Server localhost = Server::Start(host(), Protocol::kTcp, "::1", 8080, "node");
  const Server inside = Server::Start(container(), Protocol::kTcp, "0.0.0.0", 8080, "inside");

  EXPECT_EQ(MustRun("ADD", On(kHostIp4)).err, "");
  EXPECT_EQ(MustRun("ADD", On("::")).err, "");
}

}  // namespace
}  // namespace nomad_bridge::test
