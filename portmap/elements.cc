#include "portmap/elements.h"

#include <span>

#include "base/text.h"
#include "firewall/table.h"
#include "portmap/maps.h"

namespace nomad_bridge::portmap {
namespace {

using Bytes = std::vector<std::uint8_t>;

// Every field of a key is padded to 4 bytes.
constexpr std::size_t kFieldBytes = 4;

void Put(Bytes& bytes, const Ip& ip) {
  bytes.insert(bytes.end(), ip.bytes().begin(), ip.bytes().end());
}

void Put(Bytes& bytes, Protocol protocol) {
  bytes.insert(bytes.end(), {static_cast<std::uint8_t>(protocol), 0, 0, 0});
}

void Put(Bytes& bytes, std::uint16_t port) {
  const auto high = static_cast<std::uint8_t>(port >> 8);
  const auto low = static_cast<std::uint8_t>(port & 0xff);
  bytes.insert(bytes.end(), {high, low, 0, 0});
}

nft::Element ElementFor(const DnatEntry& mapping, const std::string& comment) {
  const std::string_view noun = mapping.host_ip ? kHostIp : kPort;
  nft::Element element{.set = firewall::SetName(noun, mapping.container_ip.family()),
                       .key = {},
                       .data = {},
                       .comment = comment};
  if (mapping.host_ip) {
    Put(element.key, *mapping.host_ip);
  }
  Put(element.key, mapping.protocol);
  Put(element.key, mapping.host_port);
  Put(element.data, mapping.container_ip);
  Put(element.data, mapping.container_port);
  return element;
}

}  // namespace

std::vector<nft::Element> Elements(const std::vector<DnatEntry>& mappings,
                                   const std::string& comment) {
  std::vector<nft::Element> elements;
  elements.reserve(mappings.size());
  for (const DnatEntry& mapping : mappings) {
    elements.push_back(ElementFor(mapping, comment));
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
