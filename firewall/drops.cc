#include "firewall/drops.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/list.h"
#include "firewall/table.h"

namespace nomad_bridge::firewall {
namespace {

constexpr std::uint32_t kMaxDrops = 4096;

std::string TakeName(nft::KeyReader& key) {
  const auto bytes = key.Take(nft::Type::kIfname);
  return {bytes.begin(), std::ranges::find(bytes, 0)};
}

Mac TakeMac(nft::KeyReader& key) {
  Mac mac;
  std::ranges::copy(key.Take(nft::Type::kEtherAddr).first(mac.bytes.size()), mac.bytes.begin());
  return mac;
}

void ReadPortAndMac(nft::KeyReader& key, Family /*family*/, Drop& drop) {
  drop.from_port = TakeName(key);
  drop.from_mac = TakeMac(key);
}

void ReadSource(nft::KeyReader& key, Family family, Drop& drop) {
  ReadPortAndMac(key, family, drop);
  drop.from = Ip(key.Take(AddressType(family)));
}

void ReadPorts(nft::KeyReader& key, Family /*family*/, Drop& drop) {
  drop.from_port = TakeName(key);
  drop.to_port = TakeName(key);
}

void ReadAddresses(nft::KeyReader& key, Family family, Drop& drop) {
  drop.from = Ip(key.Take(AddressType(family)));
  drop.to = Ip(key.Take(AddressType(family)));
}

struct DropKind {
  nft::TableFamily table;
  std::string_view noun;
  std::string_view config_key;
  std::vector<nft::Type> fields;
  void (*read)(nft::KeyReader& key, Family family, Drop& drop);
};

const std::vector<DropKind>& Kinds() {
  using enum nft::Type;
  static const std::vector<DropKind> kKinds = {
      {nft::TableFamily::kBridge,
       kSourceDrops,
       kSourceCheck,
       {kIfname, kEtherAddr},
       ReadPortAndMac},
      {nft::TableFamily::kBridge,
       kSourceDropsFrom,
       kSourceCheck,
       {kIfname, kEtherAddr, kIpv4Addr},
       ReadSource},
      {nft::TableFamily::kBridge, kIsolatedDrops, kIngressPolicy, {kIfname, kIfname}, ReadPorts},
      {nft::TableFamily::kInet,
       kIngressDrops,
       kIngressPolicy,
       {kIpv4Addr, kIpv4Addr},
       ReadAddresses},
      {nft::TableFamily::kInet, kInboundDrops, kInboundKey, {kIpv4Addr, kIpv4Addr}, ReadAddresses},
  };
  return kKinds;
}

SetRow RowOf(const DropKind& kind) {
  return {.noun = kind.noun,
          .key = kind.fields,
          .data = {},
          .role = Role::kNone,
          .flags = nft::kDynamic,
          .size = kMaxDrops,
          .timeout_ms = kDropTimeoutMs};
}

std::size_t BytesOf(const nft::Set& set) {
  std::size_t bytes = 0;
  for (const nft::Type type : set.key) {
    bytes += nft::PaddedBytes(type);
  }
  return bytes;
}

Drop Decode(const DropKind& kind, const nft::Set& set, const nft::Socket::Noted& noted) {
  const bool is_ipv6 = Contains(set.key, nft::Type::kIpv6Addr);
  const std::uint64_t age_ms = kDropTimeoutMs - std::min(noted.expires_ms, kDropTimeoutMs);
  constexpr std::uint64_t kMsPerSecond = 1000;
  Drop drop = {
      .key = kind.config_key, .packets = noted.packets, .seconds_ago = age_ms / kMsPerSecond};
  nft::KeyReader key(noted.key);
  kind.read(key, is_ipv6 ? Family::kIpv6 : Family::kIpv4, drop);
  return drop;
}

}  // namespace

std::vector<SetRow> DropSets(nft::TableFamily family) {
  std::vector<SetRow> rows;
  for (const DropKind& kind : Kinds()) {
    if (kind.table == family) {
      rows.push_back(RowOf(kind));
    }
  }
  return rows;
}

nft::Chain DropChain(const DroppingChain& chain, std::vector<nft::Rule> notes) {
  nft::Chain made = {.name = chain.name,
                     .rules = {
                         // meta priority 6e62:7072 drop
                         nft::Rule().PriorityIs(kProbePriority).Drop(),
                         // counter name "sourceCheck"
                         nft::Rule().CountIn(std::string(chain.key)),
                     }};
  for (nft::Rule& note : notes) {
    // If the set is full, this rule ends before the drop, and the last one drops.
    made.rules.push_back(note.Drop());
  }
  made.rules.push_back(nft::Rule().Drop());
  return made;
}

std::vector<Drop> ReadDrops(nft::Socket& socket) {
  std::vector<Drop> drops;
  for (const DropKind& kind : Kinds()) {
    for (const nft::Set& set : SetsOf(RowOf(kind))) {
      for (const nft::Socket::Noted& noted : socket.NotedIn(TableId(kind.table), set.name)) {
        // Somebody may have put a set of another type in the place of ours.
        if (noted.key.size() == BytesOf(set)) {
          drops.push_back(Decode(kind, set, noted));
        }
      }
    }
  }
  std::ranges::stable_sort(drops, {}, &Drop::seconds_ago);
  return drops;
}

std::map<std::string, std::uint64_t> CountDrops(nft::Socket& socket) {
  std::map<std::string, std::uint64_t> counts;
  for (const nft::TableFamily family : {nft::TableFamily::kInet, nft::TableFamily::kBridge}) {
    for (const nft::Counter& counter : socket.Counters(TableId(family))) {
      if (!IsMadeForPolicies(counter.name)) {
        counts[counter.name] += counter.packets;
      }
    }
  }
  return counts;
}

}  // namespace nomad_bridge::firewall
