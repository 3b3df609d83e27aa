#include "netlink/nft_table.h"

#include <algorithm>

#include "base/error.h"
#include "base/ip.h"
#include "base/text.h"

namespace nomad_bridge {
namespace {

constexpr std::size_t kRegisterBytes = 4;

std::size_t Bytes(NftType type) {
  switch (type) {
    case NftType::kIpv4Addr:
      return 4;
    case NftType::kIpv6Addr:
    case NftType::kIfname:
      return 16;
    case NftType::kInetProto:
      return 1;
    case NftType::kInetService:
      return 2;
  }
  return 0;
}

std::string ProtocolText(std::uint8_t number) {
  constexpr std::uint8_t kTcp = 6;
  constexpr std::uint8_t kUdp = 17;
  constexpr std::uint8_t kSctp = 132;
  switch (number) {
    case kTcp:
      return "tcp";
    case kUdp:
      return "udp";
    case kSctp:
      return "sctp";
    default:
      return Cat(int{number});
  }
}

std::string FieldText(NftType type, std::span<const std::uint8_t> bytes) {
  switch (type) {
    case NftType::kIpv4Addr:
    case NftType::kIpv6Addr:
      return Ip(bytes).Text();
    case NftType::kIfname:
      return {bytes.begin(), std::find(bytes.begin(), bytes.end(), 0)};
    case NftType::kInetProto:
      return ProtocolText(bytes[0]);
    case NftType::kInetService:
      return Cat(bytes[0] * 256 + bytes[1]);
  }
  return {};
}

}  // namespace

std::string Text(NftFamily family) {
  switch (family) {
    case NftFamily::kInet:
      return "inet";
    case NftFamily::kIp:
      return "ip";
    case NftFamily::kIp6:
      return "ip6";
    case NftFamily::kBridge:
      return "bridge";
    case NftFamily::kAny:
      break;
  }
  return {};
}

std::string Text(const NftTableId& table) {
  return Cat(Text(table.family), ' ', table.name);
}

std::size_t PaddedBytes(NftType type) {
  return (Bytes(type) + kRegisterBytes - 1) / kRegisterBytes * kRegisterBytes;
}

std::string KeyText(const NftSet& set, const NftElement& element) {
  std::string text;
  std::size_t offset = 0;
  for (const NftType type : set.key) {
    if (offset + Bytes(type) > element.key.size()) {
      break;
    }
    text += Cat(text.empty() ? "" : " . ",
                FieldText(type, std::span(element.key).subspan(offset, Bytes(type))));
    offset += PaddedBytes(type);
  }
  return text;
}

const NftSet* NftTable::FindSet(const std::string& name) const {
  const auto set = std::find_if(
      sets.begin(), sets.end(), [&](const NftSet& candidate) { return candidate.name == name; });
  return set == sets.end() ? nullptr : &*set;
}

NftChain& NftTable::Chain(const std::string& name) {
  const auto chain = std::find_if(chains.begin(), chains.end(), [&](const NftChain& candidate) {
    return candidate.name == name;
  });
  if (chain == chains.end()) {
    throw Error(Code::kInternal,
                Cat("table ", nomad_bridge::Text(id), " has no chain ", Quoted(name)));
  }
  return *chain;
}

}  // namespace nomad_bridge
