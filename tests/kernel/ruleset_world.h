// A world (tests/support/world.h) with a bridge and containers on it, created by ip(8) alone, and
// our rules on top.
//
//   host      bridge "nomad", 172.26.64.1/20 and fd00:26::1/64; forwards; route_localnet on the
//             bridge
//   container n   172.26.64.<n>/20 and fd00:26::<n>/64, default routes through the host; host end
//             "veth<n>", hairpin on
#pragma once

#include "base/list.h"
#include "firewall/change.h"
#include "firewall/ruleset.h"
#include "firewall/table.h"
#include "netlink/core/netns.h"
#include "netlink/nft/socket.h"
#include "tests/support/world.h"

namespace nomad_bridge::test {

class RulesetWorld : public World {
 protected:
  RulesetWorld()
      : socket_(nft::Socket::In(netlink::Netns::Current())),
        table_(TableOf({&firewall::kForwarding})) {}

  static nft::Table TableOf(const firewall::Contributors& contributors, int mark_bit = 12) {
    return firewall::Assemble(contributors, mark_bit).front();
  }

  void MakeBridge() {
    host().Must({"ip", "link", "add", "nomad", "type", "bridge"});
    host().Must({"ip", "address", "add", "172.26.64.1/20", "dev", "nomad"});
    host().Must({"ip", "address", "add", "fd00:26::1/64", "dev", "nomad", "nodad"});
    // Otherwise duplicate address detection keeps the bridge silent for a second.
    host().SetSysctl("net/ipv6/conf/nomad/accept_dad", "0");
    host().Must({"ip", "link", "set", "nomad", "up"});
    host().SetSysctl("net/ipv4/ip_forward", "1");
    host().SetSysctl("net/ipv6/conf/all/forwarding", "1");
    host().SetSysctl("net/ipv4/conf/nomad/route_localnet", "1");
  }

  void PlugIn(const Node& container, int n) {
    const std::string host_end = Cat("veth", n);
    host().Must(Words(Cat("ip link add ",
                          host_end,
                          " up master nomad type veth peer name eth0 netns ",
                          container.name())));
    host().Must({"bridge", "link", "set", "dev", host_end, "hairpin", "on"});
    container.Must({"ip", "link", "set", "lo", "up"});
    container.Must({"ip", "address", "add", Cat(Ip4(n), "/20"), "dev", "eth0"});
    container.Must({"ip", "address", "add", Cat(Ip6(n), "/64"), "dev", "eth0", "nodad"});
    container.Must({"ip", "link", "set", "eth0", "up"});
    container.Must({"ip", "route", "add", "default", "via", "172.26.64.1"});
    container.Must({"ip", "route", "add", "default", "via", "fd00:26::1"});
  }

  static std::string Ip4(int n) { return Cat("172.26.64.", n); }
  static std::string Ip6(int n) { return Cat("fd00:26::", n); }
  static std::string Comment(int n) { return Cat("veth", n, " job=billing alloc=", n); }

  // What should be in force for one container.
  struct DesiredState {
    firewall::ForwardHook forward_hook{.admin_chain = "NOMAD-ADMIN"};
    std::vector<nft::Element> elements;
  };

  // For container n, in both families.
  static DesiredState DesiredOf(int n,
                                firewall::AddressPolicy policy = {.masquerade = true,
                                                                  .snat = true}) {
    std::vector<firewall::AddressPolicy> policies;
    for (const std::string& address : {Ip4(n), Ip6(n)}) {
      policy.address = Ip::Parse(address).value();
      policies.push_back(policy);
    }
    DesiredState desired{.forward_hook = {.admin_chain = "NOMAD-ADMIN", .ipv6 = true},
                         .elements = firewall::Elements(policies, Comment(n))};
    desired.elements.push_back(firewall::BridgeElement("nomad"));
    desired.elements.push_back(firewall::GatewayElement("nomad"));
    return desired;
  }

  static firewall::Change Adding(const DesiredState& desired) { return {.add = desired.elements}; }

  // The tables with what `all` should have.
  [[nodiscard]] firewall::Goal GoalOf(const std::vector<DesiredState>& all) const {
    firewall::Goal goal{
        .tables = {table_},
        .about = {
            .accept_mark_bit = 12, .boot = "9c1e77a0", .tables_revision = "a8263d9accaee067"}};
    for (const DesiredState& each : all) {
      Append(goal.elements, each.elements);
      goal.forward_hooks.push_back(each.forward_hook);
    }
    return goal;
  }

  // Returns what was repaired, or in mode kLook what differs.
  std::vector<std::string> Compare(const firewall::Goal& goal, Mode mode = Mode::kRepair) {
    std::vector<std::string> texts;
    for (const Finding& mismatch : firewall::Compare(socket_, goal, mode)) {
      texts.push_back(mismatch.text);
    }
    return texts;
  }

  // All that `others` should have is there afterwards, and the static rules for `hook`.
  std::vector<std::string> Restore(const std::vector<DesiredState>& others,
                                   const firewall::ForwardHook& hook = {
                                       .admin_chain = "NOMAD-ADMIN",
                                       .ipv6 = true}) {
    firewall::Goal goal = GoalOf(others);
    goal.forward_hooks.push_back(hook);
    return Compare(goal);
  }

  firewall::ChangeOutcome Change(const firewall::Change& change) {
    return firewall::ChangeElements(socket_, change);
  }

  struct Added {
    std::optional<firewall::Conflict> conflict;
    std::vector<std::string> repaired;
  };

  // Adds `desired` beside `others`, which are restored first.
  Added Put(const DesiredState& desired, const std::vector<DesiredState>& others = {}) {
    std::vector<std::string> repaired = Restore(others, desired.forward_hook);
    firewall::ChangeOutcome outcome = Change(Adding(desired));
    if (outcome.refusal) {
      throw Error(*outcome.refusal);
    }
    return {.conflict = std::move(outcome.conflict), .repaired = std::move(repaired)};
  }

  std::vector<std::string> Diff(const DesiredState& desired) {
    return Compare(GoalOf({desired}), Mode::kLook);
  }

  nft::Socket socket_;
  nft::Table table_;
};

}  // namespace nomad_bridge::test
