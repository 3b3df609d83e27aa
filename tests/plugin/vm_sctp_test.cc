// A published SCTP port. Only under a kernel with SCTP sockets: see tests/with-kernel.
#include "tests/plugin/link_world.h"

namespace nomad_bridge::test {
namespace {

using SctpTest = LinkWorld;

TEST_F(SctpTest, APublishedPortIsReachedFromOutsideAndFromTheNode) {
  const Server inside = Server::Start(container(), Protocol::kSctp, "0.0.0.0", 80, "inside");
  const std::string config = Network(R"({"runtimeConfig": {"portMappings": [
      {"hostPort": 8080, "containerPort": 80, "protocol": "sctp"}]}})");
  MustAdd(config);
  const auto ask = [&](const Node& from, const char* to) {
    return Ask(from, {.protocol = Protocol::kSctp, .to = to, .port = 8080}).value_or(Reply{}).text;
  };

  EXPECT_EQ(ask(outside(), kHostIp4), "inside");
  EXPECT_EQ(ask(host(), kHostIp4), "inside");

  MustDel(config);
  EXPECT_EQ(ask(outside(), kHostIp4), "");
}

}  // namespace
}  // namespace nomad_bridge::test
