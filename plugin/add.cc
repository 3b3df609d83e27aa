#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "plugin/addresses.h"
#include "plugin/failures.h"
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

// All that is known before anything is done; AcquireAddresses adds the addresses and what follows
// from them.
Record Intend(const Request& request, const Name& name, const Config& config, const Netns& guest) {
  return {.who = request.who,
          .parts = name.parts,
          .labels = config.labels,
          .netns_path = request.netns_path,
          .netns = guest.id(),
          .bridge = config.link.bridge,
          .gate = config.link.bridge,
          .hairpin = config.link.hairpin_mode,
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

// The interfaces in the order that plugins behind us rely on: bridge, host end, guest end.
std::vector<Interface> Describe(const Link& bridge,
                                const VethPair& veth,
                                const std::string& sandbox) {
  return {{.name = bridge.name, .mac = bridge.mac.Text(), .mtu = bridge.mtu},
          {.name = veth.host.name, .mac = veth.host.mac.Text(), .mtu = veth.host.mtu},
          {.name = veth.guest.name,
           .mac = veth.guest.mac.Text(),
           .mtu = veth.guest.mtu,
           .sandbox = sandbox}};
}

}  // namespace

void AddInterface(const Request& request, const Name& name, std::ostream& out) {
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
  const Link bridge = EnsureBridge(host, config.link, record.gateways);
  MendPorts(host, bridge, request.who.network);

  const VethPair veth = MakeVeth(host, guest, bridge, record, config.link);
  undo.Then("delete the veth pair",
            [&host, who = request.who] { EnsureLinkGone(host, who, true); });
  if (name.Does(Part::kLoopback)) {
    BringUpLoopback(guest);
  }
  ConfigureGuest(host, guest, veth, result);
  // Until the kernel has noticed its first port's carrier, a bridge drops what the node sends.
  host.net.AwaitOperational(bridge.name, FromNow(kPatience));

  // Atomic, and after the link: from here on packets flow.
  undo.Then("withdraw the rules", [&host, record] { WithdrawRules(host, ElementsOf(record)); });
  PublishRules(host, record);
  EnsureLocalhostReaches(record);
  ForgetStaleFlows(host, record);

  result.interfaces = Describe(bridge, veth, request.netns_path);
  Print(
      config.prev_result ? Append(result, *config.prev_result) : result, request.cni_version, out);
  undo.Keep();
}

}  // namespace nomad_bridge
