#include "plugin/takeover/dnat_rule.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"

namespace nomad_bridge::takeover {
namespace {

using Bytes = std::vector<std::uint8_t>;
using Words = std::vector<std::string>;

constexpr std::size_t kPortBytes = 2;

template <typename Number>
Number FromHex(std::string_view text) {
  Number number{};
  std::from_chars(text.data(), text.data() + text.size(), number, 16);
  return number;
}

// Returns the bytes of an extension of iptables, which the text shows one after the other.
Bytes BytesOfExtension(const Words& words) {
  Bytes bytes;
  const auto info = std::ranges::find(words, "info");
  if (words.end() - info < 2) {
    return bytes;
  }
  const std::string_view text = *(info + 1);
  for (std::size_t at = 0; at + 1 < text.size(); at += 2) {
    bytes.push_back(FromHex<std::uint8_t>(text.substr(at, 2)));
  }
  return bytes;
}

// Returns the bytes of a value, which the text shows as words of four bytes in the order of this
// machine.
Bytes BytesOfValue(const Words& words) {
  Bytes bytes;
  for (const std::string& word : words) {
    if (word.starts_with("0x")) {
      const auto number = FromHex<std::uint32_t>(std::string_view(word).substr(2));
      const std::size_t begin = bytes.size();
      bytes.resize(begin + sizeof number);
      std::memcpy(bytes.data() + begin, &number, sizeof number);
    }
  }
  return bytes;
}

std::span<const std::uint8_t> Part(const Bytes& bytes, std::size_t begin, std::size_t count) {
  return begin + count <= bytes.size() ? std::span(bytes).subspan(begin, count)
                                       : std::span<const std::uint8_t>();
}

// Returns a port in network byte order; 0 if it is missing.
std::uint16_t PortAt(const Bytes& bytes, std::size_t begin) {
  const auto part = Part(bytes, begin, kPortBytes);
  return part.empty() ? std::uint16_t{0} : static_cast<std::uint16_t>(part[0] << 8U | part[1]);
}

class Reader {
 public:
  explicit Reader(Family family) : family_(family) {}

  // `compared` are the bytes that the expression compares with.
  void Read(const std::string& expression, const Bytes& compared) {
    Words words = SplitFields(expression, " []");
    words.resize(std::max(words.size(), kLeastWords));
    const std::string& kind = words[0];
    if (kind == "meta" || kind == "payload") {
      loaded_ = expression;
    } else if (kind == "cmp" && words[1] == "eq") {
      Compare(compared);
    } else if (kind == "match") {
      ReadMatch(words[2], BytesOfExtension(words));
    } else if (kind == "target" && words[2] == "DNAT") {
      ReadTarget(words[4] == "0", BytesOfExtension(words));
    } else if (kind == "immediate") {
      registers_[words[2]] = BytesOfValue(words);
    } else if (kind == "nat" && words[1] == "dnat") {
      SetContainer(RegisterOf(words, "addr_min"), 0);
      entry_.container_port = PortAt(RegisterOf(words, "proto_min"), 0);
    }
  }

  [[nodiscard]] std::optional<portmap::DnatEntry> Entry() const {
    const bool is_whole = !Text(entry_.protocol).empty() && entry_.host_port != 0 &&
                          entry_.container_port != 0 && !entry_.container_ip.IsUnspecified();
    return is_whole ? std::optional(entry_) : std::nullopt;
  }

 private:
  static constexpr std::size_t kLeastWords = 5;  // "target name DNAT rev 2"

  void Compare(const Bytes& value) {
    const auto has_loaded = [&](std::string_view what) {
      return loaded_.find(what) != loaded_.npos;
    };
    const char* const destination = family_ == Family::kIpv4 ? "load 4b @ network header + 16 "
                                                             : "load 16b @ network header + 24 ";
    if (has_loaded("load l4proto ") && !value.empty()) {
      entry_.protocol = static_cast<Protocol>(value[0]);
    } else if (has_loaded("load 2b @ transport header + 2 ")) {
      entry_.host_port = PortAt(value, 0);
    } else if (has_loaded(destination)) {
      entry_.host_ip = AddressAt(value, 0);
    }
  }

  // struct xt_tcp and xt_udp begin with two ports of the source and two of the destination, in the
  // order of this machine; xt_sctp_info begins with those of the destination.
  void ReadMatch(std::string_view name, const Bytes& bytes) {
    const bool is_sctp = name == "sctp";
    const auto port = Part(bytes, is_sctp ? 0 : 2 * kPortBytes, kPortBytes);
    if ((is_sctp || name == "tcp" || name == "udp") && !port.empty()) {
      std::memcpy(&entry_.host_port, port.data(), kPortBytes);
    }
  }

  // struct nf_nat_range has flags, two addresses of 16 bytes, and the first port; revision 0 is the
  // older nf_nat_ipv4_multi_range_compat.
  void ReadTarget(bool is_older, const Bytes& bytes) {
    constexpr std::size_t kAddress = 4;
    constexpr std::size_t kPort = 36;
    constexpr std::size_t kOlderAddress = 8;
    constexpr std::size_t kOlderPort = 16;
    SetContainer(bytes, is_older ? kOlderAddress : kAddress);
    entry_.container_port = PortAt(bytes, is_older ? kOlderPort : kPort);
  }

  void SetContainer(const Bytes& bytes, std::size_t begin) {
    entry_.container_ip = AddressAt(bytes, begin).value_or(Ip());
  }

  [[nodiscard]] std::optional<Ip> AddressAt(const Bytes& bytes, std::size_t begin) const {
    const auto part = Part(bytes, begin, family_ == Family::kIpv4 ? 4 : 16);
    return part.empty() ? std::nullopt : std::optional(Ip(part));
  }

  // "addr_min reg 1"
  [[nodiscard]] Bytes RegisterOf(const Words& words, std::string_view name) const {
    const auto at = std::ranges::find(words, name);
    const auto found = words.end() - at > 2 ? registers_.find(*(at + 2)) : registers_.end();
    return found == registers_.end() ? Bytes() : found->second;
  }

  Family family_;
  std::string loaded_;                      // the last expression that loaded a value
  std::map<std::string, Bytes> registers_;  // by number
  portmap::DnatEntry entry_{.protocol = Protocol{}};
};

}  // namespace

std::optional<portmap::DnatEntry> ParseDnatRule(const nft::KernelRule& rule, Family family) {
  Reader reader(family);
  for (std::size_t i = 0; i < rule.expressions.size(); ++i) {
    reader.Read(rule.expressions[i], rule.compared[i]);
  }
  return reader.Entry();
}

}  // namespace nomad_bridge::takeover
