// What the tests of links share: the pieces they are made of, and how ip(8) sees them.
#pragma once

#include "netlink/core/netns.h"
#include "netlink/rtnl/rtnl.h"
#include "tests/support/world.h"

namespace nomad_bridge::test {

inline const Mac kBridgeMac = Mac::ForName("bridge");
inline const Mac kHostMac = Mac::ForName("host end");
inline const Mac kContainerMac = Mac::ForName("container end");

class RtnlWorld : public World {
 protected:
  rtnl::Link Bridge(const std::string& name = "br0") {
    host().Must({"ip", "link", "add", name, "type", "bridge"});
    host().Must({"ip", "link", "set", name, "up"});
    return net_.FindLink(name).value();
  }

  [[nodiscard]] rtnl::Link Port(const std::string& name) { return net_.FindLink(name).value(); }

  [[nodiscard]] static rtnl::VethSpec Spec(const rtnl::Link& bridge, int mtu = 0) {
    return {.host_name = "veth0",
            .host_mac = kHostMac,
            .bridge = bridge.index,
            .container_ifname = "eth0",
            .container_mac = kContainerMac,
            .mtu = mtu};
  }

  // Some link that is no bridge, down.
  void Add(const Node& node, const std::string& name) {
    node.Must({"ip", "link", "add", name, "type", "veth", "peer", "name", name + "-peer"});
  }

  // The same as a port of 'br0'.
  rtnl::Link AddPort(const std::string& name) {
    Add(host(), name);
    host().Must({"ip", "link", "set", name, "master", "br0"});
    return net_.FindLink(name).value();
  }

  // Puts `node` behind port `port` of 'br0', with an address.
  void Attach(const Node& node, const std::string& port, const std::string& ip) {
    host().Must(Words(Cat("ip link add ", port, " up master br0 type veth peer name eth0 netns ") +
                      node.name()));
    node.Must({"ip", "address", "add", Cat(ip, "/24"), "dev", "eth0"});
    node.Must({"ip", "link", "set", "eth0", "up"});
  }

  [[nodiscard]] static Process Shell(const std::string& script) {
    return Process::Start({.argv = {"sh", "-c", script}});
  }

  // The error that `act` throws.
  template <typename Act>
  [[nodiscard]] static Error Thrown(const Act& act) {
    Error error = Caught(act);
    EXPECT_THAT(error.what(), Not(HasSubstr("not found"))) << "go-cni takes that for success";
    return error;
  }

  netlink::Netns container_ns_ = netlink::Netns::Open(container().path());
  rtnl::Socket net_ = rtnl::Socket::In(netlink::Netns::Current());
  rtnl::Socket container_net_ = rtnl::Socket::In(container_ns_);
};

}  // namespace nomad_bridge::test
