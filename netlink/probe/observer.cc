#include "netlink/probe/observer.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <limits>
#include <string_view>
#include <utility>

#include <arpa/inet.h>  // before the kernel's own in.h, which gives way to it
#include <linux/if_arp.h>
#include <linux/if_ether.h>
#include <linux/netfilter/nf_tables.h>
#include <netinet/icmp6.h>
#include <netinet/ip6.h>
#include <netinet/tcp.h>

#include "base/list.h"
#include "base/text.h"
#include "netlink/nft/batch.h"

namespace nomad_bridge::probe {
namespace {

using nft::Bytes;
using nft::Field;
using nft::TableFamily;
using Point = nft::Hook::Point;

constexpr std::array kFamilies = {TableFamily::kInet,
                                  TableFamily::kNetdev,
                                  TableFamily::kBridge,
                                  TableFamily::kArp};

constexpr Field kTcpSequence = {NFT_PAYLOAD_TRANSPORT_HEADER, 4, 4};
constexpr Field kTcpAcknowledged = {NFT_PAYLOAD_TRANSPORT_HEADER, 8, 4};
constexpr Field kUdpPayload = {NFT_PAYLOAD_TRANSPORT_HEADER, 8, 4};
constexpr Field kSolicited = {NFT_PAYLOAD_TRANSPORT_HEADER, 8, 16};
constexpr Field kArpOperation = {NFT_PAYLOAD_NETWORK_HEADER, 6, 2};

Bytes NetworkOrder(std::uint32_t number) {
  const std::uint32_t swapped = htonl(number);
  Bytes bytes(sizeof swapped);
  std::memcpy(bytes.data(), &swapped, sizeof swapped);
  return bytes;
}

Bytes BytesOf(const Ip& address) {
  return {address.bytes().begin(), address.bytes().end()};
}

// ---- the rules that match a probe's packets, all without a verdict

nft::Rule RuleFor(PacketKind packet, const Flow& flow) {
  nft::Rule rule;
  rule.L4Proto(flow.protocol);
  if (packet == PacketKind::kAnswer) {
    return rule.Is(kTcpAcknowledged, NetworkOrder(flow.token + 1));
  }
  return rule.Is(flow.protocol == IPPROTO_TCP ? kTcpSequence : kUdpPayload,
                 NetworkOrder(flow.token));
}

// Returns the flow with the sequence number that follows a TCP request's.
Flow ResetOf(Flow flow) {
  ++flow.token;
  return flow;
}

std::vector<nft::Rule> RulesFor(const Flow& flow) {
  std::vector<nft::Rule> rules = {RuleFor(PacketKind::kRequest, flow)};
  if (flow.protocol == IPPROTO_TCP) {
    rules.push_back(RuleFor(PacketKind::kAnswer, flow));
  }
  return rules;
}

void AppendSolicitations(const std::set<Ip>& asked, std::vector<nft::Rule>& rules) {
  for (const Ip& address : asked) {
    if (!address.is_ipv4()) {
      nft::Rule rule;
      rule.L4Proto(IPPROTO_ICMPV6)
          .Between(nft::kIcmpv6Type, {ND_NEIGHBOR_SOLICIT}, {ND_NEIGHBOR_ADVERT})
          .Is(kSolicited, BytesOf(address));
      rules.push_back(rule);
    }
  }
}

void AppendArp(const std::set<Ip>& asked, std::vector<nft::Rule>& rules) {
  const auto append = [&](std::uint8_t operation, const Field& field, const Ip& address) {
    nft::Rule rule;
    rule.Protocol(ETH_P_ARP).Is(kArpOperation, {0, operation}).Is(field, BytesOf(address));
    rules.push_back(rule);
  };
  for (const Ip& address : asked) {
    if (address.is_ipv4()) {
      append(ARPOP_REQUEST, nft::kArpDaddrIp, address);
      append(ARPOP_REPLY, nft::kArpSaddrIp, address);
    }
  }
}

// ---- markers

struct PointName {
  Point point;
  std::string_view name;
};
constexpr std::array kInetPoints = {PointName{Point::kPrerouting, "prerouting"},
                                    PointName{Point::kInput, "input"},
                                    PointName{Point::kForward, "forward"},
                                    PointName{Point::kOutput, "output"},
                                    PointName{Point::kPostrouting, "postrouting"}};
constexpr std::array kDevicePoints = {PointName{Point::kIngress, "ingress"},
                                      PointName{Point::kEgress, "egress"}};
constexpr std::array kArpPoints = {PointName{Point::kArpInput, "input"},
                                   PointName{Point::kArpOutput, "output"}};

// The end of the name of the chain for Observer::What::elsewhere.
constexpr std::string_view kElsewhere = "_elsewhere";

// Returns the name of a marker's chain, which says everything about the marker: "egress_end_eth0".
std::string NameOf(std::string_view point, bool is_end, const std::string& device) {
  return Cat(point, is_end ? "_end" : "_start", device.empty() ? "" : "_", device);
}

template <typename Points>
std::optional<Marker> MarkerIn(const Points& points, TableFamily family, std::string_view chain) {
  for (const auto& [point, name] : points) {
    if (chain == Cat(name, kElsewhere)) {
      return Marker{.family = family, .point = point, .is_end = true, .is_elsewhere = true};
    }
    for (const bool is_end : {false, true}) {
      const std::string begin = NameOf(name, is_end, "");
      if (chain.starts_with(begin)) {
        const std::string_view rest = chain.substr(begin.size());
        return Marker{.family = family,
                      .point = point,
                      .device = std::string(rest.substr(rest.empty() ? 0 : 1)),
                      .is_end = is_end};
      }
    }
  }
  return std::nullopt;
}

std::optional<Marker> MarkerOf(TableFamily family, std::string_view chain) {
  return family == TableFamily::kNetdev ? MarkerIn(kDevicePoints, family, chain)
         : family == TableFamily::kArp  ? MarkerIn(kArpPoints, family, chain)
                                        : MarkerIn(kInetPoints, family, chain);
}

// Builds the batch that adds the markers' tables.
class MarkerTables {
 public:
  MarkerTables(const Observer::What& what, std::string table, std::uint32_t flags, bool has_egress)
      : what_(what), table_(std::move(table)), has_egress_(has_egress) {
    for (const TableFamily family : kFamilies) {
      batch_.AddTable({.family = family, .name = table_}, flags);
    }
  }

  nft::Batch Take() {
    std::vector<nft::Rule> of_ip = what_.others.empty() ? RulesFor(what_.flow) : what_.others;
    AppendSolicitations(what_.asked, of_ip);
    std::vector<nft::Rule> of_arp;
    AppendArp(what_.asked, of_arp);
    std::vector<nft::Rule> of_frames = of_ip;
    Append(of_frames, of_arp);
    Add(TableFamily::kInet, kInetPoints, "", of_ip);
    Add(TableFamily::kBridge, kInetPoints, "", of_frames);
    Add(TableFamily::kArp, kArpPoints, "", of_arp);
    for (const std::string& device : what_.devices) {
      Add(TableFamily::kNetdev, kDevicePoints, device, of_frames);
    }
    if (!what_.elsewhere.empty()) {
      AddElsewhere(TableFamily::kInet);
      AddElsewhere(TableFamily::kBridge);
    }
    for (const Observer::What::SignedAt& at : what_.signed_at) {
      AddSign(at, at.family == TableFamily::kBridge ? of_frames : of_ip);
    }
    return std::move(batch_);
  }

 private:
  template <typename Points>
  void Add(TableFamily family,
           const Points& points,
           const std::string& device,
           const std::vector<nft::Rule>& rules) {
    for (const auto& [point, name] : points) {
      if (family == TableFamily::kNetdev && point == Point::kEgress && !has_egress_) {
        continue;
      }
      for (const bool is_end : {false, true}) {
        AddChain({.family = family, .point = point, .device = device, .is_end = is_end},
                 NameOf(name, is_end, device),
                 rules);
      }
    }
  }

  void AddChain(const Marker& marker,
                const std::string& name,
                const std::vector<nft::Rule>& rules) {
    using Priority = std::numeric_limits<std::int32_t>;
    const nft::TableId table = {.family = marker.family, .name = table_};
    nft::Hook hook = {.type = "filter",
                      .point = marker.point,
                      .priority = marker.is_end ? Priority::max() : Priority::min()};
    if (!marker.device.empty()) {
      hook.devices = {marker.device};
    }
    batch_.AddChain(table, {.name = name, .hook = hook, .rules = {}});
    for (nft::Rule rule : rules) {
      batch_.AppendRule(table, name, rule.SetTrace());
    }
    for (const Catch& each : what_.catches) {
      if (marker.is_end && IsCaughtAt(marker, each)) {
        AddCatch(table, name, each.packet, {});
      }
    }
  }

  // Adds the rules that drop the packet and, if it is a TCP request, its reset, unless it leaves by
  // one of `links`.
  void AddCatch(const nft::TableId& table,
                const std::string& chain,
                PacketKind packet,
                const std::set<std::string>& links) {
    const bool has_reset = packet == PacketKind::kRequest && what_.flow.protocol == IPPROTO_TCP;
    for (const Flow& flow : has_reset ? std::vector<Flow>{what_.flow, ResetOf(what_.flow)}
                                      : std::vector<Flow>{what_.flow}) {
      nft::Rule rule = RuleFor(packet, flow);
      for (const std::string& link : links) {
        rule.OifnameIsNot(link);
      }
      batch_.AppendRule(table, chain, rule.Drop());
    }
  }

  void AddElsewhere(TableFamily family) {
    const nft::TableId table = {.family = family, .name = table_};
    const std::string name = Cat("postrouting", kElsewhere);
    batch_.AddChain(table,
                    {.name = name,
                     .hook = nft::Hook{.type = "filter",
                                       .point = Point::kPostrouting,
                                       .priority = std::numeric_limits<std::int32_t>::max()},
                     .rules = {}});
    for (const Elsewhere& each : what_.elsewhere) {
      AddCatch(table, name, each.packet, each.links);
    }
  }

  // Signs the request's reset, too, which ends the connection.
  void AddSign(const Observer::What::SignedAt& at, std::vector<nft::Rule> rules) {
    if (what_.flow.protocol == IPPROTO_TCP) {
      rules.push_back(RuleFor(PacketKind::kRequest, ResetOf(what_.flow)));
    }
    const nft::TableId table = {.family = at.family, .name = table_};
    const std::string chain = Cat("sign_", static_cast<int>(at.point));
    batch_.AddChain(
        table,
        {.name = chain,
         .hook = nft::Hook{.type = "filter", .point = at.point, .priority = at.priority - 1},
         .rules = {}});
    for (nft::Rule& rule : rules) {
      batch_.AppendRule(table, chain, rule.SetPriority(what_.sign));
    }
  }

  [[nodiscard]] bool IsCaughtAt(const Marker& marker, const Catch& each) const {
    const bool is_at_egress = each.family == TableFamily::kNetdev && each.point == Point::kEgress;
    if (is_at_egress && !has_egress_) {
      return marker.family == TableFamily::kInet && marker.point == Point::kPostrouting;
    }
    return marker.family == each.family && marker.point == each.point &&
           marker.device == each.device;
  }

  const Observer::What& what_;
  std::string table_;
  bool has_egress_;
  nft::Batch batch_;
};

// ---- packets

bool IsIp(const Bytes& network) {
  return !network.empty() && (network[0] >> 4 == 4 || network[0] >> 4 == 6);
}

std::uint32_t NumberAt(const Bytes& bytes, std::size_t at) {
  std::uint32_t number = 0;
  if (bytes.size() >= at + sizeof number) {
    std::memcpy(&number, bytes.data() + at, sizeof number);
  }
  return ntohl(number);
}

std::uint16_t PortAt(const Bytes& bytes, std::size_t at) {
  return static_cast<std::uint16_t>(NumberAt(bytes, at == 0 ? 0 : at - 2) >> (at == 0 ? 16 : 0));
}

std::optional<Ip> AddressAt(const Bytes& network, bool is_source) {
  if (!IsIp(network)) {
    return std::nullopt;
  }
  const bool is_ipv4 = network[0] >> 4 == 4;
  const std::size_t size = is_ipv4 ? 4 : 16;
  const std::size_t at = (is_ipv4 ? 12 : 8) + (is_source ? 0 : size);
  return network.size() < at + size ? std::nullopt
                                    : std::optional(Ip(std::span(network).subspan(at, size)));
}

// Returns whether the bytes at `field`, as far as the trace has them, are those of the address.
bool HasAddress(const Bytes& bytes, const Field& field, const Ip& address) {
  const std::size_t end = std::min<std::size_t>(bytes.size(), field.offset + field.bytes);
  return address.bytes().size() == field.bytes && end > field.offset &&
         std::equal(bytes.begin() + field.offset,
                    bytes.begin() + static_cast<std::ptrdiff_t>(end),
                    address.bytes().begin());
}

// Returns whether the ARP or ICMPv6 packet is about one of the addresses.
bool IsAbout(const std::set<Ip>& asked, const nft::TraceStep& step) {
  return std::ranges::any_of(asked, [&](const Ip& address) {
    return IsIp(step.network) ? HasAddress(step.transport, kSolicited, address)
                              : HasAddress(step.network, nft::kArpSaddrIp, address) ||
                                    HasAddress(step.network, nft::kArpDaddrIp, address);
  });
}

// Returns nullopt if the packet is not one of the probe's: others may trace packets, too.
std::optional<PacketKind> KindOf(const nft::TraceStep& step,
                                 std::uint32_t token,
                                 const std::set<Ip>& asked) {
  constexpr std::size_t kOperationAt = 7;  // the last byte of ARP's operation
  const auto lookup = [&](bool is_told) {
    return !IsAbout(asked, step) ? std::nullopt
                                 : std::optional(is_told ? PacketKind::kTold : PacketKind::kAsk);
  };
  if (!IsIp(step.network)) {
    return lookup(step.network.size() > kOperationAt && step.network[kOperationAt] == ARPOP_REPLY);
  }
  const bool is_ipv4 = step.network[0] >> 4 == 4;
  const std::size_t protocol_at = is_ipv4 ? 9 : 6;
  const std::uint8_t protocol =
      step.network.size() > protocol_at ? step.network[protocol_at] : std::uint8_t{0};
  if (protocol == IPPROTO_ICMPV6 && !step.transport.empty()) {
    return lookup(step.transport[0] == ND_NEIGHBOR_ADVERT);
  }
  const Field& field = protocol == IPPROTO_UDP ? kUdpPayload : kTcpSequence;
  if (NumberAt(step.transport, field.offset) == token) {
    return PacketKind::kRequest;
  }
  return protocol == IPPROTO_TCP && NumberAt(step.transport, kTcpAcknowledged.offset) == token + 1
             ? std::optional(PacketKind::kAnswer)
             : std::nullopt;
}

}  // namespace

bool Sighting::IsReset() const {
  return packet == PacketKind::kAnswer && (TcpFlags() & TH_RST) != 0;
}

std::uint8_t Sighting::TcpFlags() const {
  constexpr std::size_t kFlagsAt = 13;
  return step.transport.size() > kFlagsAt ? step.transport[kFlagsAt] : std::uint8_t{0};
}

std::optional<Ip> Sighting::Source() const {
  return AddressAt(step.network, true);
}

std::optional<Ip> Sighting::Destination() const {
  return AddressAt(step.network, false);
}

std::uint16_t Sighting::SourcePort() const {
  return PortAt(step.transport, 0);
}

std::uint16_t Sighting::DestinationPort() const {
  return PortAt(step.transport, 2);
}

Observer Observer::Start(const netlink::Netns& ns, const What& what) {
  Observer observer(nft::Socket::In(ns), nft::TraceEvents::In(ns), what);
  observer.table_ = Cat("nomad-bridge-probe-", Hex(what.flow.token, 8));
  std::uint32_t flags = NFT_TABLE_F_OWNER;
  nft::RetryOnGenerations(
      observer.socket_, "trace packets", std::nullopt, [&](std::uint32_t generation) {
        const nft::Batch batch =
            MarkerTables(what, observer.table_, flags, observer.has_egress_).Take();
        const nft::CommitReply reply = observer.socket_.Commit(batch, generation);
        if (reply.refused.empty()) {
          return reply.done();
        }
        if (!observer.has_egress_ && flags == 0) {
          throw nft::ErrorOf(batch, reply);
        }
        // Try again without egress hooks, then also without table owners: old kernels lack them.
        flags = observer.has_egress_ ? flags : 0;
        observer.has_egress_ = false;
        return false;
      });
  return observer;
}

Observer::~Observer() {
  if (events_.fd() < 0) {
    return;  // moved from
  }
  try {
    nft::Batch batch;
    for (const TableFamily family : kFamilies) {
      batch.DeleteTable({.family = family, .name = table_});
    }
    nft::RetryOnGenerations(socket_, "end the trace", std::nullopt, [&](std::uint32_t generation) {
      return nft::TryCommit(socket_, batch, generation);
    });
  } catch (const std::exception&) {
    // The kernel deletes the tables together with their owner anyway.
  }
}

void Observer::Take(std::vector<Sighting>& sightings) {
  const bool is_complete =
      events_.Take([&](nft::TraceStep step) { Note(std::move(step), sightings); });
  has_lost_events_ = has_lost_events_ || !is_complete;
}

void Observer::Note(nft::TraceStep step, std::vector<Sighting>& sightings) {
  const std::uint32_t packet = step.packet;
  if (!step.network.empty()) {
    const std::optional<PacketKind> kind =
        is_probe_ ? KindOf(step, token_, asked_) : std::optional(PacketKind::kRequest);
    if (!kind) {
      runs_.erase(packet);
      return;
    }
    runs_[packet] = {.packet = *kind, .first = step, .path = {step.chain}};
  }
  const auto run = runs_.find(packet);
  if (run == runs_.end()) {
    return;
  }
  std::vector<std::string>& path = run->second.path;
  // A step may lead back to a chain of the path: a policy belongs to the base chain, and after a
  // return the next rule belongs to the chain that jumped.
  const auto known = std::ranges::find(path, step.chain);
  path.erase(known == path.end() ? known : known + 1, path.end());
  if (known == path.end()) {
    path.push_back(step.chain);
  }
  const nft::TraceStep& first = run->second.first;
  Sighting sighting = {
      .packet = run->second.packet,
      .marker = step.table.name == table_ ? MarkerOf(step.table.family, step.chain) : std::nullopt,
      .step = std::move(step),
      .path = path};
  if (sighting.step.network.empty()) {
    sighting.step.network = first.network;
    sighting.step.transport = first.transport;
    sighting.step.mark = first.mark;
    sighting.step.input_link = first.input_link;
  }
  if (sighting.step.table.name == table_ && !sighting.marker) {
    return;  // the sign
  }
  // Reports each marker once. A probe's packet matches a rule of every marker, so the policy is
  // left out. A client's packet may match no rule after its translation, so only the policy counts.
  if (sighting.marker && (sighting.step.handle == 0) == is_probe_) {
    return;
  }
  sightings.push_back(std::move(sighting));
}

}  // namespace nomad_bridge::probe
