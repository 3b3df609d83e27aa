#include <algorithm>
#include <cerrno>
#include <iterator>

#include <linux/if_addr.h>
#include <linux/rtnetlink.h>

#include "base/error.h"
#include "base/text.h"
#include "netlink/rtnl/rtnl_impl.h"

namespace nomad_bridge::rtnl {
namespace {

// The longest prefix of an IPv4 network that has a broadcast address.
constexpr int kMaxPrefixWithBroadcast = 30;

netlink::Message AddressMessage(int type, int flags, const Link& link, const Cidr& address) {
  netlink::Message message(type, flags);
  const int scope = address.address.IsLoopback() ? RT_SCOPE_HOST : RT_SCOPE_UNIVERSE;
  message.Head(ifaddrmsg{.ifa_family = FamilyOf(address.address),
                         .ifa_prefixlen = static_cast<unsigned char>(address.prefix_length),
                         .ifa_scope = static_cast<unsigned char>(scope),
                         .ifa_index = static_cast<unsigned int>(link.index)});
  message.PutBytes(IFA_LOCAL, address.address.bytes());
  message.PutBytes(IFA_ADDRESS, address.address.bytes());
  return message;
}

// Adds a reason for IPv6 addresses: older kernels refuse them with an errno and no message.
Error AddressError(const std::string& what, const Cidr& address, netlink::Reply reply) {
  if (!address.address.is_ipv4() && reply.words.empty()) {
    if (reply.error == EACCES) {
      reply.words = "IPv6 is disabled on this device";
    } else if (reply.error == EOPNOTSUPP || reply.error == EAFNOSUPPORT) {
      reply.words = "this kernel has no IPv6, or has it switched off at boot";
    }
  }
  return netlink::NetlinkError(what, reply);
}

// On a point-to-point link, IFA_ADDRESS is the address of the other end, and IFA_LOCAL is ours.
std::optional<Ip> OwnAddress(const netlink::Attributes& attributes) {
  const std::optional<Ip> local = attributes.Address(IFA_LOCAL);
  return local ? local : attributes.Address(IFA_ADDRESS);
}

}  // namespace

std::vector<AddressState> AddressStates(netlink::RequestSocket& socket, const Link& link) {
  const auto index = static_cast<unsigned int>(link.index);
  netlink::Message request(
      RTM_GETADDR, NLM_F_DUMP, ifaddrmsg{.ifa_family = AF_UNSPEC, .ifa_index = index});
  const netlink::Reply reply =
      socket.TransactOrThrow(request, Format("cannot list the addresses of '{}'", link.name));
  std::vector<AddressState> states;
  const auto read = [&](const ifaddrmsg& head, const netlink::Attributes& attributes) {
    const std::optional<Ip> ip = OwnAddress(attributes);
    // Kernels before 4.20 list the addresses of all links, and a dump of all families also lists
    // addresses of MCTP and others.
    if (ip && head.ifa_index == index && head.ifa_family == FamilyOf(*ip)) {
      const std::uint32_t flags = attributes.U32(IFA_FLAGS).value_or(head.ifa_flags);
      states.push_back({.address = {*ip, head.ifa_prefixlen},
                        .tentative = (flags & IFA_F_TENTATIVE) != 0,
                        .duplicate = (flags & IFA_F_DADFAILED) != 0});
    }
  };
  netlink::ForEachMessage<ifaddrmsg>(reply, read);
  return states;
}

std::vector<Cidr> Socket::Addresses(const Link& link) {
  std::vector<Cidr> addresses;
  std::ranges::transform(
      AddressStates(socket_, link), std::back_inserter(addresses), &AddressState::address);
  return addresses;
}

std::set<Ip> Socket::AllAddresses() {
  std::set<Ip> all;
  for (const auto& [link, addresses] : AddressesByLink()) {
    std::ranges::transform(addresses, std::inserter(all, all.end()), &Cidr::address);
  }
  return all;
}

std::map<int, std::vector<Cidr>> Socket::AddressesByLink() {
  netlink::Message request(RTM_GETADDR, NLM_F_DUMP, ifaddrmsg{.ifa_family = AF_UNSPEC});
  std::map<int, std::vector<Cidr>> addresses;
  netlink::ForEachMessage<ifaddrmsg>(
      socket_.TransactOrThrow(request, "cannot list addresses"),
      [&](const ifaddrmsg& head, const netlink::Attributes& attributes) {
        if (const std::optional<Ip> ip = OwnAddress(attributes)) {
          addresses[static_cast<int>(head.ifa_index)].push_back({*ip, head.ifa_prefixlen});
        }
      });
  return addresses;
}

std::set<int> Socket::LinksWithLearntAddresses() {
  netlink::Message request(RTM_GETADDR, NLM_F_DUMP, ifaddrmsg{.ifa_family = AF_INET6});
  std::set<int> links;
  netlink::ForEachMessage<ifaddrmsg>(
      socket_.TransactOrThrow(request, "cannot list IPv6 addresses"),
      [&](const ifaddrmsg& head, const netlink::Attributes& attributes) {
        const std::uint32_t flags = attributes.U32(IFA_FLAGS).value_or(head.ifa_flags);
        if (head.ifa_family == AF_INET6 && head.ifa_scope == RT_SCOPE_UNIVERSE &&
            (flags & IFA_F_PERMANENT) == 0) {
          links.insert(static_cast<int>(head.ifa_index));
        }
      });
  return links;
}

void Socket::EnsureAddress(const Link& link, const Cidr& address) {
  AssignAddress(link, address, false);
  if (!address.address.is_ipv4()) {
    AwaitLocal(link, address.address, FromNow(kTimeout));
  }
}

void Socket::AssignAddress(const Link& link, const Cidr& address, bool detect_duplicates) {
  netlink::Message message =
      AddressMessage(RTM_NEWADDR, NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL, link, address);
  if (address.address.is_ipv4() && address.prefix_length <= kMaxPrefixWithBroadcast) {
    message.PutBytes(IFA_BROADCAST, address.Last().bytes());
  }
  if (!address.address.is_ipv4() && !detect_duplicates) {
    // Detection takes a second or more, and our addresses are unique by their lease.
    message.PutU32(IFA_FLAGS, IFA_F_NODAD);
  }
  const std::string what = Format("cannot add {} to '{}'", address, link.name);
  netlink::Reply reply = socket_.Transact(message, what);
  if (reply.error != 0 && reply.error != EEXIST) {
    throw AddressError(what, address, std::move(reply));
  }
  // For IPv6, the kernel also answers EEXIST if the address exists with another prefix length.
  if (reply.error != 0 && std::ranges::count(Addresses(link), address) == 0) {
    throw netlink::NetlinkError(Cat(what, ": it is there with another prefix length"), reply);
  }
}

void Socket::EnsureAddressGone(const Link& link, const Cidr& address) {
  socket_.TransactOrThrow(AddressMessage(RTM_DELADDR, NLM_F_ACK, link, address),
                          Format("cannot remove {} from '{}'", address, link.name),
                          {EADDRNOTAVAIL, ENODEV});
}

}  // namespace nomad_bridge::rtnl
