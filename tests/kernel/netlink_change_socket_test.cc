// The socket of changes, opened as systemd opens it.
#include <linux/netlink.h>
#include <poll.h>
#include <sys/socket.h>

#include "netlink/nft/change_socket.h"
#include "tests/support/world.h"

namespace nomad_bridge::test {
namespace {

class ChangeSocket : public World {
 protected:
  ChangeSocket() {
    host().Do([&] {
      socket_ = UniqueFd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER));
      constexpr unsigned kGroups = 64;  // as the unit says
      const sockaddr_nl address{
          .nl_family = AF_NETLINK, .nl_pad = 0, .nl_pid = 0, .nl_groups = kGroups};
      EXPECT_EQ(::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
                0);
    });
  }

  // What systemd sees.
  [[nodiscard]] int Events() const {
    pollfd waiting{.fd = socket_.get(), .events = POLLIN, .revents = 0};
    EXPECT_GE(::poll(&waiting, 1, 0), 0);
    return waiting.revents;
  }

  // More than the smallest buffer holds.
  void Overrun() {
    for (const char* const table : {"one", "two", "three", "four", "five", "six"}) {
      host().Must({"nft", "add", "table", "inet", table, "{ chain c { counter; counter; }; }"});
      host().Must({"nft", "delete", "table", "inet", table});
    }
  }

  UniqueFd socket_;
};

TEST_F(ChangeSocket, HearsOfAChangeUntilItIsRead) {
  EXPECT_EQ(Events(), 0);
  host().Must({"nft", "add", "table", "inet", "t"});
  EXPECT_EQ(Events(), POLLIN);

  static_cast<void>(nft::ReadChanges(socket_));
  EXPECT_EQ(Events(), 0);

  host().Must({"nft", "flush", "ruleset"});
  EXPECT_EQ(Events(), POLLIN);
}

// systemd ends a socket unit whose descriptor is in error.
TEST_F(ChangeSocket, IsNotInErrorAfterAnOverrun) {
  const int smallest = 1;
  ASSERT_EQ(::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVBUF, &smallest, sizeof smallest), 0);
  Overrun();
  ASSERT_EQ(Events(), POLLIN | POLLERR);

  static_cast<void>(nft::ReadChanges(socket_));
  EXPECT_EQ(Events(), 0);

  Overrun();
  EXPECT_EQ(Events(), POLLIN);
  EXPECT_FALSE(nft::ReadChanges(socket_).are_complete);
}

TEST_F(ChangeSocket, TellsWhichTablesWereChanged) {
  host().Must(
      {"nft", "add", "table", "inet", "one", "{ set s { type ipv4_addr; }; chain c { }; }"});
  host().Must({"nft", "add", "table", "bridge", "two"});
  const nft::Changes first = nft::ReadChanges(socket_);
  EXPECT_THAT(first.tables, ElementsAre("one", "two"));
  EXPECT_TRUE(first.are_complete);
  ASSERT_TRUE(first.first_generation);

  for (const char* const change : {"add element inet one s { 10.0.0.1, 10.0.0.2 }",
                                   "delete element inet one s { 10.0.0.1 }",
                                   "flush set inet one s",
                                   "add rule inet one c accept",
                                   "flush chain inet one c",
                                   "delete set inet one s",
                                   "add counter inet one n",
                                   "delete table inet one"}) {
    host().Must(Words(Cat("nft ", change)));
    EXPECT_THAT(nft::ReadChanges(socket_).tables, ElementsAre("one")) << change;
  }
  host().Must(Words("nft flush ruleset"));
  const nft::Changes last = nft::ReadChanges(socket_);
  EXPECT_THAT(last.tables, ElementsAre("two"));
  EXPECT_EQ(*last.first_generation, *first.first_generation + 10);
  EXPECT_TRUE(nft::ReadChanges(socket_).tables.empty());
}

TEST_F(ChangeSocket, IsNoneUnlessSystemdHandsOne) {
  EXPECT_FALSE(nft::TakeChangeSocket());
}

}  // namespace
}  // namespace nomad_bridge::test
