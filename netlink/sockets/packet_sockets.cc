#include "netlink/sockets/packet_sockets.h"

#include <string>
#include <vector>

#include "base/file.h"
#include "base/text.h"

namespace nomad_bridge::sockets {

std::optional<std::uint32_t> FindPacketSocket(const netlink::Netns& ns, int link) {
  // sk, RefCnt, Type, Proto (0003: ETH_P_ALL), Iface, R, Rmem, User, Inode
  constexpr std::size_t kProtocol = 3;
  constexpr std::size_t kInterface = 4;
  constexpr std::size_t kInode = 8;
  std::string sockets;
  netlink::InNetns(ns, [&] { sockets = FindFile("/proc/self/net/packet").value_or(""); });
  for (const std::string& line : SplitFields(sockets, "\n")) {
    const std::vector<std::string> fields = SplitFields(line, " ");
    if (fields.size() > kInode && fields[kProtocol] == "0003" &&
        fields[kInterface] == std::to_string(link)) {
      return FindNumber<std::uint32_t>(fields[kInode]);
    }
  }
  return std::nullopt;
}

}  // namespace nomad_bridge::sockets
