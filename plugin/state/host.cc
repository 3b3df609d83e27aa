#include "plugin/state/host.h"

#include <utility>

#include "base/file.h"
#include "base/text.h"

namespace nomad_bridge::state {
namespace {

Host OpenWith(nft::Socket (*open)(const netlink::Netns& ns)) {
  netlink::Netns here = netlink::Netns::Current();
  rtnl::Socket net = rtnl::Socket::In(here);
  nft::Socket nft = open(here);
  std::string boot_id = FindFile("/proc/sys/kernel/random/boot_id").value_or("unknown");
  boot_id.erase(boot_id.find_last_not_of(" \n") + 1);
  const Origin origin{.boot_id = std::move(boot_id), .netns = here.id()};
  constexpr int kDigits = 8;
  return {.boot = Hex(StableHash(origin.boot_id), kDigits),
          .netns = std::move(here),
          .net = std::move(net),
          .nft = std::move(nft),
          .records = Records(origin),
          .policy = PolicyFile(origin.boot_id)};
}

}  // namespace

Host Host::Open() {
  return OpenWith(&nft::Socket::In);
}

Host Host::OpenToLook() {
  return OpenWith(&nft::Socket::TryIn);
}

std::array<int, 2> Host::NetfilterSockets() {
  if (!conntrack) {
    conntrack = conntrack::Conntrack::In(netns);
  }
  return {nft.fd(), conntrack->fd()};
}

const std::vector<sockets::Listener>& Host::Listeners(Protocol protocol) {
  return (listeners ? *listeners : listeners.emplace(sockets::ListenerLists::In(netns)))
      .Of(protocol);
}

std::optional<std::string> Host::FindNetnsPath(std::uint64_t inode) {
  if (!namespaces) {
    namespaces.emplace();
    netlink::ForEachNetns([&](const netlink::Netns& found, const std::string& path) {
      namespaces->emplace(found.id().inode, path);
    });
  }
  const auto found = namespaces->find(inode);
  return found == namespaces->end() ? std::nullopt : std::optional(found->second);
}

}  // namespace nomad_bridge::state
