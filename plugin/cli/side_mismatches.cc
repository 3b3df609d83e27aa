#include "plugin/cli/side_mismatches.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/list.h"
#include "base/text.h"
#include "firewall/foreign_drops.h"
#include "netlink/core/netns.h"
#include "plugin/causes/explain.h"
#include "plugin/causes/in_container.h"
#include "plugin/causes/in_policies.h"
#include "plugin/causes/on_node.h"
#include "plugin/causes/reverse_path.h"
#include "plugin/cli/host_side.h"
#include "plugin/link/uplink.h"

namespace nomad_bridge::cli {
namespace {

using causes::Cause;
using causes::Causes;
using causes::Connection;
using causes::Listening;

// Adds the causes that are not in the list. Causes of a port that nobody asked for end nothing.
void AddNew(Causes& causes, Causes more, bool is_asked_for) {
  for (Cause& cause : more) {
    cause.ends = cause.ends && is_asked_for;
    if (std::ranges::find(causes, cause.text, &Cause::text) == causes.end()) {
      causes.push_back(std::move(cause));
    }
  }
}

// One connection that was probed, and why it ended.
struct Probed {
  std::string title;
  causes::Diagnosis diagnosis;

  [[nodiscard]] bool IsAnswered() const {
    return diagnosis.way.Passes(causes::Station::What::kService);
  }
};

class Inspection {
 public:
  Inspection(state::Host& host, const Attachment& attachment, const Question& question)
      : host_(host),
        attachment_(attachment),
        record_(*attachment.record),
        question_(question),
        client_(question.client),
        name_(question.name) {}

  // The namespace may disappear at any moment.
  SideMismatches Run() {
    sides_.is_host_known = Try([&] { Compare(); });
    are_rules_whole_ = are_rules_whole_ && sides_.is_host_known;
    const std::optional<netlink::Netns> netns = causes::FindNetns(record_);
    if (attachment_.state == State::kDead) {
      sides_.container = {{.text = "its namespace is gone", .fix = "nomad-bridge gc"}};
    } else if (!netns) {
      sides_.container = {
          {.text = Format("its namespace cannot be seen at '{}'", record_.netns_path),
           .fix = Fix::Advice("run this where the runtime's mounts can be seen"),
           .ends = false}};
    } else {
      sides_.is_container_known = Try([&] { LookInside(*netns); });
    }
    if (sides_.ways.empty()) {
      Try([&] { LookForDrops(); });
    }
    return std::move(sides_);
  }

 private:
  // Runs `look`. If it throws, notes the error as unknown and returns false.
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

  void Compare() {
    HostSide found = CompareHostSide(
        host_, attachment_, [&](const portmap::DnatEntry& port) { return IsMeant(port); });
    sides_.host = std::move(found.causes);
    are_rules_whole_ = found.are_rules_whole;
    // Adds only a note: the bridge may be meant to lead nowhere.
    if (record_.link.gateways.empty() && link::IsDeadEnd(host_.net, record_.link.bridge)) {
      AddNote(link::DescribeDeadEnd(record_.link.bridge));
    }
  }

  void LookInside(const netlink::Netns& netns) {
    causes::Interior inside{netns, record_};
    sides_.container = causes::FindInContainer(inside, client_);
    AddNew(sides_.container, causes::FindSmallerEnd(host_, inside), true);
    if (const std::optional<std::string> note = causes::FindFrameReaderNote(inside)) {
      AddNote(*note);
    }
    for (const std::string& note : causes::FindRouteNotes(inside)) {
      AddNote(note);
    }
    if (question_.to || (record_.rules.ports.empty() && client_)) {
      return LookAtUnpublished(inside);
    }
    std::vector<Listening> all = causes::FindListeners(inside);
    std::stable_partition(
        all.begin(), all.end(), [&](const Listening& each) { return IsMeant(each.port); });
    std::vector<std::optional<Probed>> probes = ProbeAll(all);
    const std::vector<bool> is_noted = NoteUnanswered(inside, all);
    AddNew(sides_.container, causes::FindSecondNetwork(host_, inside), true);
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!is_noted[i]) {
        LookOnTheWay(all[i].port);
      }
    }
    for (std::size_t i = 0; i < all.size(); ++i) {
      AddNew(sides_.container, causes::FindInService(record_, all[i]), IsMeant(all[i].port));
      if (probes[i] && !is_noted[i]) {
        Add(*std::move(probes[i]));
      }
    }
    ForgiveAnswered();
  }

  // Probes a connection to a port that is not published, or a connection from the allocation.
  void LookAtUnpublished(causes::Interior& inside) {
    std::vector<std::optional<Connection>> connections;
    if (!question_.to) {
      for (const std::uint16_t port : causes::FindPortsOf(inside, client_->family())) {
        connections.push_back(planner_.ToAllocation(record_, Protocol::kTcp, port, *client_));
      }
      if (connections.empty()) {
        AddNote("it publishes nothing, and listens on no port of TCP");
        return LookForRefusal();
      }
    } else if (client_) {
      connections.push_back(
          planner_.ToAllocation(record_, question_.to->protocol, question_.to->port, *client_));
    } else {
      connections.push_back(planner_.FromAllocation(
          record_, question_.to->protocol, question_.to->address, question_.to->port));
    }
    for (const std::optional<Connection>& connection : connections) {
      if (!connection) {
        AddNote("it has no address of that family");
      } else if (std::optional<Probed> probed = ProbeOne(*connection)) {
        Add(*std::move(probed));
      }
    }
    ForgiveAnswered();
  }

  // Probes a port without a listener, to see how far the client's packets get. REQUIRES: client_
  void LookForRefusal() {
    const std::optional<Connection> connection =
        planner_.ToAllocation(record_, Protocol::kTcp, PortToTry(), *client_);
    std::optional<Probed> probed = connection ? ProbeOne(*connection) : std::nullopt;
    if (probed && !probed->diagnosis.way.Passes(causes::Station::What::kContainer)) {
      Add(*std::move(probed));
    }
  }

  // Returns a port that policies open to the client, if there is any.
  [[nodiscard]] std::uint16_t PortToTry() {
    constexpr std::uint16_t kAnyPort = 80;
    for (const policy::Policy& policy :
         host_.policy.Program().PoliciesAbout(policy::Direction::kTo, record_.Workload())) {
      for (const policy::Entry& entry : policy.allow) {
        for (const policy::Ports& ports : entry.ports) {
          const std::optional<Connection> connection = planner_.ToAllocation(
              record_, Protocol::kTcp, std::max(ports.first, std::uint16_t{1}), *client_);
          if (ports.protocol == Protocol::kTcp && connection &&
              causes::FindInPolicies(host_, *connection).empty()) {
            return connection->port;
          }
        }
      }
    }
    return kAnyPort;
  }

  // Finds causes on the way to a published port that can be seen without sending anything.
  void LookOnTheWay(const portmap::DnatEntry& port) {
    if (client_ && client_->family() != port.container_ip.family()) {
      return;
    }
    const bool is_meant = IsMeant(port);
    const std::optional<Connection> connection = planner_.ToPort(record_, port, client_);
    Causes on_node = causes::FindOnNode(facts_, record_, port, connection);
    const std::optional<std::string> lacks =
        client_ ? std::nullopt : causes::FindNoWayBeyond(facts_, port);
    if (lacks && !causes::HasLostDefaultRoute(facts_, record_, port.container_ip.family())) {
      AddNote(*lacks);
    }
    std::erase_if(on_node, [&](const Cause& cause) {
      return std::ranges::find(sides_.host, cause.text, &Cause::text) != sides_.host.end();
    });
    AddNew(sides_.path, std::move(on_node), is_meant);
    AddNew(sides_.path, causes::FindToContainer(facts_, record_, port.container_ip), is_meant);
  }

  // ---- what the kernel does

  std::vector<std::optional<Probed>> ProbeAll(std::vector<Listening>& all) {
    std::vector<std::optional<Probed>> probes;
    probes.reserve(all.size());
    for (Listening& each : all) {
      const bool is_of_family = !client_ || client_->family() == each.port.container_ip.family();
      const std::optional<Connection> connection =
          IsMeant(each.port) && is_of_family ? planner_.ToPort(record_, each.port, client_)
                                             : std::nullopt;
      std::optional<Probed> probed = connection ? ProbeOne(*connection, &each.port) : std::nullopt;
      // Rules inside the container may lead packets to another port than the published one.
      each.is_answered = each.is_answered || (probed && probed->IsAnswered());
      probes.push_back(std::move(probed));
    }
    return probes;
  }

  std::optional<Probed> ProbeOne(const Connection& connection,
                                 const portmap::DnatEntry* port = nullptr) {
    if (!question_.probes) {
      AddNote("nothing was sent, so not all rules and routes on the way were checked");
      return std::nullopt;
    }
    if (connection.protocol == Protocol::kSctp) {
      AddNote("SCTP is not probed, so its way is not shown");
      return std::nullopt;
    }
    std::optional<Probed> probed;
    Try([&] { probed = Probe(connection); });
    // A named client's packets may arrive on the usual uplink although the route back leads through
    // another. Strict reverse path filtering drops them, which only its counter shows.
    if (probed && probed->diagnosis.way.IsWhole() && port != nullptr &&
        connection.is_client_named && causes::HasReversePathDropped()) {
      if (const auto other = planner_.ByUsualUplink(connection, *port)) {
        Try([&] { probed = Probe(*other); });
      }
    }
    return probed;
  }

  Probed Probe(const Connection& connection) {
    const std::string target = question_.to
                                   ? Cat(Bracketed(connection.destination), ':', connection.port)
                                   : Cat(connection.port);
    return {.title = Cat(connection.ProtocolName(), ' ', target),
            .diagnosis = causes::Diagnose(facts_, connection)};
  }

  // While our own rules are damaged, adds no causes: others may drop only packets that our rules no
  // longer accept. What was seen without a probe is more exact than a guess from the last station.
  void Add(Probed probed) {
    causes::Diagnosis& diagnosis = probed.diagnosis;
    if (diagnosis.is_by_policy && !client_ && !question_.to) {
      AddNote(diagnosis.causes.front().text);
      diagnosis.causes.clear();
    }
    has_failed_ = has_failed_ || !diagnosis.way.IsWhole();
    const Cause* const known = sides_.FindCause();
    std::erase_if(diagnosis.causes, [&](const Cause& cause) {
      return known != nullptr && !cause.fix.command.empty() && cause.fix == known->fix;
    });
    if (are_rules_whole_ && (diagnosis.is_by_rule || known == nullptr)) {
      AddNew(diagnosis.is_in_container ? sides_.container : sides_.path,
             std::move(diagnosis.causes),
             true);
    }
    sides_.ways.push_back({.title = std::move(probed.title), .way = std::move(diagnosis.way)});
  }

  // If every probed connection was answered, a fault on the node is no reason for silence unless it
  // is beyond the probe. Faults in the container remain: the kernel answers for a stopped service.
  void ForgiveAnswered() {
    if (sides_.ways.empty() || has_failed_) {
      return;
    }
    for (Causes* const side : {&sides_.host, &sides_.path}) {
      for (Cause& cause : *side) {
        cause.ends = cause.ends && cause.is_unprobed;
      }
    }
  }

  // Returns whether `port` is in question; all are, unless the typed name is a port.
  [[nodiscard]] bool IsMeant(const portmap::DnatEntry& port) const {
    const auto is_named = [&](const portmap::DnatEntry& each) {
      return std::to_string(each.host_port) == name_;
    };
    return is_named(port) || std::ranges::none_of(record_.rules.ports, is_named);
  }

  // A port that is published for several protocols or families is a fault only if nobody listens on
  // any of them; with a client, only the client's family counts. Returns for each of `all` whether
  // it is no fault although nobody answers; adds a note about it then.
  std::vector<bool> NoteUnanswered(causes::Interior& inside, const std::vector<Listening>& all) {
    std::vector<bool> is_noted;
    is_noted.reserve(all.size());
    for (const Listening& listening : all) {
      is_noted.push_back(!listening.is_answered && !FindFault(inside, listening, all));
    }
    return is_noted;
  }

  // Adds a cause and returns true if it is a fault that nobody answers on `listening`; else a note.
  bool FindFault(causes::Interior& inside,
                 const Listening& listening,
                 const std::vector<Listening>& all) {
    const auto other_that = [&](bool Listening::*is) {
      return std::ranges::find_if(all, [&](const Listening& each) {
        return each.*is && each.port.container_port == listening.port.container_port &&
               (!client_ || client_->family() == each.port.container_ip.family());
      });
    };
    const auto answered = other_that(&Listening::is_answered);
    const auto wrong = other_that(&Listening::has_any);  // a fault that is reported itself
    if (answered != all.end()) {
      AddNote(Format(
          "{}, but {} is answered{}",
          listening.mismatch,
          answered->where,
          answered->where == listening.where ? Cat(" on ", answered->port.container_ip) : ""));
      return false;
    }
    if (wrong != all.end() && !listening.has_any) {
      AddNote(Format("{}, but {} has one", listening.mismatch, wrong->where));
      return false;
    }
    const std::vector<std::uint16_t> others = causes::FindOtherPorts(inside, listening.port);
    AddNew(sides_.container,
           {{.text = listening.mismatch,
             .fix = Fix::Advice(
                 Cat("let its task listen there, or publish the port that it listens on",
                     others.empty() ? "" : ": ",
                     Joined(others, ", ")))}},
           IsMeant(listening.port));
    return true;
  }

  void AddNote(const std::string& note) {
    if (!Contains(sides_.notes, note)) {
      sides_.notes.push_back(note);
    }
  }

  // Finds chains that drop all forwarded packets, also those from an allocation.
  void LookForDrops() {
    if (are_rules_whole_) {
      const int mark_bit = record_.rules.forward_hook.accept_mark_bit;
      for (const auto& [what, fix] : firewall::FindForeignDrops(host_.nft, mark_bit)) {
        sides_.path.push_back({.text = what, .fix = fix});
      }
    }
  }

  state::Host& host_;
  const Attachment& attachment_;
  const state::Record& record_;
  const Question& question_;
  const std::optional<Ip>& client_;
  const std::string& name_;
  causes::NodeFacts facts_{host_};
  causes::Planner planner_{facts_};
  bool are_rules_whole_ = true;
  bool has_failed_ = false;  // some probed connection was not answered
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
                                  const Question& question) {
  return Inspection(host, attachment, question).Run();
}

}  // namespace nomad_bridge::cli
