#include "netlink/nft/table.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <netinet/in.h>

#include "base/ip.h"
#include "base/text.h"

namespace nomad_bridge::nft {
namespace {

template <typename Object>
const Object* FindByName(const std::vector<Object>& all, const std::string& name) {
  const auto found = std::ranges::find(all, name, &Object::name);
  return found == all.end() ? nullptr : &*found;
}

constexpr std::size_t kRegisterBytes = 4;

// Returns the value for `key` in `values`; 0 or nothing if `key` is absent.
template <typename Key, typename Value, std::size_t kCount>
Value ValueOf(Key key, const std::pair<Key, Value> (&values)[kCount]) {
  const auto* const found = std::ranges::find(values, key, &std::pair<Key, Value>::first);
  return found == std::end(values) ? Value() : found->second;
}

// Returns the size in bytes; 0 for a verdict, whose size the kernel knows.
std::size_t SizeOf(Type type) {
  using enum Type;
  return ValueOf<Type, std::size_t>(type,
                                    {{kIpv4Addr, 4},
                                     {kIpv6Addr, 16},
                                     {kIfname, 16},
                                     {kEtherAddr, 6},
                                     {kInetProto, 1},
                                     {kInetService, 2},
                                     {kMark, 4},
                                     {kCtId, 4}});
}

std::string ProtocolText(int number) {
  const std::string name(ValueOf<int, std::string_view>(
      number, {{IPPROTO_TCP, "tcp"}, {IPPROTO_UDP, "udp"}, {IPPROTO_SCTP, "sctp"}}));
  return name.empty() ? Cat(number) : name;
}

std::string FieldText(Type type, std::span<const std::uint8_t> bytes) {
  switch (type) {
    case Type::kVerdict:
    case Type::kMark:
    case Type::kCtId:
      break;
    case Type::kIpv4Addr:
    case Type::kIpv6Addr:
      return Ip(bytes).Text();
    case Type::kIfname:
      return {bytes.begin(), std::ranges::find(bytes, 0)};
    case Type::kEtherAddr: {
      Mac mac;
      std::ranges::copy(bytes, mac.bytes.begin());
      return mac.Text();
    }
    case Type::kInetProto:
      return ProtocolText(bytes[0]);
    case Type::kInetService:
      return Cat(bytes[0] * 256 + bytes[1]);
  }
  return {};
}

}  // namespace

std::string Text(TableFamily family) {
  using enum TableFamily;
  return std::string(ValueOf<TableFamily, std::string_view>(family,
                                                            {{kInet, "inet"},
                                                             {kIp, "ip"},
                                                             {kArp, "arp"},
                                                             {kIp6, "ip6"},
                                                             {kNetdev, "netdev"},
                                                             {kBridge, "bridge"}}));
}

std::string Text(const TableId& table) {
  return Cat(Text(table.family), ' ', table.name);
}

std::size_t PaddedBytes(Type type) {
  return (SizeOf(type) + kRegisterBytes - 1) / kRegisterBytes * kRegisterBytes;
}

std::string KeyText(const Set& set, const Element& element) {
  std::string text;
  std::size_t offset = 0;
  for (const Type type : set.key) {
    if (offset + SizeOf(type) > element.key.size()) {
      break;
    }
    text += Format("{}{}",
                   text.empty() ? "" : " . ",
                   FieldText(type, std::span(element.key).subspan(offset, SizeOf(type))));
    offset += PaddedBytes(type);
  }
  return text;
}

const Set* Table::FindSet(const std::string& name) const {
  return FindByName(sets, name);
}

const Chain* Table::FindChain(const std::string& name) const {
  return FindByName(chains, name);
}

}  // namespace nomad_bridge::nft
