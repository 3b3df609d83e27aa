#include "portmap/elements.h"

#include <span>
#include <utility>

#include "base/list.h"
#include "base/text.h"
#include "firewall/table.h"
#include "portmap/rules.h"

namespace nomad_bridge::portmap {
namespace {

using Bytes = std::vector<std::uint8_t>;

// Every field of a key is padded to 4 bytes.
constexpr std::size_t kFieldBytes = 4;

Bytes Field(Protocol protocol) {
  return {static_cast<std::uint8_t>(protocol), 0, 0, 0};
}

Bytes Field(std::uint16_t port) {
  return {static_cast<std::uint8_t>(port >> 8), static_cast<std::uint8_t>(port & 0xff), 0, 0};
}

}  // namespace

std::vector<nft::Element> Elements(const std::vector<DnatEntry>& entries,
                                   const std::string& comment) {
  std::vector<nft::Element> elements;
  elements.reserve(entries.size());
  for (const DnatEntry& entry : entries) {
    Bytes key = entry.host_ip ? firewall::AddressKey(*entry.host_ip) : Bytes();
    Append(key, Field(entry.protocol));
    Append(key, Field(entry.host_port));
    Bytes data = firewall::AddressKey(entry.container_ip);
    Append(data, Field(entry.container_port));
    elements.push_back(
        {.set = firewall::SetName(entry.host_ip ? kHostIp : kPort, entry.container_ip.family()),
         .key = std::move(key),
         .data = std::move(data),
         .comment = comment});
  }
  return elements;
}

std::string DescribeKey(const nft::Element& element) {
  const bool any_address = element.set.starts_with(kPort);
  if (!any_address && !element.set.starts_with(kHostIp)) {
    return {};
  }
  const std::span<const std::uint8_t> key(element.key);
  if (key.size() < 2 * kFieldBytes) {
    return {};
  }
  const std::span<const std::uint8_t> address = key.first(key.size() - 2 * kFieldBytes);
  const std::span<const std::uint8_t> rest = key.last(2 * kFieldBytes);
  const std::string protocol = Text(static_cast<Protocol>(rest[0]));
  const int port = rest[kFieldBytes] << 8 | rest[kFieldBytes + 1];
  if (any_address) {
    return Cat(protocol, ' ', port);
  }
  const Ip ip(address);
  return ip.is_ipv4() ? Cat(protocol, ' ', ip, ':', port) : Cat(protocol, " [", ip, "]:", port);
}

}  // namespace nomad_bridge::portmap
