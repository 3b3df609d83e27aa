#include "plugin/link/gateway_addresses.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/text.h"
#include "netlink/core/sysctl.h"
#include "plugin/link/liveness.h"

namespace nomad_bridge::link {
namespace {

bool IsIn(const std::vector<Cidr>& list, const Cidr& cidr) {
  return std::find(list.begin(), list.end(), cidr) != list.end();
}

// Whether `present` cannot stay beside `gateways`: any other IPv4 address, an overlapping IPv6 one.
bool Conflicts(const Cidr& present, const std::vector<Cidr>& gateways) {
  if (present.address.IsLinkLocal() && !present.address.is_ipv4()) {
    return false;
  }
  return std::any_of(gateways.begin(), gateways.end(), [&](const Cidr& gateway) {
    return gateway.address.family() == present.address.family() &&
           (present.address.is_ipv4() || gateway.Overlaps(present));
  });
}

// The link-local address that the kernel derives from a MAC (RFC 4291, appendix A).
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

bool HasFamily(const std::vector<Cidr>& cidrs, Family family) {
  return std::any_of(cidrs.begin(), cidrs.end(), [&](const Cidr& cidr) {
    return cidr.address.family() == family;
  });
}

std::vector<Cidr> AddressesFor(const rtnl::Link& gateway,
                               BridgeMaker maker,
                               const std::vector<Cidr>& gateways) {
  std::vector<Cidr> wanted = gateways;
  if (HasFamily(wanted, Family::kIpv6)) {
    netlink::EnsureSysctl(Cat("net/ipv6/conf/", gateway.name, "/disable_ipv6"), "0");
    if (maker == BridgeMaker::kWe) {
      // The kernel uses it as the source of neighbour solicitations. Left alone it adds it up to a
      // second after the link has a carrier, and then runs duplicate address detection on it.
      wanted.push_back(LinkLocal(gateway.mac));
    }
  }
  return wanted;
}

std::vector<std::string> EnsureGateways(state::Host& host,
                                        const rtnl::Link& gateway,
                                        const config::LinkConfig& config,
                                        const std::vector<Cidr>& gateways,
                                        const AttachmentId& except) {
  LiveAttachments others(host, except);  // read only if an address is in the way, or missing
  const auto is_needed = [&](const Cidr& cidr) {
    return std::any_of(
        others.records().begin(), others.records().end(), [&](const state::Record& other) {
          return other.link.gateway_ifname == gateway.name && IsIn(other.link.gateways, cidr);
        });
  };
  const std::vector<Cidr> present = host.net.Addresses(gateway);
  for (const Cidr& cidr : present) {
    if (IsIn(gateways, cidr) || !Conflicts(cidr, gateways) || is_needed(cidr)) {
      continue;
    }
    if (!config.force_address) {
      throw Error(Code::kConflict,
                  Cat("bridge ", Quoted(gateway.name), " already has the address ", cidr),
                  Cat("this network wants ",
                      gateways.front(),
                      " there; remove it, or set 'forceAddress' to true"));
    }
    host.net.EnsureAddressGone(gateway, cidr);
  }
  std::vector<std::string> repairs;
  for (const Cidr& cidr : gateways) {
    if (!IsIn(present, cidr)) {
      host.net.EnsureAddress(gateway, cidr);
      if (is_needed(cidr)) {
        repairs.push_back(Cat("address ", cidr, " of bridge ", Quoted(gateway.name)));
      }
    }
  }
  return repairs;
}

}  // namespace nomad_bridge::link
