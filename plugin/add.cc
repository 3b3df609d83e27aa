#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "plugin/addresses.h"
#include "plugin/failures.h"
#include "plugin/flows.h"
#include "plugin/guest.h"
#include "plugin/host.h"
#include "plugin/link.h"
#include "plugin/mend.h"
#include "plugin/rules.h"
#include "plugin/teardown.h"
#include "plugin/undo.h"
#include "plugin/verbs.h"

namespace nomad_bridge {
namespace {

// The VLANs of an attachment's port, if the network has any. What a trunk sends without a tag needs
// a home too: VLAN 1, as with the reference plugin.
std::optional<PortVlans> VlansFor(const LinkConfig& link) {
  constexpr std::uint16_t kDefaultVlan = 1;
  if (!link.HasVlans()) {
    return std::nullopt;
  }
  return PortVlans{.untagged = link.vlan != 0 ? link.vlan : kDefaultVlan,
                   .tagged = link.vlan_trunk,
                   .keep_default = link.preserve_default_vlan};
}

Port PortFor(const LinkConfig& link) {
  return {.hairpin = link.hairpin_mode,
          .isolated = link.port_isolation,
          .locked = link.mac_spoof_check,
          .vlans = VlansFor(link)};
}

// All that is known before anything is done; AcquireAddresses adds the addresses and what follows
// from them.
Record Intend(const Request& request, const Name& name, const Config& config, const Netns& guest) {
  return {.who = request.who,
          .parts = name.parts,
          .labels = config.labels,
          .netns_path = request.netns_path,
          .netns = guest.id(),
          .bridge = config.link.bridge,
          .gate = config.link.Gate(),
          .port = PortFor(config.link),
          .mac = config.link.mac,
          .data_dir = config.ipam.data_dir,
          .ip_masq = config.rules.ip_masq,
          .snat = config.rules.snat,
          .masq_all = config.rules.masq_all,
          .policy = config.rules.policy,
          .ingress = config.rules.ingress,
          .firewalld_zone = config.rules.firewalld_zone};
}

// A default route per family if the network is the way out and no route says so itself.
void AddDefaultRoutes(Result& result) {
  for (const IpConfig& ip : result.ips) {
    if (!ip.gateway) {
      continue;
    }
    const Cidr everything{Cidr{*ip.gateway, 0}.Network(), 0};
    const bool said =
        std::any_of(result.routes.begin(), result.routes.end(), [&](const Route& route) {
          return route.destination == everything && route.gateway;
        });
    if (!said) {
      result.routes.push_back({.destination = everything, .gateway = ip.gateway});
    }
  }
}

// What the guest gets: the addresses, with the routes and the DNS that belong to them, on number 2
// of our interfaces.
Result Plan(const Config& config, Result addresses) {
  constexpr int kGuestInterface = 2;
  for (IpConfig& ip : addresses.ips) {
    ip.interface = kGuestInterface;
  }
  if (config.link.is_default_gateway) {
    AddDefaultRoutes(addresses);
  }
  if (!config.dns.empty()) {
    addresses.dns = config.dns;
  }
  return addresses;
}

Interface Describe(const Link& link, const std::string& sandbox = {}) {
  return {.name = link.name, .mac = link.mac.Text(), .mtu = link.mtu, .sandbox = sandbox};
}

// The interfaces in the order that plugins behind us rely on: bridge, host end, guest end, and the
// gateway if it is not the bridge.
std::vector<Interface> Describe(const Segment& segment,
                                const VethPair& veth,
                                const std::string& sandbox) {
  std::vector<Interface> interfaces = {
      Describe(segment.bridge), Describe(veth.host), Describe(veth.guest, sandbox)};
  if (segment.gate.index != segment.bridge.index) {
    interfaces.push_back(Describe(segment.gate));
  }
  return interfaces;
}

}  // namespace

void AddInterface(const Request& request, const Name& name, int out) {
  const Config config = ParseConfig(request, name);
  Host host = Host::Open();
  Guest guest = OpenGuest(request, host);

  // One command at a time for this attachment. What an earlier ADD of it made goes first; only its
  // address is kept.
  const RangeLock mine = host.records.Lock(request.who);
  const std::optional<Record> earlier = host.records.Find(request.who);
  RefuseForeignInterface(host, guest, request.who, earlier.has_value());
  Undo undo;
  RemoveEarlier(host, request.who, earlier, config.ipam.data_dir, undo);

  // The intent is on disk before anything new is made, so that a crash from here on can be cleaned
  // up.
  Record record = Intend(request, name, config, guest.netns);
  Result result = Plan(config, AcquireAddresses(host, request, config, record, earlier));
  undo.Then("remove the record", [&host, who = request.who] { host.records.EnsureGone(who); });
  undo.Then("release the addresses", [record] { ReleaseAddresses(record); });

  // Shared by every allocation on this node, so it stays even if we fail below.
  const Segment segment = EnsureBridge(host, config.link, record.gateways, request.who);
  MendPorts(host, segment.bridge, request.who.network);

  CreateVeth(host, guest, segment.bridge, record, config.link.mtu);
  undo.Then("delete the veth pair",
            [&host, who = request.who] { EnsureLinkGone(host, who, true); });
  const VethPair veth = PlugIn(host, guest, record);
  if (name.Does(Part::kLoopback)) {
    BringUpLoopback(guest);
  }
  ConfigureGuest(host, guest, veth, result, config.link);

  // Atomic, and after the link: from here on packets flow.
  undo.Then("withdraw the rules", [&host, record] { WithdrawRules(host, ElementsOf(record)); });
  PublishRules(host, record, false);
  EnsureLocalhostReaches(record);
  ForgetStaleFlows(host, record);

  result.interfaces = Describe(segment, veth, request.netns_path);
  Print(
      config.prev_result ? Append(result, *config.prev_result) : result, request.cni_version, out);
  undo.Keep();
}

}  // namespace nomad_bridge
