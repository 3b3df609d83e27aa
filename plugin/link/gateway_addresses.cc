#include "plugin/link/gateway_addresses.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/text.h"
#include "netlink/core/sysctl.h"
#include "plugin/link/liveness.h"

namespace nomad_bridge::link {
namespace {

// Gateways on `gateway_ifname` that living attachments rely on, but for `except`.
std::vector<Cidr> GatewaysOfLive(state::Host& host,
                                 const std::string& gateway,
                                 const AttachmentId& except) {
  std::vector<Cidr> gateways;
  for (const state::Record& record : LiveAttachmentsExcept(host, except)) {
    if (record.link.gateway_ifname == gateway) {
      gateways.insert(gateways.end(), record.link.gateways.begin(), record.link.gateways.end());
    }
  }
  return gateways;
}

bool IsIn(const std::vector<Cidr>& list, const Cidr& cidr) {
  return std::find(list.begin(), list.end(), cidr) != list.end();
}

// An address that cannot stay beside `gateways`: any other of IPv4, an overlapping one of IPv6.
bool Disturbs(const Cidr& present, const std::vector<Cidr>& gateways) {
  if (present.address.IsLinkLocal() && !present.address.is_ipv4()) {
    return false;
  }
  return std::any_of(gateways.begin(), gateways.end(), [&](const Cidr& gateway) {
    return gateway.address.family() == present.address.family() &&
           (present.address.is_ipv4() || gateway.Overlaps(present));
  });
}

// fe80:: with what the kernel makes of a MAC (RFC 4291, appendix A).
Cidr LinkLocal(const Mac& mac) {
  constexpr std::uint8_t kUniversalBit = 0x02;
  constexpr int kPrefixBits = 64;
  const auto& m = mac.bytes;
  const auto first = static_cast<std::uint8_t>(m[0] ^ kUniversalBit);
  const std::array<std::uint8_t, 16> bytes = {
      0xfe, 0x80, 0, 0, 0, 0, 0, 0, first, m[1], m[2], 0xff, 0xfe, m[3], m[4], m[5]};
  return {Ip(bytes), kPrefixBits};
}

}  // namespace

// The addresses that the node answers with on `gateway_ifname`; `is_ours`: the bridge is of our making.
std::vector<Cidr> AddressesFor(const rtnl::Link& gateway,
                               bool is_ours,
                               const std::vector<Cidr>& gateways) {
  std::vector<Cidr> wanted = gateways;
  if (HasFamily(wanted, Family::kIpv6)) {
    netlink::EnsureSysctl(Cat("net/ipv6/conf/", gateway.name, "/disable_ipv6"), "0");
    if (is_ours) {
      // The kernel asks with it for the allocations it forwards to. Left to itself it makes it when
      // it notices the link's carrier, up to a second late, and then tries for another whether
      // anybody else has it.
      wanted.push_back(LinkLocal(gateway.mac));
    }
  }
  return wanted;
}

std::vector<std::string> EnsureGateways(state::Host& host,
                                        const rtnl::Link& bridge,
                                        const config::LinkConfig& config,
                                        const std::vector<Cidr>& gateways,
                                        const AttachmentId& except) {
  const std::vector<Cidr> present = host.net.Addresses(bridge);
  // Asked for only if something is in the way, or missing.
  std::optional<std::vector<Cidr>> needed;
  const auto is_needed = [&](const Cidr& cidr) {
    if (!needed) {
      needed = GatewaysOfLive(host, bridge.name, except);
    }
    return IsIn(*needed, cidr);
  };
  for (const Cidr& cidr : present) {
    if (IsIn(gateways, cidr) || !Disturbs(cidr, gateways) || is_needed(cidr)) {
      continue;
    }
    if (!config.force_address) {
      throw Error(Code::kConflict,
                  Cat("bridge ", Quoted(bridge.name), " already has the address ", cidr),
                  Cat("this network wants ",
                      gateways.front(),
                      " there; remove it, or set 'forceAddress' to true"));
    }
    host.net.EnsureAddressGone(bridge, cidr);
  }
  std::vector<std::string> changes;
  for (const Cidr& gateway : gateways) {
    if (!IsIn(present, gateway)) {
      host.net.EnsureAddress(bridge, gateway);
      if (is_needed(gateway)) {
        changes.push_back(Cat("address ", gateway, " of bridge ", Quoted(bridge.name)));
      }
    }
  }
  return changes;
}

bool HasFamily(const std::vector<Cidr>& cidrs, Family family) {
  return std::any_of(cidrs.begin(), cidrs.end(), [&](const Cidr& cidr) {
    return cidr.address.family() == family;
  });
}

}  // namespace nomad_bridge::link
