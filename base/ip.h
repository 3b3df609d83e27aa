// Addresses as plain values: Ip, Cidr and Mac.
//
// Shapes     Ip    4 or 16 bytes, network byte order. An IPv4-mapped IPv6 address
//                  ("::ffff:10.0.0.1") becomes IPv4, as in Go.
//            Cidr  an address with its prefix length; host bits are kept ("10.0.0.5/24")
//            Mac   6 bytes
// Errors     Parse() returns nullopt for an invalid string; the caller knows the key's name and
//            throws.
// Ownership  plain values
// Source     RFC 4291; RFC 5952, which inet_ntop(3) prints.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nomad_bridge {

enum class Family { kIpv4, kIpv6 };

class Ip {
 public:
  // 0.0.0.0, so that structs of addresses can be filled member by member.
  Ip() = default;
  // 4 or 16 bytes, network byte order; any other size is a bug.
  explicit Ip(std::span<const std::uint8_t> bytes);
  [[nodiscard]] static std::optional<Ip> Parse(std::string_view text);

  [[nodiscard]] Family family() const { return family_; }
  [[nodiscard]] bool is_ipv4() const { return family_ == Family::kIpv4; }
  // 32 or 128.
  [[nodiscard]] int bits() const { return is_ipv4() ? 32 : 128; }
  [[nodiscard]] std::span<const std::uint8_t> bytes() const;
  [[nodiscard]] std::string Text() const;

  [[nodiscard]] bool IsUnspecified() const;
  [[nodiscard]] bool IsMulticast() const;
  [[nodiscard]] bool IsLoopback() const;
  [[nodiscard]] bool IsLinkLocal() const;

  // Returns the address `steps` after this one. Wraps around at the end of the family's space.
  [[nodiscard]] Ip Plus(std::uint64_t steps) const;

  // Orders by family (IPv4 first), then numerically.
  auto operator<=>(const Ip&) const = default;

 private:
  Family family_ = Family::kIpv4;
  std::array<std::uint8_t, 16> bytes_{};  // IPv4 uses the first four
};

struct Cidr {
  Ip address;
  int prefix_length = 0;

  // "10.0.0.5/24"; the prefix length is required.
  [[nodiscard]] static std::optional<Cidr> Parse(std::string_view text);
  // Returns the address as a prefix of its own: /32 or /128.
  [[nodiscard]] static Cidr Host(const Ip& ip) { return {ip, ip.bits()}; }

  // All host bits zero.
  [[nodiscard]] Ip Network() const;
  // All host bits one: IPv4's broadcast address.
  [[nodiscard]] Ip Last() const;
  [[nodiscard]] bool Contains(const Ip& ip) const;
  [[nodiscard]] bool Overlaps(const Cidr& other) const;
  [[nodiscard]] std::string Text() const;

  auto operator<=>(const Cidr&) const = default;
};

// Returns the address as it is written before a port: IPv6 in brackets.
[[nodiscard]] std::string Bracketed(const Ip& ip);

// Returns the addresses without their prefix lengths.
[[nodiscard]] std::vector<Ip> AddressesOnly(const std::vector<Cidr>& cidrs);

[[nodiscard]] bool HasFamily(const std::vector<Cidr>& cidrs, Family family);

struct Mac {
  std::array<std::uint8_t, 6> bytes{};

  // "02:42:ac:1a:40:02" (':' or '-' between the bytes).
  [[nodiscard]] static std::optional<Mac> Parse(std::string_view text);
  // Returns the MAC of an interface with `ip`: 0a:58 and the four bytes of an IPv4 address; for
  // IPv6 0a:59 and four bytes of a hash. The MAC is derived from the address, so that neighbours'
  // caches stay valid when the address is used again.
  [[nodiscard]] static Mac For(const Ip& ip);
  // Returns the MAC of an interface without an address (a host veth, a bridge), derived from its
  // name.
  [[nodiscard]] static Mac ForName(std::string_view name);

  // Returns the link-local IPv6 address that the kernel derives from it (RFC 4291, appendix A).
  [[nodiscard]] Ip LinkLocal() const;
  // Returns whether an interface can have this MAC: it is neither multicast nor all zero.
  [[nodiscard]] bool IsUnicast() const { return (bytes[0] & 1) == 0 && *this != Mac{}; }
  [[nodiscard]] std::string Text() const;

  auto operator<=>(const Mac&) const = default;
};

}  // namespace nomad_bridge
