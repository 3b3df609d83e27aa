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
Record Intend(const Request& request, const Config& config, const Netns& guest) {
  return {.who = request.who,
          .labels = config.labels,
          .netns_path = request.netns_path,
          .netns = guest.id(),
          .bridge = config.link.bridge,
          .hairpin = config.link.hairpin_mode,
          .data_dir = config.ipam.data_dir,
          .ip_masq = config.rules.ip_masq,
          .snat = config.rules.snat,
          .masq_all = config.rules.masq_all,
          .policy = config.rules.policy};
}

// Whether the namespace of the earlier ADD lives or not: its link and its rules are in the way of
// ours.
void RemoveEarlier(Host& host,
                   const Attachment& who,
                   const std::optional<Record>& earlier,
                   const std::string& data_dir,
                   Undo& undo) {
  if (earlier) {
    undo.Then("remove what an earlier ADD left", [&host, earlier] {
      Failures failures;
      failures.Add(TearDown(host, *earlier));
      failures.ThrowIfAny("some of it is still there");
    });
    WithdrawRules(host, ElementsOf(*earlier));
    EnsureLinkGone(host, who, true);
  } else if (FindHostVeth(host.net, who, false)) {
    Failures failures;
    failures.Add(TearDownUnrecorded(host, who, data_dir));
    failures.ThrowIfAny("cannot remove what an earlier ADD without a record left");
  }
}

// The routes of the config, and a default route per family if the network is the way out and no
// route says so itself.
std::vector<Route> RoutesOf(const Config& config,
                            const std::vector<ipam::Assignment>& assignments) {
  std::vector<Route> routes = config.ipam.routes;
  if (!config.link.is_default_gateway) {
    return routes;
  }
  for (const ipam::Assignment& assignment : assignments) {
    const Ip unspecified = Cidr{assignment.gateway, 0}.Network();
    const Cidr everything{unspecified, 0};
    const bool said = std::any_of(routes.begin(), routes.end(), [&](const Route& route) {
      return route.destination == everything && route.gateway;
    });
    if (!said) {
      routes.push_back({.destination = everything, .gateway = assignment.gateway});
    }
  }
  return routes;
}

// Ours: the addresses, routes and DNS of the guest's interface, which is number 2 of our
// interfaces.
Result Plan(const Config& config, const std::vector<ipam::Assignment>& assignments) {
  constexpr int kGuestInterface = 2;
  Result result{.routes = RoutesOf(config, assignments),
                .dns = config.dns.empty() ? config.ipam.dns : config.dns};
  for (const ipam::Assignment& assignment : assignments) {
    result.ips.push_back({.interface = kGuestInterface,
                          .address = assignment.address,
                          .gateway = assignment.gateway});
  }
  return result;
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

void Print(const Result& result, const Request& request, std::ostream& out) {
  out << ToJson(result, request.cni_version)
             .dump(2, ' ', false, nlohmann::json::error_handler_t::replace)
      << std::endl;
  if (!out) {
    throw Error(Code::kIo, "cannot write the result to stdout");
  }
}

}  // namespace

void Add(const Request& request, const Name& name, std::ostream& out) {
  const Config config = ParseConfig(request, name.defaults);
  Host host = Host::Open();
  const Netns guest_ns = OpenGuest(request, host);
  Rtnl guest = Rtnl::In(guest_ns);

  // One command at a time for this attachment. What an earlier ADD of it made goes first; only its
  // address is kept.
  const RangeLock mine = host.records.Lock(request.who);
  const std::optional<Record> earlier = host.records.Find(request.who);
  RefuseForeignInterface(host, guest, request.who, earlier.has_value());
  Undo undo;
  RemoveEarlier(host, request.who, earlier, config.ipam.data_dir, undo);

  // The intent is on disk before anything new is made, so that a crash from here on can be cleaned
  // up.
  Record record = Intend(request, config, guest_ns);
  const std::vector<ipam::Assignment> assignments = AcquireAddresses(host, config, record, earlier);
  undo.Then("remove the record", [&host, who = request.who] { host.records.EnsureGone(who); });
  undo.Then("release the addresses", [record] { ReleaseAddresses(record); });

  // Shared by every allocation on this node, so it stays even if we fail below.
  const Link bridge = EnsureBridge(host, config.link, record.gateways);
  MendPorts(host, bridge, request.who.network);

  const VethPair veth = MakeVeth(host, guest_ns, guest, bridge, record, config.link);
  undo.Then("delete the veth pair",
            [&host, who = request.who] { EnsureLinkGone(host, who, true); });
  Result result = Plan(config, assignments);
  BringUpLoopback(guest);
  ConfigureGuest(host, guest_ns, guest, veth, result);
  // Until the kernel has noticed its first port's carrier, a bridge drops what the node sends.
  host.net.AwaitOperational(bridge.name, FromNow(kPatience));

  // Atomic, and after the link: from here on packets flow.
  undo.Then("withdraw the rules", [&host, record] { WithdrawRules(host, ElementsOf(record)); });
  PublishRules(host, record);
  EnsureLocalhostReaches(record);
  ForgetStaleFlows(host, record);

  result.interfaces = Describe(bridge, veth, request.netns_path);
  Print(config.prev_result ? Append(result, *config.prev_result) : result, request, out);
  undo.Keep();
}

}  // namespace nomad_bridge
