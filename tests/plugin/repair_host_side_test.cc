// An attachment whose host's side others change: it needs no repair, or keeps what it has through one.
#include "tests/support/world.h"

namespace nomad_bridge::test {
namespace {

class Attachment : public World {};

// A lease file that is gone must not give the address of a living allocation away, were it the last one.
TEST_F(Attachment, KeepsItsAddressWhenTheLeaseIsLost) {
  const json config = Config({{"ipam", {{"subnet", "10.9.0.0/30"}}}});
  const json first = Attach(config);
  ASSERT_EQ(AddressOf(first), "10.9.0.2");
  EnsureFileGone(Cat(kLeases, "/10.9.0.2"));

  const Outcome second = RunPlugin("ADD", config, As("other", AddContainer("other")));

  EXPECT_EQ(ErrorCode(second), 101) << second;
  EXPECT_EQ(Leases(), (std::map<std::string, std::string>{{"10.9.0.2", "alloc-1"}}));
  EXPECT_TRUE(Ping(container(), kOutsideIp4));
}

TEST_F(Attachment, KeepsItsConnectionsThroughCommandsOfOthersAndRepairs) {
  const json config = Publish({Port(8080, 80)});
  const json add = Attach(config);
  const Server page = Server::Start(container(), Protocol::kTcp, "0.0.0.0", 80, "page");
  std::optional<Connection> connection =
      Connection::Open(outside(), {.to = kHostIp4, .port = 8080});
  ASSERT_TRUE(connection.has_value());
  const json other_config = Publish({Port(9090, 80)});
  const Variables other = As("other", AddContainer("other"));
  host().Must({"iptables", "-P", "FORWARD", "DROP"});

  EXPECT_TRUE(connection->Echoes("before\n"));
  const json other_add = Attach(other_config, other);
  EXPECT_TRUE(connection->Echoes("after another's ADD\n"));
  EXPECT_EQ(Check(other_config, other_add, other).exit_code, 0);
  EXPECT_TRUE(connection->Echoes("after another's CHECK\n"));
  Attach(other_config, other);
  EXPECT_TRUE(connection->Echoes("after another's takeover\n"));
  Detach(other_config, other);
  EXPECT_TRUE(connection->Echoes("after another's DEL\n"));
  MustRun("GC", WithValid({"alloc-1"}));
  EXPECT_TRUE(connection->Echoes("after a GC that lists it\n"));
  host().Must({"nft", "flush", "ruleset"});
  host().Must({"iptables", "-P", "FORWARD", "DROP"});
  EXPECT_EQ(Check(config, add).exit_code, 0);
  EXPECT_TRUE(connection->Echoes("after a flush and its repair\n"));
  host().Must({"ip", "link", "delete", "nomad"});
  Attach(other_config, other);
  EXPECT_TRUE(connection->Echoes("after a deleted bridge and its repair\n"));
}

}  // namespace
}  // namespace nomad_bridge::test
