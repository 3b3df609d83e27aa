#include "base/ip.h"

#include <algorithm>
#include <cassert>
#include <charconv>
#include <iterator>

#include <arpa/inet.h>
#include <netinet/in.h>

#include "base/text.h"

namespace nomad_bridge {
namespace {

constexpr std::size_t kIpv4Bytes = 4;
constexpr std::size_t kIpv6Bytes = 16;
constexpr std::array<std::uint8_t, 12> kMappedPrefix = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

// Returns `ip` with every bit after the first `prefix_length` bits set to `bit`.
Ip WithHostBits(const Ip& ip, int prefix_length, bool bit) {
  std::array<std::uint8_t, kIpv6Bytes> bytes{};
  std::ranges::copy(ip.bytes(), bytes.begin());
  for (int i = prefix_length; i < ip.bits(); ++i) {
    const auto mask = static_cast<std::uint8_t>(0x80 >> (i % 8));
    std::uint8_t& byte = bytes[static_cast<std::size_t>(i / 8)];
    byte = static_cast<std::uint8_t>(bit ? byte | mask : byte & ~mask);
  }
  return Ip(std::span(bytes).first(ip.bytes().size()));
}

// Returns the MAC with the bytes 0a, `second`, and the lowest four bytes of `rest`.
Mac Local(std::uint8_t second, std::uint64_t rest) {
  const auto byte = [&](int at) { return static_cast<std::uint8_t>(rest >> (at * 8)); };
  return {{0x0a, second, byte(3), byte(2), byte(1), byte(0)}};
}

}  // namespace

Ip::Ip(std::span<const std::uint8_t> bytes) {
  assert(bytes.size() == kIpv4Bytes || bytes.size() == kIpv6Bytes);
  if (bytes.size() == kIpv6Bytes &&
      std::ranges::equal(kMappedPrefix, bytes.first(kMappedPrefix.size()))) {
    bytes = bytes.last(kIpv4Bytes);
  }
  family_ = bytes.size() == kIpv4Bytes ? Family::kIpv4 : Family::kIpv6;
  std::ranges::copy(bytes, bytes_.begin());
}

std::optional<Ip> Ip::Parse(std::string_view text) {
  const std::string copy(text);  // for inet_pton, which needs a terminator
  if (copy.find('\0') != std::string::npos) {
    return std::nullopt;
  }
  std::array<std::uint8_t, kIpv6Bytes> bytes{};
  if (::inet_pton(AF_INET, copy.c_str(), bytes.data()) == 1) {
    return Ip(std::span(bytes).first(kIpv4Bytes));
  }
  if (::inet_pton(AF_INET6, copy.c_str(), bytes.data()) == 1) {
    return Ip(bytes);
  }
  return std::nullopt;
}

std::span<const std::uint8_t> Ip::bytes() const {
  return std::span(bytes_).first(is_ipv4() ? kIpv4Bytes : kIpv6Bytes);
}

std::string Ip::Text() const {
  if (is_ipv4()) {  // an ADD writes dozens, and inet_ntop() uses slow sprintf()
    return Cat(int{bytes_[0]}, '.', int{bytes_[1]}, '.', int{bytes_[2]}, '.', int{bytes_[3]});
  }
  std::array<char, INET6_ADDRSTRLEN> text{};
  ::inet_ntop(AF_INET6, bytes_.data(), text.data(), text.size());
  return text.data();
}

bool Ip::IsUnspecified() const {
  return std::ranges::count(bytes_, 0) == std::ssize(bytes_);
}

bool Ip::IsMulticast() const {
  return is_ipv4() ? (bytes_[0] & 0xf0) == 0xe0 : bytes_[0] == 0xff;
}

bool Ip::IsLoopback() const {
  return is_ipv4() ? bytes_[0] == 127 : Text() == "::1";
}

bool Ip::IsLinkLocal() const {
  return is_ipv4() ? bytes_[0] == 169 && bytes_[1] == 254
                   : bytes_[0] == 0xfe && (bytes_[1] & 0xc0) == 0x80;
}

Ip Ip::Plus(std::uint64_t steps) const {
  Ip sum = *this;
  std::uint64_t carry = steps;
  for (std::size_t i = bytes().size(); i-- > 0 && carry != 0;) {
    // The carry can be close to 2^64: add only its lowest byte, or the sum overflows.
    const std::uint64_t low = (carry & 0xff) + bytes_[i];
    sum.bytes_[i] = static_cast<std::uint8_t>(low);
    carry = (carry >> 8) + (low >> 8);
  }
  return sum;
}

std::optional<Cidr> Cidr::Parse(std::string_view text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) {
    return std::nullopt;
  }
  const std::optional<Ip> ip = Ip::Parse(text.substr(0, slash));
  const std::optional<std::uint8_t> length = FindNumber<std::uint8_t>(text.substr(slash + 1));
  if (!ip || !length || *length > ip->bits()) {
    return std::nullopt;
  }
  return Cidr{*ip, *length};
}

Ip Cidr::Network() const {
  return WithHostBits(address, prefix_length, false);
}

Ip Cidr::Last() const {
  return WithHostBits(address, prefix_length, true);
}

bool Cidr::Contains(const Ip& ip) const {
  return ip.family() == address.family() && ip >= Network() && ip <= Last();
}

bool Cidr::Overlaps(const Cidr& other) const {
  return Contains(other.Network()) || other.Contains(Network());
}

std::string Cidr::Text() const {
  return Cat(address, '/', prefix_length);
}

std::optional<Mac> Mac::Parse(std::string_view text) {
  constexpr std::size_t kTextLength = 17;
  if (text.size() != kTextLength) {
    return std::nullopt;
  }
  Mac mac;
  for (std::size_t i = 0; i < mac.bytes.size(); ++i) {
    const char* const at = text.data() + 3 * i;
    const auto [end, error] = std::from_chars(at, at + 2, mac.bytes[i], 16);
    const bool separated = i == 5 || ((at[2] == ':' || at[2] == '-') && at[2] == text[2]);
    if (error != std::errc() || end != at + 2 || !separated) {
      return std::nullopt;
    }
  }
  return mac;
}

Mac Mac::For(const Ip& ip) {
  if (ip.is_ipv4()) {
    const auto bytes = ip.bytes();
    return {{0x0a, 0x58, bytes[0], bytes[1], bytes[2], bytes[3]}};
  }
  return Local(0x59, StableHash(ip.Text()));
}

bool HasFamily(const std::vector<Cidr>& cidrs, Family family) {
  return std::ranges::any_of(cidrs,
                             [&](const Cidr& cidr) { return cidr.address.family() == family; });
}

std::string Bracketed(const Ip& ip) {
  return ip.is_ipv4() ? ip.Text() : Cat('[', ip, ']');
}

std::vector<Ip> AddressesOnly(const std::vector<Cidr>& cidrs) {
  std::vector<Ip> addresses;
  std::ranges::transform(cidrs, std::back_inserter(addresses), &Cidr::address);
  return addresses;
}

Ip Mac::LinkLocal() const {
  constexpr std::uint8_t kUniversalBit = 0x02;
  std::array<std::uint8_t, kIpv6Bytes> address = {0xfe, 0x80};
  address[11] = 0xff;
  address[12] = 0xfe;
  std::copy_n(bytes.begin(), 3, address.begin() + 8);
  std::copy_n(bytes.begin() + 3, 3, address.begin() + 13);
  address[8] ^= kUniversalBit;
  return Ip(address);
}

Mac Mac::ForName(std::string_view name) {
  return Local(0x5a, StableHash(name));
}

std::string Mac::Text() const {
  return Joined(bytes, ":", [](std::uint8_t byte) { return Hex(byte, 2); });
}

}  // namespace nomad_bridge
