// What IPsec's policies let pass in a network namespace, in the clear or not at all.
//
// Shapes  Ports in host byte order.
// Limits  Policies of sockets and of xfrm interfaces are not looked at.
// Changes nothing: where the kernel has no xfrm_user, which opening a socket would load, there are
//         no policies.
// Errors  kKernel and kTryAgain
// Source  linux/xfrm.h; ip-xfrm(8)
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ip.h"
#include "netlink/core/netns.h"

namespace nomad_bridge::rtnl {

enum class XfrmWay : std::uint8_t { kIn, kOut, kForward };

// Packets; nullopt: of any address.
struct XfrmFlow {
  XfrmWay way = XfrmWay::kForward;
  Family family = Family::kIpv4;
  std::optional<Ip> source;
  std::optional<Ip> destination;
  std::uint8_t protocol = 0;  // IPPROTO_*
  std::uint16_t source_port = 0;
  std::uint16_t destination_port = 0;
};

struct XfrmPort {
  std::uint16_t number = 0;
  std::uint16_t mask = 0;  // 0: any
};

struct XfrmPolicy {
  XfrmWay way = XfrmWay::kForward;
  Family family = Family::kIpv4;
  Cidr source;
  Cidr destination;
  std::uint8_t protocol = 0;  // 0: any
  XfrmPort source_port;
  XfrmPort destination_port;
  bool asks_for_more = false;  // for a link, or for a mark
  std::uint32_t priority = 0;
  bool blocks = false;
  bool lacks_state = false;  // it asks for IPsec, and there is nobody to do that with
  bool is_default = false;   // of all that no other is about: ip xfrm policy setdefault

  // As ip-xfrm(8) takes it, if it is no default: "src 10.0.0.0/8 dst 0.0.0.0/0 dir fwd"
  [[nodiscard]] std::string Text() const;
};

class XfrmPolicies {
 public:
  [[nodiscard]] static XfrmPolicies In(const netlink::Netns& ns);

  // The policy that ends all packets of `flow`; nullptr: none is known to.
  [[nodiscard]] const XfrmPolicy* FindEnd(const XfrmFlow& flow) const;

 private:
  std::vector<XfrmPolicy> policies_;  // as the kernel asks them
};

// "fwd"
[[nodiscard]] std::string_view Text(XfrmWay way);

}  // namespace nomad_bridge::rtnl
