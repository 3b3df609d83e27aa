// A message of the kernel, cut and damaged, as far as our own code reads it: a link, an
// acknowledgement, any attributes. The last byte chooses which. Not those of nf_tables: libnftnl
// reads them, which trusts the kernel with lengths, final zeros and the presence of names.
#include <cstring>
#include <vector>

#include <linux/netlink.h>
#include <linux/rtnetlink.h>

#include "base/error.h"
#include "netlink/core/message.h"
#include "netlink/rtnl/rtnl_impl.h"
#include "tests/fuzz/fuzz.h"

namespace nomad_bridge {
namespace {

void ReadAttributes(const netlink::Attributes& attributes, int depth) {
  constexpr int kHighest = 64;
  for (int number = 0; number < kHighest; ++number) {
    static_cast<void>(attributes.U8(number));
    static_cast<void>(attributes.U16Be(number));
    static_cast<void>(attributes.Text(number));
    for (const netlink::Attributes& inside : attributes.InsideEach(number)) {
      if (depth > 0) {
        ReadAttributes(inside, depth - 1);
      }
    }
  }
}

void ReadAs(std::size_t kind, const nlmsghdr& message) {
  if (kind % 3 == 0) {
    static_cast<void>(rtnl::ReadLink(&message));
  } else if (kind % 3 == 1) {
    netlink::Reply reply;
    reply.ReadOutcome(message);
    static_cast<void>(reply.Details());
  } else if (netlink::HeadOf<rtmsg>(&message) != nullptr) {
    ReadAttributes(netlink::Attributes(&message, sizeof(rtmsg)), 2);
  }
}

}  // namespace

void fuzz::Run(std::string_view input) {
  if (input.size() < 1 + sizeof(nlmsghdr)) {
    return;  // the transport hands on whole headers
  }
  const std::size_t kind = TakeChoice(input);
  // Aligned, and with its true length: that, too, is what the transport guarantees.
  std::vector<std::uint32_t> buffer((input.size() + 3) / 4);
  std::memcpy(buffer.data(), input.data(), input.size());
  auto* const message = static_cast<nlmsghdr*>(static_cast<void*>(buffer.data()));
  message->nlmsg_len = static_cast<std::uint32_t>(input.size());
  try {
    ReadAs(kind, *message);
  } catch (const Error&) {
    return;  // a link's message was named as cut short
  }
}

}  // namespace nomad_bridge
