// A published SCTP port. Only under a kernel with SCTP sockets: see tests/with-kernel.
#include "tests/support/world.h"

namespace nomad_bridge::test {
namespace {

using Sctp = World;

TEST_F(Sctp, APublishedPortIsReachedFromOutsideAndFromTheNode) {
  const Server inside = Server::Start(container(), Protocol::kSctp, "0.0.0.0", 80, "inside");
  const json config = Config(R"({"runtimeConfig": {"portMappings": [
      {"hostPort": 8080, "containerPort": 80, "protocol": "sctp"}]}})");
  Attach(config);
  const auto ask = [&](const Node& from, const char* to) {
    return Ask(from, {.protocol = Protocol::kSctp, .to = to, .port = 8080}).value_or(Reply{}).text;
  };

  EXPECT_EQ(ask(outside(), kHostIp4), "inside");
  EXPECT_EQ(ask(host(), kHostIp4), "inside");

  Detach(config);
  EXPECT_EQ(ask(outside(), kHostIp4), "");
}

}  // namespace
}  // namespace nomad_bridge::test
