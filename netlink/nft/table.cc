#include "netlink/nft/table.h"

#include <algorithm>

#include <netinet/in.h>

#include "base/ip.h"
#include "base/text.h"

namespace nomad_bridge::nft {
namespace {

constexpr std::size_t kRegisterBytes = 4;

std::size_t SizeOf(Type type) {
  switch (type) {
    case Type::kVerdict:  // the kernel knows
      return 0;
    case Type::kIpv4Addr:
      return 4;
    case Type::kIpv6Addr:
    case Type::kIfname:
      return 16;
    case Type::kEtherAddr:
      return 6;
    case Type::kInetProto:
      return 1;
    case Type::kInetService:
      return 2;
  }
  return 0;
}

std::string ProtocolText(std::uint8_t number) {
  switch (number) {
    case IPPROTO_TCP:
      return "tcp";
    case IPPROTO_UDP:
      return "udp";
    case IPPROTO_SCTP:
      return "sctp";
    default:
      return Cat(int{number});
  }
}

std::string FieldText(Type type, std::span<const std::uint8_t> bytes) {
  switch (type) {
    case Type::kVerdict:
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
  switch (family) {
    case TableFamily::kInet:
      return "inet";
    case TableFamily::kIp:
      return "ip";
    case TableFamily::kIp6:
      return "ip6";
    case TableFamily::kBridge:
      return "bridge";
    case TableFamily::kAny:
      break;
  }
  return {};
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
  const auto set = std::ranges::find(sets, name, &Set::name);
  return set == sets.end() ? nullptr : &*set;
}

const Chain* Table::FindChain(const std::string& name) const {
  const auto chain = std::ranges::find(chains, name, &Chain::name);
  return chain == chains.end() ? nullptr : &*chain;
}

}  // namespace nomad_bridge::nft
