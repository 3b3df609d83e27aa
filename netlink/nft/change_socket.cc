#include "netlink/nft/change_socket.h"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <string_view>
#include <vector>

#include <arpa/inet.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file_lock.h"
#include "netlink/core/message.h"

namespace nomad_bridge::nft {
namespace {

constexpr int kFirstHanded = 3;  // SD_LISTEN_FDS_START
// The kernel makes none that is larger.
constexpr std::size_t kMaxMessage = 64 << 10;

// Whatever the message is of, it has the table's name under this number.
constexpr int kTableName = NFTA_TABLE_NAME;
static_assert(NFTA_CHAIN_TABLE == kTableName && NFTA_RULE_TABLE == kTableName &&
              NFTA_SET_TABLE == kTableName && NFTA_SET_ELEM_LIST_TABLE == kTableName &&
              NFTA_OBJ_TABLE == kTableName && NFTA_FLOWTABLE_TABLE == kTableName);

std::string_view Variable(const char* name) {
  const char* const value = ::getenv(name);
  return value == nullptr ? "" : value;
}

void Note(const nlmsghdr* message, Changes& changes) {
  const netlink::Attributes attributes(message, sizeof(nfgenmsg));
  if (NFNL_MSG_TYPE(message->nlmsg_type) != NFT_MSG_NEWGEN) {
    changes.tables.insert(attributes.Text(kTableName));
  } else if (const std::optional<std::uint32_t> generation = attributes.U32(NFTA_GEN_ID)) {
    changes.last_generation = ntohl(*generation);
    changes.first_generation = changes.first_generation.value_or(*changes.last_generation);
  }
}

void ReadAll(int socket, Changes& changes) {
  static std::vector<char> buffer(kMaxMessage);
  for (;;) {
    const ssize_t got = ::recv(socket, buffer.data(), buffer.size(), MSG_DONTWAIT | MSG_TRUNC);
    if (got < 0 && errno == EAGAIN) {
      return;
    }
    // ENOBUFS is of before overruns were switched off.
    if (got < 0 && errno != ENOBUFS && errno != EINTR) {
      throw ErrnoError(Code::kKernel, "cannot read the socket of changes");
    }
    if (got > static_cast<ssize_t>(buffer.size())) {
      changes.are_complete = false;
      continue;
    }
    netlink::ForEachIn(
        buffer.data(), got, [&](const nlmsghdr& message) { Note(&message, changes); });
  }
}

bool HasLostMessages(int socket) {
  std::array<std::uint32_t, SK_MEMINFO_VARS> memory{};
  socklen_t size = sizeof memory;
  return ::getsockopt(socket, SOL_SOCKET, SO_MEMINFO, memory.data(), &size) != 0 ||
         memory[SK_MEMINFO_DROPS] != 0;
}

}  // namespace

UniqueFd TakeChangeSocket() {
  int domain = 0;
  socklen_t size = sizeof domain;
  const bool is_handed = Variable("LISTEN_PID") == std::to_string(::getpid()) &&
                         Variable("LISTEN_FDS") == "1" &&
                         ::getsockopt(kFirstHanded, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 &&
                         domain == AF_NETLINK;
  return is_handed ? UniqueFd(kFirstHanded) : UniqueFd();
}

Changes ReadChanges(const UniqueFd& socket) {
  const int on = 1;
  if (::setsockopt(socket.get(), SOL_NETLINK, NETLINK_NO_ENOBUFS, &on, sizeof on) != 0) {
    throw ErrnoError(Code::kKernel, "cannot set up the socket of changes");
  }
  const Deadline deadline = FromNow(kMaxBurst);
  pollfd waiting{.fd = socket.get(), .events = POLLIN, .revents = 0};
  Changes changes;
  do {
    ReadAll(socket.get(), changes);
  } while (std::chrono::steady_clock::now() < deadline &&
           ::poll(&waiting, 1, static_cast<int>(kQuiet.count())) > 0);
  changes.are_complete = changes.are_complete && !HasLostMessages(socket.get());
  return changes;
}

}  // namespace nomad_bridge::nft
