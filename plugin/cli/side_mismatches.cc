#include "plugin/cli/side_mismatches.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/list.h"
#include "base/text.h"
#include "firewall/foreign_drops.h"
#include "firewall/table.h"
#include "netlink/core/netns.h"
#include "plugin/attachment/reconcile.h"
#include "plugin/attachment/segment.h"
#include "plugin/causes/in_container.h"
#include "plugin/link/host_veth.h"
#include "plugin/link/lan.h"
#include "plugin/link/uplink.h"
#include "plugin/rules/policy_tables.h"
#include "plugin/state/kernel_names.h"

namespace nomad_bridge::cli {
namespace {

using causes::Cause;
using causes::Causes;
using causes::Listening;

// `is_asked_for`: is about the port that was.
void AddNew(Causes& causes, Causes more, bool is_asked_for) {
  for (Cause& cause : more) {
    cause.ends = cause.ends && is_asked_for;
    if (std::ranges::find(causes, cause.text, &Cause::text) == causes.end()) {
      causes.push_back(std::move(cause));
    }
  }
}

class Inspection {
 public:
  Inspection(state::Host& host,
             const Attachment& attachment,
             const std::optional<Ip>& client,
             const std::string& name)
      : host_(host),
        attachment_(attachment),
        record_(*attachment.record),
        client_(client),
        name_(name) {}

  // The namespace may go at any moment.
  SideMismatches Run() {
    sides_.is_host_known = Try([&] { CompareHostSide(); });
    are_rules_whole_ = are_rules_whole_ && sides_.is_host_known;
    const std::optional<netlink::Netns> netns = causes::FindNetns(record_);
    if (attachment_.state == State::kDead) {
      sides_.container = {{.text = "its namespace is gone", .fix = "nomad-bridge gc"}};
    } else if (!netns) {
      sides_.container = {
          {.text = Format("its namespace is not to be seen at '{}'", record_.netns_path),
           .fix = Fix::Advice("look from where the runtime's mounts are seen"),
           .ends = false}};
    } else {
      sides_.is_container_known = Try([&] { LookInside(*netns); });
    }
    Try([&] { LookForDrops(); });
    return std::move(sides_);
  }

 private:
  // What cannot be read says nothing of the rest.
  template <typename Look>
  bool Try(Look look) {
    try {
      look();
      return true;
    } catch (const Error& error) {
      if (!Contains(sides_.unknown, error.what())) {
        sides_.unknown.emplace_back(error.what());
      }
      return false;
    }
  }

  void CompareHostSide() {
    if (attachment_.state == State::kMaking || attachment_.state == State::kLeaving) {
      sides_.host = {{.text = Format("an attachment that is {}", Text(attachment_.state)),
                      .fix = "nomad-bridge gc"}};
      return;
    }
    const std::optional<FileLock> lock = host_.records.TryLock(attachment_.id);
    if (!lock || attachment_.state == State::kDead) {
      return;
    }
    const attachment::Scope scope = {.extent = attachment::Scope::Extent::kOne, .record = &record_};
    const Mismatches found = attachment::Reconcile(host_, scope, Mode::kLook).mismatches;
    are_rules_whole_ = causes::AreRulesWhole(found);
    is_table_whole_ = std::ranges::all_of(found.left(), [](const Mismatch& each) {
      return each.area != Mismatch::Area::kTable && each.area != Mismatch::Area::kElement;
    });
    const std::string& bridge = record_.link.bridge;
    for (const Mismatch& mismatch : found.left()) {
      const bool is_stray = mismatch.part == attachment::kStrayUplink;
      sides_.host.push_back({.text = mismatch.text,
                             .fix = is_stray ? TakeOutStray(bridge) : FixOf(mismatch),
                             .ends = !is_stray && Ends(mismatch)});
    }
    const bool ends = IsWayOfPorts(bridge);
    AddToHost(link::FindLostUplinks(host_, bridge), ends);
    for (const link::IdleLink& idle : link::FindIdleUplinks(host_, bridge)) {
      sides_.host.push_back(
          {.text = idle.text, .fix = idle.fix, .is_passing = idle.is_passing, .ends = ends});
    }
    AddToHost(link::FindLostAddresses(host_, bridge), false);
    if (const std::optional<rtnl::Link> link = host_.net.FindLink(bridge)) {
      AddToHost(link::FindDarkPorts(host_, *link, link::FindUplinks(host_.net, *link)), false);
    }
  }

  void AddToHost(const std::vector<Mismatch>& mismatches, bool ends) {
    for (const Mismatch& mismatch : mismatches) {
      sides_.host.push_back({.text = mismatch.text, .fix = mismatch.fix, .ends = ends});
    }
  }

  // A reconcile would take our bridge for a LAN's instead.
  [[nodiscard]] Fix TakeOutStray(const std::string& bridge) {
    const std::optional<rtnl::Link> link = host_.net.FindLink(bridge);
    const std::set<std::string> strays =
        link ? link::FindUplinks(host_.net, *link) : std::set<std::string>();
    return strays.empty() ? Fix::Advice("nomad-bridge reconcile")
                          : Fix(Format("ip link set {} nomaster", ShellWord(*strays.begin())));
  }

  // Whether what comes for a published port that was asked for comes by `bridge`.
  [[nodiscard]] bool IsWayOfPorts(const std::string& bridge) {
    return std::ranges::any_of(record_.rules.ports, [&](const portmap::DnatEntry& port) {
      const auto uplink =
          IsMeant(port) ? planner_.Plan(record_, port, client_).uplink : std::nullopt;
      return uplink && uplink->name == bridge;
    });
  }

  void LookInside(const netlink::Netns& netns) {
    causes::Interior inside{netns, record_};
    sides_.container = causes::FindInContainer(inside, client_);
    for (Cause& cause : causes::FindHopLimit(inside)) {
      cause.ends = !client_ || !host_.net.AllAddresses().contains(*client_);
      sides_.container.push_back(std::move(cause));
    }
    AddNew(sides_.container, causes::FindArpIgnoredInside(inside), true);
    for (const Cause& refused : causes::FindWhatCheckRefuses(inside)) {
      AddNote(refused.text);
    }
    AddNotes(causes::FindTrafficControlInside(inside));
    nft::Socket nft_inside = nft::Socket::In(netns);
    std::vector<std::uint16_t> queues;
    netlink::InNetns(netns, [&] { queues = nft::ReadQueues(); });
    nft::Ruleset rules_inside(nft_inside, std::move(queues));
    std::vector<Listening> all = causes::FindListeners(inside, rules_inside);
    std::stable_partition(
        all.begin(), all.end(), [&](const Listening& each) { return IsMeant(each.port); });
    const std::vector<Listening> listened = TakeListened(all);
    for (const Listening& listening : all) {
      AddNew(sides_.container, causes::FindInService(record_, listening), IsMeant(listening.port));
    }
    if (listened.empty()) {
      return;
    }
    const auto xfrm_inside = rtnl::XfrmPolicies::In(netns);
    for (const Listening& listening : listened) {
      const portmap::DnatEntry& port = listening.port;
      if (client_ && client_->family() != port.container_ip.family()) {
        continue;
      }
      causes::Journey journey = planner_.Plan(record_, port, client_);
      journey.marks = causes::FindMarks(facts_, journey);
      const bool is_meant = IsMeant(port);
      LookOnTheWay(journey, is_meant);
      AddNew(sides_.container, causes::FindInAnswers(host_, inside, journey), is_meant);
      AddNew(sides_.container, causes::FindInXfrmInside(xfrm_inside, journey), is_meant);
      if (!listening.is_redirected) {
        AddNew(sides_.container,
               causes::FindInContainerRules(inside, rules_inside, journey),
               is_meant);
      }
      if (sides_.FindCause() == nullptr) {
        AddNew(sides_.path, causes::FindSilentContainer(facts_, journey), is_meant);
      }
    }
  }

  void LookOnTheWay(const causes::Journey& journey, bool is_meant) {
    Causes on_node = causes::FindOnNode(facts_, journey);
    const std::optional<std::string> lacks = causes::FindNoWayBeyond(facts_, journey);
    if (lacks && !causes::HasLostWayBeyond(facts_, journey)) {
      AddNote(*lacks);
    }
    std::erase_if(on_node, [&](const Cause& cause) {
      return std::ranges::find(sides_.host, cause.text, &Cause::text) != sides_.host.end();
    });
    AddNew(sides_.path, std::move(on_node), is_meant);
    AddNew(sides_.path, causes::FindToContainer(facts_, journey), is_meant);
    AddNotes(causes::FindTrafficControl(host_, journey));
    Try([&] { AddNew(sides_.path, causes::FindInPolicies(host_, journey), is_meant); });
    if (are_rules_whole_) {
      const Causes in_rules = causes::FindInRules(facts_, journey);
      AddNew(sides_.path, in_rules, is_meant);
      AddNew(sides_.path,
             causes::FindInOwnRules(facts_, journey, in_rules.empty()),
             is_meant && !journey.uplink);
      AddNotes(causes::FindBesideInRules(facts_, journey));
    }
    AddNew(sides_.path, causes::FindInXfrm(facts_, journey), is_meant);
    AddNotes(causes::FindFixedGateway(facts_, journey));
    if (std::ranges::none_of(sides_.path, &Cause::ends)) {
      AddNew(sides_.path, causes::FindSilentGateway(facts_, journey), is_meant);
    }
  }

  // Whether `port` is the one that was asked for; if none was, all are.
  [[nodiscard]] bool IsMeant(const portmap::DnatEntry& port) const {
    const auto is_named = [&](const portmap::DnatEntry& each) {
      return std::to_string(each.host_port) == name_;
    };
    return is_named(port) || std::ranges::none_of(record_.rules.ports, is_named);
  }

  // The ports that are looked at: those that somebody listens on. What is published for several
  // protocols or families is a fault only where none of them is listened on: of the families that
  // of the client, where one is named.
  std::vector<Listening> TakeListened(const std::vector<Listening>& all) {
    std::vector<Listening> listened;
    for (const Listening& listening : all) {
      const auto other_that = [&](bool Listening::*is) {
        return std::ranges::find_if(all, [&](const Listening& each) {
          return each.*is && each.port.container_port == listening.port.container_port &&
                 (!client_ || client_->family() == each.port.container_ip.family());
        });
      };
      const auto answered = other_that(&Listening::is_answered);
      const auto wrong = other_that(&Listening::has_any);  // which is a fault itself
      if (listening.is_answered) {
        listened.push_back(listening);
      } else if (answered != all.end()) {
        AddNote(Format(
            "{}, but {} is answered{}",
            listening.mismatch,
            answered->where,
            answered->where == listening.where ? Cat(" on ", answered->port.container_ip) : ""));
      } else if (wrong != all.end() && !listening.has_any) {
        AddNote(Format("{}, but {} has one", listening.mismatch, wrong->where));
      } else {
        AddNew(sides_.container,
               {{.text = listening.mismatch,
                 .fix = Fix::Advice(
                     "let its task listen there, or publish the port that it listens on")}},
               IsMeant(listening.port));
      }
    }
    return listened;
  }

  void AddNotes(const std::vector<std::string>& notes) {
    for (const std::string& note : notes) {
      AddNote(note);
    }
  }

  void AddNote(const std::string& note) {
    if (!Contains(sides_.notes, note)) {
      sides_.notes.push_back(note);
    }
  }

  // Whether what differs keeps the packets of a port that was asked for from their way.
  [[nodiscard]] bool Ends(const Mismatch& mismatch) {
    const auto is_concerned = [&](const portmap::DnatEntry& port) {
      const Family family = port.container_ip.family();
      return IsMeant(port) && mismatch.family.value_or(family) == family &&
             (!IsOfIptables(mismatch) || IsDroppedOnNode(port)) &&
             (!IsBridgeName(mismatch) || IsEndedByBridgeName(port));
    };
    return !IsPassing(mismatch) && !IsOfOtherPolicies(mismatch) &&
           (record_.rules.ports.empty() ? !IsBridgeName(mismatch)
                                        : std::ranges::any_of(record_.rules.ports, is_concerned));
  }

  // Packets go by no names of ports, and without the filter of a port more of them pass. What comes
  // back to whom it was sent by is one of many connections.
  static bool IsPassing(const Mismatch& mismatch) {
    using Area = Mismatch::Area;
    constexpr std::array kOthers = {
        Area::kLease, Area::kRecord, Area::kLeftOver, Area::kPolicy, Area::kLocalhost};
    const std::array<std::string, 2> passing = {
        link::kHairpinMode, Cat("table ", nft::Text(firewall::TableId(nft::TableFamily::kBridge)))};
    const bool is_port_name = mismatch.part == link::kLinkName && !IsBridgeName(mismatch);
    return Contains(kOthers, mismatch.area) || Contains(passing, mismatch.part) || is_port_name;
  }

  static bool IsBridgeName(const Mismatch& mismatch) {
    return mismatch.area == Mismatch::Area::kBridge && mismatch.part == link::kLinkName;
  }

  // Ours in iptables' tables in nf_tables; iptables-legacy's name their chain.
  static bool IsOfIptables(const Mismatch& mismatch) {
    return mismatch.area == Mismatch::Area::kStaticRules && mismatch.owner.empty();
  }

  // They are needed only where something drops what they would accept. Without our table nobody
  // would mark that.
  [[nodiscard]] bool IsDroppedOnNode(const portmap::DnatEntry& port) {
    return !is_table_whole_ ||
           !causes::FindInRules(facts_, planner_.Plan(record_, port, client_)).empty();
  }

  // Rules of ours and of others know the bridge by its name.
  [[nodiscard]] bool IsEndedByBridgeName(const portmap::DnatEntry& port) {
    return causes::IsEndedByBridgeName(facts_, planner_.Plan(record_, port, client_));
  }

  // A chain of policies that does not judge what comes for this allocation.
  [[nodiscard]] bool IsOfOtherPolicies(const Mismatch& mismatch) const {
    const bool is_incoming = mismatch.part.starts_with("chain in-");
    const auto is_about = [&](const nft::Chain& chain) {
      return mismatch.part == Cat("chain ", chain.name);
    };
    return mismatch.part.starts_with("chain out-") ||
           (is_incoming &&
            std::ranges::none_of(
                rules::TableOfKind(host_.policy.Program(), record_.Workload()).chains, is_about));
  }

  // Chains that drop whatever is forwarded: also what an allocation asks itself.
  void LookForDrops() {
    if (sides_.path.empty() && are_rules_whole_) {
      const int mark_bit = record_.rules.forward_hook.accept_mark_bit;
      for (const auto& [what, fix] : firewall::FindForeignDrops(host_.nft, mark_bit)) {
        sides_.path.push_back({.text = what, .fix = fix});
      }
    }
  }

  state::Host& host_;
  const Attachment& attachment_;
  const state::Record& record_;
  const std::optional<Ip>& client_;
  const std::string& name_;
  causes::NodeFacts facts_{host_};
  causes::Planner planner_{facts_};
  bool are_rules_whole_ = true;
  bool is_table_whole_ = true;  // of these, ours
  SideMismatches sides_;
};

}  // namespace

const Cause* SideMismatches::FindCause() const {
  for (const Causes* const side : {&host, &path, &container}) {
    const auto ends = std::ranges::find_if(*side, &Cause::ends);
    if (ends != side->end()) {
      return &*ends;
    }
  }
  return nullptr;
}

SideMismatches FindSideMismatches(state::Host& host,
                                  const Attachment& attachment,
                                  const std::optional<Ip>& client,
                                  const std::string& name) {
  return Inspection(host, attachment, client, name).Run();
}

}  // namespace nomad_bridge::cli
