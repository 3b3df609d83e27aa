#include "netlink/core/message.h"

#include <cerrno>
#include <new>
#include <utility>

#include <endian.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <netlink/attr.h>

#include "base/text.h"
#include "netlink/core/request_socket.h"

namespace nomad_bridge::netlink {
namespace {

constexpr int kMaxErrno = 4095;  // the kernel's MAX_ERRNO
// libnl's default is a page. glibc serves up to 1,032 bytes from a cache; a larger allocation takes
// longer than everything else in a request.
constexpr std::size_t kRoom = 1000;

void RequireRoom(bool there_was) {
  if (!there_was) {
    throw Error(Code::kInternal, Format("a netlink request has more than {} bytes", kRoom));
  }
}

}  // namespace

Message::Message(int type, int flags) : message_(nlmsg_alloc_size(kRoom)) {
  RequireRoom(message_ != nullptr);
  header()->nlmsg_type = static_cast<std::uint16_t>(type);
  header()->nlmsg_flags = static_cast<std::uint16_t>(NLM_F_REQUEST | flags);
}

void Message::Append(std::span<const std::byte> bytes) {
  void* const room = nlmsg_reserve(message_.get(), bytes.size(), NLMSG_ALIGNTO);
  RequireRoom(room != nullptr);
  std::memcpy(room, bytes.data(), bytes.size());
}

void Message::PutText(int attribute, const std::string& text) {
  RequireRoom(nla_put_string(message_.get(), attribute, text.c_str()) == 0);
}

void Message::Put(int attribute, const void* value, std::size_t bytes) {
  RequireRoom(nla_put(message_.get(), attribute, static_cast<int>(bytes), value) == 0);
}

Message NetfilterMessage(int subsystem, int type, int flags, std::uint8_t family) {
  Message message(subsystem << 8 | type, flags);
  message.Head(nfgenmsg{.nfgen_family = family, .version = NFNETLINK_V0, .res_id = 0});
  return message;
}

Nest::Nest(const Message& message, int attribute)
    : message_(message.get()), start_(nla_nest_start(message_, NLA_F_NESTED | attribute)) {
  RequireRoom(start_ != nullptr);
}

Nest::~Nest() {
  nla_nest_end(message_, start_);
}

Attributes::Attributes(const nlmsghdr* message, std::size_t header_size)
    : first_(nlmsg_attrdata(message, static_cast<int>(header_size))),
      size_(nlmsg_attrlen(message, static_cast<int>(header_size))) {}

Attributes Attributes::Of(std::span<const std::uint8_t> bytes) {
  Attributes attributes;
  attributes.first_ = static_cast<const nlattr*>(static_cast<const void*>(bytes.data()));
  attributes.size_ = static_cast<int>(bytes.size());
  return attributes;
}

std::span<const std::uint8_t> Attributes::Bytes(int attribute) const {
  const nlattr* const found = size_ > 0 ? nla_find(first_, size_, attribute) : nullptr;
  if (found == nullptr) {
    return {};
  }
  return {static_cast<const std::uint8_t*>(nla_data(found)),
          static_cast<std::size_t>(nla_len(found))};
}

std::optional<std::uint16_t> Attributes::U16Be(int attribute) const {
  const std::optional<std::uint16_t> value = U16(attribute);
  return value ? std::optional(be16toh(*value)) : std::nullopt;
}

std::optional<Ip> Attributes::Address(int attribute) const {
  const std::span<const std::uint8_t> bytes = Bytes(attribute);
  return bytes.size() == 4 || bytes.size() == 16 ? std::optional(Ip(bytes)) : std::nullopt;
}

std::string Attributes::Text(int attribute) const {
  const std::span<const std::uint8_t> bytes = Bytes(attribute);
  std::string text(bytes.begin(), bytes.end());
  return text.substr(0, text.find('\0'));
}

Attributes Attributes::Inside(int attribute) const {
  return Of(Bytes(attribute));
}

std::vector<Attributes> Attributes::InsideEach(int attribute) const {
  std::vector<Attributes> found;
  int left = size_;
  for (const nlattr* next = first_; left > 0 && nla_ok(next, left) != 0;
       next = nla_next(next, &left)) {
    if (nla_type(next) == attribute) {
      found.push_back(Of({static_cast<const std::uint8_t*>(nla_data(next)),
                          static_cast<std::size_t>(nla_len(next))}));
    }
  }
  return found;
}

void Reply::Add(nlmsghdr& message) {
  messages.emplace_back(nlmsg_convert(&message));
  if (messages.back() == nullptr) {
    throw std::bad_alloc();
  }
}

// NLMSG_DONE carries an errno if a dump failed midway. With NETLINK_CAP_ACK, NLMSG_ERROR repeats
// only the header of the request, so its attributes follow nlmsgerr at once.
void Reply::ReadOutcome(const nlmsghdr& message) {
  const int* const outcome = HeadOf<int>(&message);
  if (outcome != nullptr) {
    const bool is_errno = *outcome <= 0 && *outcome >= -kMaxErrno;
    error = is_errno ? -*outcome : EPROTO;
  }
  if ((message.nlmsg_flags & NLM_F_ACK_TLVS) != 0) {
    const std::size_t fixed = message.nlmsg_type == NLMSG_DONE ? sizeof(int) : sizeof(nlmsgerr);
    words = Attributes(&message, fixed).Text(NLMSGERR_ATTR_MSG);
  }
}

Error NetlinkError(std::string what, const Reply& reply) {
  const bool is_forbidden = (reply.error == EPERM || reply.error == EACCES) && reply.words.empty();
  return {Code::kKernel,
          std::move(what),
          is_forbidden ? Cat(reply.Details(), ": CAP_NET_ADMIN is missing") : reply.Details(),
          is_forbidden ? Fix::Advice("run this, and Nomad's agent, with all capabilities of root")
                       : Fix()};
}

}  // namespace nomad_bridge::netlink
