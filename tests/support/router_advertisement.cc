#include "tests/support/router_advertisement.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace nomad_bridge::test {

bool AdvertiseRouter(const Node& from, const std::string& ifname, const std::string& prefix) {
  bool is_sent = false;
  from.Do([&] {
    const UniqueFd fd(::socket(AF_INET6, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMPV6));
    constexpr int kHops = 255;  // others are ignored
    struct {
      nd_router_advert router;
      nd_opt_prefix_info prefix;
    } advert{};
    advert.router.nd_ra_type = ND_ROUTER_ADVERT;
    advert.router.nd_ra_router_lifetime = htons(1800);
    advert.prefix = {.nd_opt_pi_type = ND_OPT_PREFIX_INFORMATION,
                     .nd_opt_pi_len = sizeof advert.prefix / 8,
                     .nd_opt_pi_prefix_len = 64,
                     .nd_opt_pi_flags_reserved = ND_OPT_PI_FLAG_ONLINK | ND_OPT_PI_FLAG_AUTO,
                     .nd_opt_pi_valid_time = htonl(1800),
                     .nd_opt_pi_preferred_time = htonl(1800)};
    ::inet_pton(AF_INET6, prefix.c_str(), &advert.prefix.nd_opt_pi_prefix);
    sockaddr_in6 all_nodes{.sin6_family = AF_INET6,
                           .sin6_scope_id = ::if_nametoindex(ifname.c_str())};
    ::inet_pton(AF_INET6, "ff02::1", &all_nodes.sin6_addr);
    ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_MULTICAST_HOPS, &kHops, sizeof kHops);
    is_sent = ::sendto(fd.get(),
                       &advert,
                       prefix.empty() ? sizeof advert.router : sizeof advert,
                       0,
                       reinterpret_cast<const sockaddr*>(&all_nodes),
                       sizeof all_nodes) >= 0;
    if (!is_sent && errno != EADDRNOTAVAIL) {
      throw std::runtime_error(Cat("cannot send a router advertisement: ", ErrnoText(errno)));
    }
  });
  return is_sent;
}

}  // namespace nomad_bridge::test
