// The least that the kernel takes for an attachment: a plugin that makes, reads and removes the
// kernel objects of one and does nothing else. No config is parsed, no lease and no record written,
// nothing is repaired or waited for, and a second attachment at the same time is not possible.
//
// Needs   the bridge "nomad" and our tables, as an ADD of nomad-bridge leaves them
// Env     CNI_COMMAND, CNI_NETNS
#include <cstdlib>
#include <iostream>
#include <string>

#include <net/if.h>

#include "base/error.h"
#include "firewall/table.h"
#include "netlink/core/netns.h"
#include "netlink/core/sysctl.h"
#include "netlink/nft/batch.h"
#include "netlink/nft/socket.h"
#include "netlink/rtnl/rtnl.h"
#include "plugin/rules/elements.h"
#include "plugin/state/kernel_names.h"
#include "plugin/state/record.h"

namespace nomad_bridge::bench {
namespace {

constexpr const char* kAddress = "172.26.79.254";  // the last one of the subnet: nobody else has it

Cidr Address() {
  return {Ip::Parse(kAddress).value(), 20};
}

// What nomad-bridge would write for it, with one port for tcp and udp.
state::Record Attachment() {
  state::Record record;
  record.id = {.network = "nomad", .container_id = "floor", .ifname = "eth0"};
  for (const cni::Part part :
       {cni::Part::kLink, cni::Part::kMasquerade, cni::Part::kForward, cni::Part::kPorts}) {
    record.parts[part] = state::Phase::kLive;
  }
  record.link.bridge = "nomad";
  record.link.gateway_ifname = "nomad";
  record.link.port = {.hairpin = true, .source_check = true};
  record.link.gateways = {Cidr::Parse("172.26.64.1/20").value()};
  record.ipam.addresses = {Address()};
  record.rules.ip_masq = true;
  record.rules.snat = true;
  record.rules.inbound = firewall::Inbound::kPublished;
  for (const portmap::Protocol protocol : {portmap::Protocol::kTcp, portmap::Protocol::kUdp}) {
    record.rules.ports.push_back({.protocol = protocol,
                                  .host_port = 19999,
                                  .container_ip = Address().address,
                                  .container_port = 80});
  }
  return record;
}

int IndexOf(const std::string& name) {
  return static_cast<int>(::if_nametoindex(name.c_str()));
}

void Commit(nft::Socket& nft, const nft::Batch& batch) {
  if (!nft.Commit(batch, nft.Generation()).done()) {
    throw Error(Code::kKernel, "the kernel has refused the batch");
  }
}

void Add(const state::Record& record,
         rtnl::Socket& host,
         rtnl::Socket& inside,
         nft::Socket& nft,
         const netlink::Netns& container) {
  const std::string veth = state::HostVethName(record.id);
  host.CreateVeth({.host_name = veth,
                   .host_mac = Mac::ForName(veth),
                   .bridge = IndexOf("nomad"),
                   .container_ifname = "eth0",
                   .container_mac = Mac::For(Address().address)},
                  container);
  netlink::EnsureSysctlIfPresent("net/ipv6/conf/" + veth + "/disable_ipv6", "1");
  host.Change({.index = IndexOf(veth), .name = veth},
              {.up = true,
               .alias = state::LinkAlias(record.id, record.labels),
               .port = PortFlags{.hairpin = true, .forwards_groups = true}});
  inside.Change({.index = rtnl::kLoopbackIndex, .name = "lo"}, {.up = true});
  const rtnl::Link eth0 = inside.RequireLink("eth0");
  inside.EnsureAddress(eth0, Address());
  inside.Change(eth0, {.up = true});
  inside.EnsureRoute(
      eth0, {.destination = Cidr::Parse("0.0.0.0/0").value(), .gateway = Ip::Parse("172.26.64.1")});
  nft::Batch batch;
  for (const nft::Element& element : rules::ElementsOf(record)) {
    batch.AddElement(firewall::TableOf(element), element);
  }
  Commit(nft, batch);
}

void Check(const state::Record& record,
           rtnl::Socket& host,
           rtnl::Socket& inside,
           nft::Socket& nft) {
  static_cast<void>(host.RequireLink("nomad"));
  static_cast<void>(host.RequireLink(state::HostVethName(record.id)));
  const rtnl::Link eth0 = inside.RequireLink("eth0");
  static_cast<void>(inside.Addresses(eth0));
  static_cast<void>(inside.Routes(eth0));
  for (const nft::Element& element : rules::ElementsOf(record)) {
    static_cast<void>(nft.FindElement(firewall::TableOf(element), element));
  }
}

void Del(const state::Record& record, rtnl::Socket& host, nft::Socket& nft) {
  nft::Batch batch;
  for (const nft::Element& element : rules::ElementsOf(record)) {
    if (!element.comment.empty()) {  // the others are shared
      batch.DeleteElement(firewall::TableOf(element), element);
    }
  }
  Commit(nft, batch);
  host.EnsureLinkGone(state::HostVethName(record.id));
}

void Run(const std::string& verb, const std::string& path) {
  const netlink::Netns here = netlink::Netns::Current();
  rtnl::Socket host = rtnl::Socket::In(here);
  nft::Socket nft = nft::Socket::In(here);
  const state::Record record = Attachment();
  if (verb == "DEL") {
    return Del(record, host, nft);
  }
  const netlink::Netns container = netlink::Netns::Open(path);
  rtnl::Socket inside = rtnl::Socket::In(container);
  if (verb == "CHECK") {
    return Check(record, host, inside, nft);
  }
  Add(record, host, inside, nft, container);
  std::cout << R"({"cniVersion":"1.0.0","ips":[{"address":")" << Address().Text() << "\"}]}\n";
}

}  // namespace
}  // namespace nomad_bridge::bench

int main() {
  try {
    nomad_bridge::bench::Run(::getenv("CNI_COMMAND"), ::getenv("CNI_NETNS"));
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return EXIT_FAILURE;
  }
}
