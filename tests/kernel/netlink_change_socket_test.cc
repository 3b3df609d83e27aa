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

TEST_F(ChangeSocket, IsReadableFromAChangeUntilItIsRead) {
  EXPECT_EQ(Events(), 0);
  host().Must({"nft", "add", "table", "inet", "t"});
  EXPECT_EQ(Events(), POLLIN);

  EXPECT_TRUE(nft::DrainChanges(socket_));
  EXPECT_EQ(Events(), 0);
  EXPECT_FALSE(nft::DrainChanges(socket_));

  host().Must({"nft", "flush", "ruleset"});
  EXPECT_EQ(Events(), POLLIN);
}

// systemd ends a socket unit whose descriptor is in error.
TEST_F(ChangeSocket, IsNotInErrorAfterAnOverrun) {
  const int smallest = 1;
  ASSERT_EQ(::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVBUF, &smallest, sizeof smallest), 0);
  Overrun();
  ASSERT_EQ(Events(), POLLIN | POLLERR);

  EXPECT_TRUE(nft::DrainChanges(socket_));
  EXPECT_EQ(Events(), 0);

  Overrun();
  EXPECT_EQ(Events(), POLLIN);
}

TEST_F(ChangeSocket, IsAbsentUnlessSystemdPassesOne) {
  EXPECT_FALSE(nft::TakeChangeSocket());
}

}  // namespace
}  // namespace nomad_bridge::test
