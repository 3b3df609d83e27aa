// Writes netlink requests, and reads replies and their attributes. Private to netlink/.
//
// Layout  | nlmsghdr | the family's fixed header | attribute | attribute ... |. An attribute is a
//         length, a type, and a value padded to four bytes. The value may itself be a sequence of
//         attributes (a nest).
// Order   Numbers are in host byte order, except in functions whose names end in Be: nfnetlink uses
//         network byte order.
// Errors  kInternal if a request has more than 1,000 bytes.
// Owns    Message and Reply own their bytes; Attributes and HeadOf() point into a message.
// Source  netlink(7), libnl's attr.h and msg.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/ip.h"
#include "netlink/core/handles.h"

namespace nomad_bridge::netlink {

class Message {
 public:
  // `type` and `flags` as in nlmsghdr; NLM_F_REQUEST is added.
  Message(int type, int flags);
  // Also puts the fixed header of the request's family.
  template <typename Header>
  Message(int type, int flags, const Header& header) : Message(type, flags) {
    Head(header);
  }

  // Puts the fixed header that follows nlmsghdr (or opens a nest), before any attribute.
  template <typename Header>
  void Head(const Header& header) {
    Append(std::as_bytes(std::span(&header, 1)));
  }
  void PutU8(int attribute, std::uint8_t value) { Put(attribute, &value, sizeof value); }
  void PutU16(int attribute, std::uint16_t value) { Put(attribute, &value, sizeof value); }
  void PutU32(int attribute, std::uint32_t value) { Put(attribute, &value, sizeof value); }
  // Appends a zero byte, which the kernel expects after names; PutBytes() appends none.
  void PutText(int attribute, const std::string& text);
  void PutBytes(int attribute, std::span<const std::uint8_t> bytes) {
    Put(attribute, bytes.data(), bytes.size());
  }

  [[nodiscard]] nl_msg* get() const { return message_.get(); }
  // libnftnl appends its attributes behind this header.
  [[nodiscard]] nlmsghdr* header() const { return nlmsg_hdr(message_.get()); }

 private:
  void Append(std::span<const std::byte> bytes);
  void Put(int attribute, const void* value, std::size_t bytes);

  NlMessage message_;
};

// A message of an nfnetlink subsystem (NFNL_SUBSYS_...), with its fixed header.
[[nodiscard]] Message NetfilterMessage(int subsystem, int type, int flags, std::uint8_t family);

// A nested attribute. Everything that is put into the message while the Nest exists goes inside it,
// so C++ scopes mirror the nesting.
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
  // The attributes after a fixed header of `header_size` bytes.
  Attributes(const nlmsghdr* message, std::size_t header_size);

  // Returns the value as a T if it has that size.
  template <typename T>
  [[nodiscard]] std::optional<T> Number(int attribute) const {
    const std::span<const std::uint8_t> bytes = Bytes(attribute);
    T value{};
    if (bytes.size() != sizeof(T)) {
      return std::nullopt;
    }
    std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }
  [[nodiscard]] auto U8(int attribute) const { return Number<std::uint8_t>(attribute); }
  [[nodiscard]] auto U16(int attribute) const { return Number<std::uint16_t>(attribute); }
  [[nodiscard]] auto U32(int attribute) const { return Number<std::uint32_t>(attribute); }
  [[nodiscard]] std::optional<std::uint16_t> U16Be(int attribute) const;
  [[nodiscard]] std::optional<Ip> Address(int attribute) const;
  // Returns the text up to the final zero; empty if absent.
  [[nodiscard]] std::string Text(int attribute) const;
  // Returns the raw value; empty if absent.
  [[nodiscard]] std::span<const std::uint8_t> Bytes(int attribute) const;
  // Returns the attributes nested in this attribute; none if it is absent.
  [[nodiscard]] Attributes Inside(int attribute) const;
  // Returns the insides of all attributes of that type, in order, for lists.
  [[nodiscard]] std::vector<Attributes> InsideEach(int attribute) const;

  // Returns the attributes in `bytes`.
  [[nodiscard]] static Attributes Of(std::span<const std::uint8_t> bytes);

 private:
  const nlattr* first_ = nullptr;
  int size_ = 0;
};

// Returns the family's fixed header of `message`; nullptr if the message is too short.
template <typename Header>
[[nodiscard]] const Header* HeadOf(const nlmsghdr* message) {
  return nlmsg_valid_hdr(message, sizeof(Header)) != 0
             ? static_cast<const Header*>(nlmsg_data(message))
             : nullptr;
}

// How the kernel answered a request. Moves only: each message has one owner.
struct Reply {
  int error = 0;      // positive errno; 0: success; EPROTO: the kernel's value is no errno
  std::string words;  // what the kernel said about the error (extended ack); often nothing
  std::vector<NlMessage> messages;

  // Adds a copy.
  void Add(nlmsghdr& message);
  // Sets `error` and `words` from an NLMSG_ERROR or NLMSG_DONE.
  void ReadOutcome(const nlmsghdr& message);
  // "IPv6 is disabled on this device (EACCES)": the kernel's words, or else strerror's.
  [[nodiscard]] std::string Details() const { return ErrnoText(error, words); }
};

// Calls `read` with each message of a datagram. A negative `size` means that there is no datagram.
template <typename Read>
void ForEachIn(char* datagram, ssize_t size, const Read& read) {
  int left = static_cast<int>(size);
  for (auto* message = static_cast<nlmsghdr*>(static_cast<void*>(datagram));
       nlmsg_ok(message, left) != 0;
       message = nlmsg_next(message, &left)) {
    read(*message);
  }
}

// Calls `read` with the fixed header and the attributes of each message whose header is whole.
template <typename Header, typename Read>
void ForEachMessage(const Reply& reply, const Read& read) {
  for (const NlMessage& message : reply.messages) {
    const nlmsghdr* const header = nlmsg_hdr(message.get());
    if (const Header* const head = HeadOf<Header>(header)) {
      read(*head, Attributes(header, sizeof(Header)));
    }
  }
}

// Returns kKernel: the kernel refused `what` with `reply`.
[[nodiscard]] Error NetlinkError(std::string what, const Reply& reply);

}  // namespace nomad_bridge::netlink
