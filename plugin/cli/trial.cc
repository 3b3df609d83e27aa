#include "plugin/cli/trial.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/error.h"
#include "base/file_lock.h"
#include "base/list.h"
#include "base/text.h"
#include "netlink/sockets/endpoint.h"
#include "plugin/causes/explain.h"
#include "plugin/causes/in_container.h"
#include "plugin/causes/names.h"
#include "plugin/causes/on_node.h"
#include "plugin/cli/throw_away.h"
#include "plugin/cli/trial_log.h"
#include "plugin/link/uplink.h"
#include "plugin/policy/judge.h"
#include "plugin/rules/localhost.h"

namespace nomad_bridge::cli {
namespace {

using causes::Connection;
using causes::Diagnosis;
using Result = TrialCheck::Result;
using What = causes::Station::What;

constexpr std::uint16_t kClosedPort = kContainerPort + 1;  // somebody listens, nobody publishes it
constexpr std::chrono::seconds kTargetPatience{5};

Ip AnyAddress(Family family) {
  return Ip::Parse(family == Family::kIpv4 ? "0.0.0.0" : "::").value();
}

std::string FamilyName(Family family) {
  return family == Family::kIpv4 ? "IPv4" : "IPv6";
}

class Trial : private TrialLog {
 public:
  Trial(state::Host& host, const TrialSubjects& subjects)
      : TrialLog(host), host_(host), subjects_(subjects), one_(subjects.one), two_(subjects.two) {}

  std::vector<TrialCheck> Run() {
    for (const Family family : {Family::kIpv4, Family::kIpv6}) {
      if (HasFamily(one_.ipam.addresses, family) && HasFamily(two_.ipam.addresses, family)) {
        family_ = family;
        ListenInContainers();
        TryNode();
        TryNeighbours();
        TryPort();
        TryWayOut();
        TryForeignSource();
        TryUnpublished();
      }
    }
    family_ = std::nullopt;
    TryNameServers();
    TryTarget();
    return TakeChecks();
  }

 private:
  // ---- what somebody listens on

  void ListenInContainers() {
    for (const state::Record* const record : {&one_, &two_}) {
      const std::optional<causes::Inside> inside = causes::OpenInside(*record);
      for (const std::uint16_t port : {kContainerPort, kClosedPort}) {
        if (inside) {
          listeners_.push_back(sockets::ListenAt(inside->netns, AnyAddress(*family_), port).socket);
        }
      }
    }
  }

  std::uint16_t ListenOnNode(const Ip& address) {
    sockets::Listening listening = sockets::ListenAt(host_.netns, address, 0);
    listeners_.push_back(std::move(listening.socket));
    host_.listeners.reset();  // they were listed before
    return listening.port;
  }

  [[nodiscard]] Ip AddressOf(const state::Record& record) const {
    const std::vector<Ip> own = AddressesOnly(record.ipam.addresses);
    return *std::ranges::find(own, *family_, &Ip::family);
  }

  // ---- the node

  void TryNode() {
    const std::optional<Ip> gateway = one_.OwnGateway(*family_);
    if (gateway) {
      TryService("gateway", Cat("gateway ", *gateway), *gateway);
    }
    const std::optional<Ip> node = NodeAddress();
    if (node && node != gateway) {
      TryService("node", Cat("the node, at ", *node), *node);
    }
  }

  // Returns the address by which the world reaches the node: its source on the way out, else one of
  // an uplink.
  std::optional<Ip> NodeAddress() {
    const rtnl::RouteAnswer way =
        host_.net.LookUpRoute({.destination = link::InternetAddress(*family_)});
    if (way.error == 0 && way.source && way.link != rtnl::kLoopbackIndex) {
      return way.source;
    }
    for (const rtnl::Link& link : facts_.Uplinks()) {
      for (const Cidr& cidr : facts_.Addresses(link)) {
        if (cidr.address.family() == *family_ && !cidr.address.IsLinkLocal()) {
          return cidr.address;
        }
      }
    }
    return std::nullopt;
  }

  // Tries to reach `address` itself, and a service there. A firewall of the node may keep services
  // for itself.
  void TryService(std::string_view id, const std::string& what, const Ip& address) {
    const auto connection =
        planner_.FromAllocation(one_, Protocol::kTcp, address, ListenOnNode(address));
    if (LacksRoute(connection)) {
      return Add(id, what, Result::kLeftOut, kNoDefaultRoute);
    }
    Try(id, what, [&] {
      const Diagnosis found = Ask(*connection);
      if (found.way.IsWhole() || found.way.Passes(What::kRoute)) {
        Add(id, what, Result::kOk);
      } else {
        AddUnanswered(id, what, found);
        return;
      }
      const std::string service = Cat(what, ", a service there");
      found.way.IsWhole() ? Add("node.service", service, Result::kOk)
                          : AddUnanswered("node.service", service, found);
    });
  }

  // ---- the neighbours

  void TryNeighbours() {
    TryBetween("neighbour", "neighbour", one_, two_);
    TryBetween("neighbour.back", "neighbour, the other way", two_, one_);
    if (subjects_.stranger) {
      TryBetween("namespace", "another namespace of Nomad's", *subjects_.stranger, one_);
    }
  }

  void TryBetween(std::string_view id,
                  const std::string& what,
                  const state::Record& from,
                  const state::Record& to) {
    const std::string kept = KeptBy(from, to);
    const auto connection =
        planner_.FromAllocation(from, Protocol::kTcp, AddressOf(to), kContainerPort);
    if (kept.empty()) {
      return MustPass(id, what, connection);
    }
    const Finding open = {
        .text = Format("{} reaches {}, which {} forbids", AddressOf(from), AddressOf(to), kept),
        .fix = Fix::Advice("compare the rules: nomad-bridge doctor -verbose")};
    MustNotPass(id, Format("{}, kept out by {}", what, kept), connection, What::kContainer, open);
  }

  // Returns what keeps `from` from reaching `to`; empty if nothing does.
  [[nodiscard]] std::string KeptBy(const state::Record& from, const state::Record& to) {
    const policy::Answer answer =
        policy::Judge(host_.policy.Program(),
                      {.from = {.workload = from.Workload(), .address = AddressOf(from)},
                       .to = {.workload = to.Workload(), .address = AddressOf(to)},
                       .port = kContainerPort});
    return !answer.is_allowed                                 ? Cat("policy ", answer.By())
           : to.link.port.isolated                            ? "portIsolation"
           : to.rules.ingress == firewall::Ingress::kIsolated ? "ingressPolicy"
                                                              : "";
  }

  // ---- the published port

  void TryPort() {
    const auto port = std::ranges::find_if(one_.rules.ports, [&](const portmap::DnatEntry& each) {
      return each.container_ip.family() == *family_;
    });
    if (port == one_.rules.ports.end()) {
      return Add("port.outside",
                 "published port",
                 Result::kLeftOut,
                 {.text = "the network publishes none"});
    }
    const auto from = [&](std::string_view id, const std::string& who, const Ip& client) {
      MustPass(id, Cat("published port, from ", who), planner_.ToPort(one_, *port, client));
    };
    TryFromOutside(*port);
    if (const std::optional<Ip> node = NodeAddress()) {
      from("port.node", "the node", *node);
    }
    if (family_ == Family::kIpv4 && rules::HasLocalhostPorts(one_)) {
      from("port.localhost", "127.0.0.1", Ip::Parse("127.0.0.1").value());
    }
    // Through br_netfilter the bridge itself passes such packets from one port to another.
    const config::PortSpec& spec = one_.link.port;
    if (spec.isolated) {
      return;
    }
    from("port.neighbour", "the neighbour", AddressOf(two_));
    // Without snat, the container gets packets from its own address.
    if (spec.hairpin && one_.rules.snat) {
      from("port.itself", "the container itself", AddressOf(one_));
    }
  }

  void TryFromOutside(const portmap::DnatEntry& port) {
    const std::string what = "published port, from outside";
    const auto connection = planner_.ToPort(one_, port, std::nullopt);
    FindingList found = causes::FindOnNode(facts_, one_, port, connection);
    if (connection && connection->uplink) {
      Append(found, causes::FindBlackhole(host_.net, *connection->uplink));
    }
    std::erase_if(found, [&](const Finding& each) {
      return each.severity == Finding::Severity::kNote ||
             each.family.value_or(*family_) != *family_;
    });
    if (!found.empty()) {
      return Add("port.outside", what, Result::kFailed, found.front());
    }
    MustPass("port.outside", what, connection);
  }

  // ---- the way out

  void TryWayOut() {
    const std::string what = "the way out";
    if (one_.ipam.default_routes.Has(*family_) && !facts_.DefaultRoutes().Has(*family_)) {
      return AddNoWay("out", what);
    }
    const auto connection =
        planner_.FromAllocation(one_, Protocol::kTcp, link::InternetAddress(*family_), kHttps);
    MustPass("out",
             connection && connection->uplink
                 ? Format("{}, by '{}'", what, connection->uplink->name)
                 : what,
             connection);
  }

  // Adds that the node has no address or default route of the family. This is meant if the node had
  // none when ports were published.
  void AddNoWay(std::string_view id, const std::string& what) {
    const bool had_one = std::ranges::any_of(host_.records.All(), [&](const state::Record& each) {
      return each.rules.had_default_route.Has(*family_);
    });
    Add(id,
        what,
        had_one ? Result::kFailed : Result::kLeftOut,
        {.text = Format("this node has no {} for {}{}",
                        facts_.HasAddress(*family_) ? "default route" : "address",
                        FamilyName(*family_),
                        had_one ? "; it had one when a port was published" : ""),
         .fix = Fix::Advice("let its network service give it its addresses and routes again")});
  }

  // ---- what must not pass

  void TryForeignSource() {
    auto connection =
        planner_.FromAllocation(one_,
                                Protocol::kTcp,
                                one_.OwnGateway(*family_).value_or(link::InternetAddress(*family_)),
                                kHttps);
    if (!one_.link.port.source_check || !connection) {
      return;
    }
    connection->source = AddressOf(two_);
    MustNotPass("source",
                "a source address of another container, kept out by sourceCheck",
                connection,
                What::kPrerouting,
                {.text = Format("{} may send as {}", AddressOf(one_), AddressOf(two_)),
                 .fix = Fix::Advice("compare the rules: nomad-bridge doctor -verbose")});
  }

  // From beyond the node to the container's own address. Machines on a LAN reach the allocations on
  // its bridge.
  void TryUnpublished() {
    const std::optional<Ip> client = facts_.DefaultRoutes().Has(*family_)
                                         ? std::optional(link::InternetAddress(*family_))
                                         : std::nullopt;
    const auto connection =
        client ? planner_.ToAllocation(one_, Protocol::kTcp, kClosedPort, *client) : std::nullopt;
    if (one_.rules.inbound != firewall::Inbound::kPublished || one_.link.adopted || !connection) {
      return;
    }
    MustNotPass(
        "unpublished",
        "a port that is not published, from outside, kept out by inbound",
        connection,
        What::kContainer,
        {.text = Format(
             "outside reaches {} port {}, which is not published", AddressOf(one_), kClosedPort),
         .fix = Fix::Advice("compare the rules: nomad-bridge doctor -verbose")});
  }

  // ---- names, and the target of -to

  void TryNameServers() {
    for (const Ip& server : subjects_.name_servers) {
      const std::string what = Cat("name server ", server);
      if (!HasFamily(one_.ipam.addresses, server.family())) {
        Add("resolver",
            what,
            Result::kLeftOut,
            {.text = "the container has no address of that family"});
        continue;
      }
      family_ = server.family();
      const bool lacks = LacksRoute(planner_.FromAllocation(one_, Protocol::kUdp, server, 1));
      family_ = std::nullopt;
      if (lacks) {
        Add("resolver", what, Result::kLeftOut, kNoDefaultRoute);
        continue;
      }
      Try("resolver", what, [&] {
        FindingList unseen;
        const Deadline deadline = FromNow(kPatience);
        std::optional<Finding> lost;
        do {
          lost = causes::FindLostNameServer(facts_, one_, server, unseen);
        } while (lost && IsWorthAnother(*lost, deadline));
        if (!lost) {
          return Add("resolver", what, Result::kOk);
        }
        const bool is_kept = lost->severity == Finding::Severity::kNote;
        Add("resolver", what, is_kept ? Result::kLeftOut : Result::kFailed, *lost);
      });
    }
  }

  void TryTarget() {
    if (!subjects_.target) {
      return;
    }
    const Target& target = *subjects_.target;
    const std::string what = Cat("the target ", target.Text());
    std::optional<causes::Inside> inside = causes::OpenInside(one_);
    if (!inside) {
      return Add("target", what, Result::kFailed, causes::UnseenNamespace(one_));
    }
    Try("target", what, [&] {
      Ip address = target.address;
      if (!target.name.empty()) {
        causes::Resolution resolution = causes::Resolve(*inside, target.name);
        if (!resolution.address) {
          return Add("target", what, Result::kFailed, resolution.causes.front());
        }
        address = *resolution.address;
      }
      TryTargetAt(what, *inside, address);
    });
  }

  void TryTargetAt(const std::string& what, const causes::Inside& inside, const Ip& address) {
    const Target& target = *subjects_.target;
    const auto connection = planner_.FromAllocation(one_, target.protocol, address, target.port);
    if (!connection) {
      return Add(
          "target", what, Result::kFailed, {.text = "the container has no address of that family"});
    }
    const bool is_tcp = target.protocol == Protocol::kTcp;
    if (is_tcp &&
        sockets::CanConnect(inside.netns, address, target.port, FromNow(kTargetPatience))) {
      return Add("target", what, Result::kOk);
    }
    const Diagnosis found = Ask(*connection);
    if (!found.way.IsWhole()) {
      return AddUnanswered("target", what, found);
    }
    if (!is_tcp) {
      return Add("target", what, Result::kOk);
    }
    Add("target",
        what,
        Result::kFailed,
        {.text = Format("the packet leaves by '{}', and no answer comes within {} seconds",
                        found.way.stations.back().name,
                        kTargetPatience.count()),
         .fix = Fix::Advice("look at the target, and at the firewalls on the way")});
  }

  // ---- results
  void MustPass(std::string_view id,
                const std::string& what,
                const std::optional<Connection>& connection) {
    if (LacksRoute(connection)) {
      return Add(id, what, Result::kLeftOut, kNoDefaultRoute);
    }
    if (!connection) {
      return AddNoWay(id, what);
    }
    Try(id, what, [&] {
      const Diagnosis found = Ask(*connection);
      found.way.IsWhole() ? Add(id, what, Result::kOk) : AddUnanswered(id, what, found);
    });
  }

  // Returns whether the network gives no default route on purpose, and no other route leads from
  // the container to the other end. The node's own 127.0.0.1 comes with the gateway's address.
  bool LacksRoute(const std::optional<Connection>& connection) {
    if (one_.ipam.default_routes.Has(*family_)) {
      return false;
    }
    const bool leaves = connection && connection->client_record;
    const std::optional<causes::Inside> inside =
        causes::OpenInside(leaves ? *connection->client_record : one_);
    if (!connection || !inside) {
      return true;
    }
    const Ip& far = leaves ? connection->destination : connection->source;
    return !far.IsLoopback() && Lacks(*inside, far);
  }

  static bool Lacks(const causes::Inside& inside, const Ip& far) {
    return rtnl::Socket::In(inside.netns).LookUpRoute({.destination = far}).error != 0;
  }

  static constexpr std::uint16_t kHttps = 443;
  static inline const Finding kNoDefaultRoute = {
      .text = "the network gives no default route, and no other route leads there"};

  state::Host& host_;
  const TrialSubjects& subjects_;
  const state::Record& one_;
  const state::Record& two_;
  std::vector<UniqueFd> listeners_;
};

}  // namespace

std::vector<TrialCheck> RunTrial(state::Host& host, const TrialSubjects& subjects) {
  return Trial(host, subjects).Run();
}

}  // namespace nomad_bridge::cli
