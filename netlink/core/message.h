// Netlink messages, written and read: the bytes of one request, the attributes of one answer.
// Private to netlink/.
//
// Layout  | nlmsghdr | the family's fixed header | attribute | attribute ... |; an attribute is a
//         length, a type, and a value padded to four bytes, which may again be a row of attributes
//         (a nest).
// Order   Numbers are in host byte order, but for the ...Be ones: nfnetlink speaks network byte
//         order.
// Errors  kInternal if a request outgrows its page: no caller has that much to say.
// Source  netlink(7), libnl's attr.h and msg.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "netlink/core/handles.h"

namespace nomad_bridge::netlink {

class Message {
 public:
  // `type` and `flags` as in nlmsghdr; NLM_F_REQUEST is added.
  Message(int type, int flags);

  // The fixed header that follows nlmsghdr (or opens a nest), before any attribute.
  template <typename Header>
  void Head(const Header& header) {
    Append(std::as_bytes(std::span(&header, 1)));
  }
  void PutU8(int attribute, std::uint8_t value);
  void PutU16(int attribute, std::uint16_t value);
  void PutU32(int attribute, std::uint32_t value);
  void PutU16Be(int attribute, std::uint16_t value);
  // With the final zero that the kernel's names have; PutBytes writes none.
  void PutText(int attribute, const std::string& text);
  void PutBytes(int attribute, std::span<const std::uint8_t> bytes);

  [[nodiscard]] nl_msg* get() const { return message_.get(); }
  [[nodiscard]] int flags() const { return nlmsg_hdr(message_.get())->nlmsg_flags; }

 private:
  void Append(std::span<const std::byte> bytes);

  NlMessage message_;
};

// While a Nest lives, what is put into its message is put inside it: C++ scopes mirror the
// attributes.
class Nest {
 public:
  // `message` must outlive the nest.
  Nest(const Message& message, int attribute);
  Nest(const Nest&) = delete;
  Nest& operator=(const Nest&) = delete;
  ~Nest();

 private:
  nl_msg* message_;
  nlattr* start_;
};

// A view of attributes; the message must outlive it. A value of the wrong size counts as absent.
class Attributes {
 public:
  Attributes() = default;
  // Those after a fixed header of `header_size` bytes.
  Attributes(const nlmsghdr* message, std::size_t header_size);

  [[nodiscard]] std::optional<std::uint8_t> U8(int attribute) const;
  [[nodiscard]] std::optional<std::uint32_t> U32(int attribute) const;
  [[nodiscard]] std::optional<std::uint16_t> U16(int attribute) const;
  [[nodiscard]] std::optional<std::uint16_t> U16Be(int attribute) const;
  // Up to the final zero; empty if absent.
  [[nodiscard]] std::string Text(int attribute) const;
  // The raw value; empty if absent.
  [[nodiscard]] std::span<const std::uint8_t> Bytes(int attribute) const;
  // No attributes if absent.
  [[nodiscard]] Attributes Inside(int attribute) const;
  // For lists: the insides of all of that type, in order.
  [[nodiscard]] std::vector<Attributes> InsideEach(int attribute) const;

  // Those in `bytes`.
  [[nodiscard]] static Attributes Of(std::span<const std::uint8_t> bytes);

 private:
  const nlattr* first_ = nullptr;
  int size_ = 0;
};

// The family's fixed header of `message`; nullptr if it is cut short.
template <typename Header>
[[nodiscard]] const Header* HeadOf(const nlmsghdr* message) {
  return nlmsg_valid_hdr(message, sizeof(Header)) != 0
             ? static_cast<const Header*>(nlmsg_data(message))
             : nullptr;
}

}  // namespace nomad_bridge::netlink
