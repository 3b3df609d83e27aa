// What the looks of one command have in common about the node: asked once, when it is first needed,
// and not again. For commands that change nothing.
//
// Errors   kKernel
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "netlink/nft/packet_path.h"
#include "netlink/rtnl/rtnl.h"
#include "netlink/rtnl/xfrm.h"
#include "plugin/state/host.h"

namespace nomad_bridge::causes {

class NodeFacts {
 public:
  explicit NodeFacts(state::Host& of) : host(of) {}

  state::Host& host;

  [[nodiscard]] const std::vector<rtnl::Link>& Links();
  [[nodiscard]] std::optional<rtnl::Link> FindLink(const std::string& name);
  [[nodiscard]] std::optional<rtnl::Link> FindLink(int index);
  // By which it is reached (link/uplink.h).
  [[nodiscard]] const std::vector<rtnl::Link>& Uplinks();
  [[nodiscard]] const std::vector<Cidr>& Addresses(const rtnl::Link& link);
  [[nodiscard]] const std::vector<Route>& Routes(const rtnl::Link& link);
  [[nodiscard]] std::optional<rtnl::Neighbour> FindNeighbour(const rtnl::Link& link,
                                                             const Ip& address);
  // The MACs that bridges hand to the node, at whatever port they are.
  [[nodiscard]] const std::vector<rtnl::FdbEntry>& OwnMacs();
  // Whether it has an address of `family` on one of these, or on a link that stands for none, such
  // as lo.
  [[nodiscard]] bool HasAddress(Family family);
  [[nodiscard]] bool HasDefaultRoute(Family family);
  [[nodiscard]] const state::Record::Ways& WaysBeyond();
  // Whether it forwards what comes by `gateway`, which has the address `own`.
  [[nodiscard]] bool Forwards(const rtnl::Link& gateway, const Cidr& own);
  // See rtnl::Socket.
  [[nodiscard]] bool HasRulesAboutMarks(Family family);
  [[nodiscard]] const rtnl::XfrmPolicies& Xfrm();
  [[nodiscard]] long ArpIgnoreOfAll();
  [[nodiscard]] nft::Ruleset& Rules();

 private:
  std::optional<std::vector<rtnl::Link>> links_;
  std::map<std::string, std::size_t> by_name_;
  std::map<int, std::size_t> by_index_;
  std::map<int, std::vector<Cidr>> addresses_;  // by link, as all that follow
  std::map<int, std::vector<Route>> routes_;
  std::optional<std::map<std::pair<int, Ip>, rtnl::Neighbour>> neighbours_;
  std::optional<std::vector<rtnl::FdbEntry>> own_macs_;
  std::optional<std::vector<rtnl::Link>> uplinks_;
  std::map<Family, bool> has_address_;
  std::map<Family, bool> has_default_route_;
  std::optional<state::Record::Ways> ways_;
  std::map<std::pair<int, Cidr>, bool> forwards_;
  std::map<Family, bool> has_rules_about_marks_;
  std::optional<rtnl::XfrmPolicies> xfrm_;
  std::optional<long> arp_ignore_of_all_;
  std::optional<nft::Ruleset> rules_;
};

}  // namespace nomad_bridge::causes
