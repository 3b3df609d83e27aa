#include "plugin/cli/inspection.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "base/list.h"
#include "base/text.h"
#include "firewall/foreign_drops.h"
#include "plugin/attachment/reconcile.h"
#include "plugin/causes/explain.h"
#include "plugin/causes/in_container.h"
#include "plugin/causes/listening.h"
#include "plugin/causes/names.h"
#include "plugin/causes/on_node.h"
#include "plugin/causes/rule_cause.h"
#include "plugin/link/uplink.h"
#include "plugin/rules/tables.h"

namespace nomad_bridge::cli {
namespace {

using Area = Finding::Area;
using Severity = Finding::Severity;
using causes::Connection;
using causes::Listening;

class Inspection {
 public:
  Inspection(state::Host& host, const Attachment& attachment, const Question& question)
      : host_(host),
        attachment_(attachment),
        record_(*attachment.record),
        question_(question),
        client_(question.client) {
    result_.is_asked = !record_.rules.ports.empty() || question.to || client_;
  }

  // The namespace may disappear at any moment.
  Inspected Run() {
    if (!Try([&] { CompareHostSide(); })) {
      result_.is_host_known = false;
      result_.are_rules_whole = false;
    }
    result_.is_container_known = Try([&] {
      if (std::optional<causes::Inside> inside = OpenContainer()) {
        LookInside(*inside);
      }
    });
    if (result_.ways.empty() && result_.are_rules_whole) {
      Try([&] { LookForDrops(); });
    }
    Try([&] { result_.connections = CountConnections(host_, record_); });
    return std::move(result_);
  }

 private:
  // Runs `look`. If it throws, notes the error as unknown and returns false.
  template <typename Look>
  bool Try(Look look) {
    try {
      look();
      return true;
    } catch (const Error& error) {
      Add({{.text = error.what(), .ends = false, .error = error.what()}});
      return false;
    }
  }

  // Adds the findings that are new. Findings about a port that nobody asked for end nothing.
  void Add(FindingList more, bool is_asked_for = true) {
    for (Finding& finding : more) {
      finding.ends = finding.ends && is_asked_for;
      const auto known = std::ranges::find(result_.findings, finding.text, &Finding::text);
      if (known == result_.findings.end()) {
        result_.findings.push_back(std::move(finding));
      } else if (finding.ends && !known->ends) {
        *known = std::move(finding);
      }
    }
  }

  void AddInContainer(FindingList more, bool is_asked_for = true) {
    for (Finding& finding : more) {
      finding.area = Area::kContainer;
    }
    Add(std::move(more), is_asked_for);
  }

  void AddNote(const std::string& note) {
    Add({{.text = note, .severity = Severity::kNote, .ends = false}});
  }

  // ---- our own side of the node

  void CompareHostSide() {
    // A note: the bridge may be meant to lead nowhere.
    if (record_.link.gateways.empty() && link::IsDeadEnd(host_.net, record_.link.bridge)) {
      AddNote(link::DescribeDeadEnd(record_.link.bridge));
    }
    const std::optional<FileLock> lock = host_.records.TryLock(attachment_.id);
    if (const std::optional<Finding> killed = lock ? attachment_.FindKilled() : std::nullopt) {
      return Add({*killed});
    }
    if (!lock || attachment_.state == State::kDead) {
      result_.is_host_known = false;
      return AddNote(lock ? "it is dead, so its host side was not compared"
                          : "another command works on it, so its host side was not compared");
    }
    FindingList found = attachment::ReconcileOne(host_, record_, Mode::kLook).findings.left();
    for (Finding& finding : found) {
      result_.are_rules_whole = result_.are_rules_whole && !finding.IsOfRules();
      finding.fix = finding.FixNow();
      finding.ends = MayEnd(finding);
    }
    Add(std::move(found));
  }

  // Returns whether the finding may stop packets to a port in question.
  [[nodiscard]] bool MayEnd(const Finding& finding) {
    constexpr std::array kOthers = {Area::kLease, Area::kLeftOver, Area::kPolicy, Area::kLocalhost};
    const auto is_concerned = [&](const portmap::DnatEntry& port) {
      const Family family = port.container_ip.family();
      return IsAskedFor(port) && finding.family.value_or(family) == family;
    };
    return finding.ends && !Contains(kOthers, finding.area) &&
           !rules::IsOfOtherPolicies(host_.policy.Program(), record_.Workload(), finding.chain) &&
           (record_.rules.ports.empty() || std::ranges::any_of(record_.rules.ports, is_concerned));
  }

  // ---- the container

  std::optional<causes::Inside> OpenContainer() {
    if (attachment_.state == State::kDead) {
      AddInContainer({{.text = "its namespace is gone", .fix = "nomad-bridge gc"}});
      return std::nullopt;
    }
    std::optional<causes::Inside> inside = causes::OpenInside(record_);
    if (!inside) {
      Add({causes::UnseenNamespace(record_)});
    }
    return inside;
  }

  void LookInside(causes::Inside& inside) {
    AddInContainer(causes::FindInContainer(inside, client_));
    AddInContainer(causes::FindSmallerEnd(host_, inside));
    if (const std::optional<std::string> note = causes::FindFrameReaderNote(inside)) {
      AddNote(*note);
    }
    for (const std::string& note : causes::FindRouteNotes(inside)) {
      AddNote(note);
    }
    if (question_.to || (record_.rules.ports.empty() && client_)) {
      LookAtUnpublished(inside);
    } else {
      LookAtPublished(inside);
    }
    ForgiveAnswered();
  }

  // Probes a connection to a port that is not published, or a connection from the allocation.
  void LookAtUnpublished(causes::Inside& inside) {
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
    } else if (const std::optional<Ip> address = FindTarget(inside)) {
      connections.push_back(
          planner_.FromAllocation(record_, question_.to->protocol, *address, question_.to->port));
    }
    for (const std::optional<Connection>& connection : connections) {
      ProbeUnpublished(inside, connection);
    }
  }

  void ProbeUnpublished(causes::Inside& inside, const std::optional<Connection>& connection) {
    if (!connection) {
      return AddNote("it has no address of that family");
    }
    if (connection->IsInside() && IsOfSandbox(inside, connection->destination)) {
      return;
    }
    if (std::optional<causes::Diagnosis> diagnosis = Probe(*connection)) {
      AddProbed(*connection, *std::move(diagnosis));
      if (connection->server_record) {
        AddInContainer(causes::FindInService(*connection));
      }
    }
  }

  // Returns the address of the target; nullopt if the target is a name without an address. Then
  // also probes the way to each name server that has not answered, which shows the cause.
  [[nodiscard]] std::optional<Ip> FindTarget(causes::Inside& inside) {
    constexpr std::uint16_t kDns = 53;
    const std::string& name = question_.to->name;
    if (name.empty()) {
      return question_.to->address;
    }
    if (!question_.probes) {
      AddNote(Format("nothing was sent, so '{}' was not looked up", name));
      return std::nullopt;
    }
    causes::Resolution resolution = causes::Resolve(inside, name);
    for (const Ip& server : resolution.silent) {
      ProbeUnpublished(inside, planner_.FromAllocation(record_, Protocol::kUdp, server, kDns));
    }
    AddInContainer(std::move(resolution.causes));
    if (resolution.address) {
      AddNote(Format("'{}' is {}, by {}", name, *resolution.address, resolution.source));
    }
    return resolution.address;
  }

  // Notes that packets to `address` stay inside. Returns whether a sandbox has such packets, which
  // a probe would not show.
  [[nodiscard]] bool IsOfSandbox(causes::Inside& inside, const Ip& address) {
    AddNote(Format("{} is the allocation's own address: such packets do not leave it", address));
    return causes::FindFrameReaderNote(inside).has_value();
  }

  // Probes a port without a listener, to see how far the client's packets get. REQUIRES: client_
  void LookForRefusal() {
    const std::optional<Connection> connection =
        planner_.ToAllocation(record_, Protocol::kTcp, PortToTry(), *client_);
    std::optional<causes::Diagnosis> diagnosis = connection ? Probe(*connection) : std::nullopt;
    if (diagnosis && !diagnosis->way.Passes(causes::Station::What::kContainer)) {
      AddProbed(*connection, *std::move(diagnosis));
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

  // ---- published ports

  // A published port, and what was found out about it.
  struct Published {
    portmap::DnatEntry port;
    Listening listening;
    // nullopt: the client is of another family, or the node has no route or address for it.
    std::optional<Connection> connection;
    std::optional<causes::Diagnosis> diagnosis;  // nullopt: it was not probed
    bool is_asked_for = true;
  };

  void LookAtPublished(causes::Inside& inside) {
    std::vector<Published> all;
    std::vector<Listening> listenings = causes::FindListeners(inside);
    for (std::size_t i = 0; i < listenings.size(); ++i) {
      all.push_back(ProbePublished(record_.rules.ports[i], std::move(listenings[i])));
    }
    std::stable_partition(
        all.begin(), all.end(), [](const Published& each) { return each.is_asked_for; });
    AddInContainer(causes::FindSecondNetwork(host_, inside));
    // Without a listener, but no fault: their probes are left out.
    std::vector<const Published*> silent;
    for (const Published& each : all) {
      if (!each.listening.is_answered && !AddUnanswered(inside, each, all)) {
        silent.push_back(&each);
      } else {
        LookOnTheWay(each);
      }
    }
    for (Published& each : all) {
      AddInContainer(causes::FindInService(record_, each.listening), each.is_asked_for);
      if (each.diagnosis && !Contains(silent, static_cast<const Published*>(&each))) {
        AddProbed(*each.connection, *std::move(each.diagnosis));
      }
    }
  }

  Published ProbePublished(const portmap::DnatEntry& port, Listening listening) {
    Published published{.port = port, .listening = std::move(listening)};
    published.is_asked_for = IsAskedFor(port);
    if (client_ && client_->family() != port.container_ip.family()) {
      return published;
    }
    published.connection = planner_.ToPort(record_, port, client_);
    if (published.is_asked_for && published.connection) {
      published.diagnosis = Probe(*published.connection, &port);
    }
    // Rules inside the container may lead packets to another port than the published one.
    published.listening.is_answered =
        published.listening.is_answered ||
        (published.diagnosis && published.diagnosis->way.Passes(causes::Station::What::kService));
    return published;
  }

  // Nomad publishes every port for TCP and UDP, and few services listen on both: nobody listens is
  // a fault only if no other protocol or family of the port has a listener. Returns false if one
  // has. Clients of a family without a listener should know it.
  bool AddUnanswered(causes::Inside& inside,
                     const Published& published,
                     const std::vector<Published>& all) {
    const Listening& listening = published.listening;
    const auto is_elsewhere = [&](const Published& each) {
      return each.port.container_port == published.port.container_port &&
             (!client_ || client_->family() == each.port.container_ip.family()) &&
             (each.listening.is_answered || (each.listening.has_any && !listening.has_any));
    };
    const auto is_of_other_family = [&](const Published& each) {
      return is_elsewhere(each) && each.listening.is_answered &&
             each.port.protocol == published.port.protocol;
    };
    const auto other = std::ranges::find_if(all, is_of_other_family);
    if (other != all.end()) {
      AddNote(Format("{}, but {} is answered on {}",
                     listening.mismatch,
                     other->listening.where,
                     other->port.container_ip));
      return false;
    }
    if (std::ranges::any_of(all, is_elsewhere)) {
      return false;
    }
    const std::vector<std::uint16_t> others =
        causes::FindPortsAt(inside, published.port.protocol, published.port.container_ip);
    AddInContainer({{.text = listening.mismatch,
                     .fix = Fix::Advice(
                         Cat("let its task listen there, or publish the port that it listens on",
                             others.empty() ? "" : ": ",
                             Joined(others, ", ")))}},
                   published.is_asked_for);
    return true;
  }

  // Finds what a probe to a published port cannot see and, if there was no probe, what it would.
  void LookOnTheWay(const Published& published) {
    const portmap::DnatEntry& port = published.port;
    if (client_ && client_->family() != port.container_ip.family()) {
      return;
    }
    const std::optional<std::string> lacks =
        client_ ? std::nullopt : causes::FindNoWayBeyond(facts_, port);
    if (lacks && !causes::HasLostDefaultRoute(facts_, record_, port.container_ip.family())) {
      AddNote(*lacks);
    }
    FindingList found = causes::FindOnNode(facts_, record_, port, published.connection);
    if (!published.diagnosis) {
      Append(found, causes::FindToContainer(facts_, record_, port.container_ip));
    }
    // Packets are caught before the queue of the uplink, but requests for neighbours are not.
    if (published.is_asked_for && published.connection && published.connection->uplink) {
      FindingList queue = causes::FindBlackhole(host_.net, *published.connection->uplink);
      Append(beyond_, queue);
      Append(found, std::move(queue));
    }
    Add(std::move(found), published.is_asked_for);
  }

  // Returns whether `port` is in question; all are, unless the typed name is a port.
  [[nodiscard]] bool IsAskedFor(const portmap::DnatEntry& port) const {
    const auto is_named = [&](const portmap::DnatEntry& each) {
      return std::to_string(each.host_port) == question_.name;
    };
    return is_named(port) || std::ranges::none_of(record_.rules.ports, is_named);
  }

  // ---- what the kernel does

  // Returns nullopt if nothing was sent, or if the kernel did not let us look.
  std::optional<causes::Diagnosis> Probe(const Connection& connection,
                                         const portmap::DnatEntry* port = nullptr) {
    if (!question_.probes) {
      AddNote("nothing was sent, so not all rules and routes on the way were checked");
      return std::nullopt;
    }
    if (connection.protocol == Protocol::kSctp) {
      AddNote("SCTP is not probed, so its way is not shown");
      return std::nullopt;
    }
    std::optional<causes::Diagnosis> diagnosis;
    Try([&] { diagnosis = causes::Diagnose(facts_, connection); });
    if (diagnosis) {
      Add(diagnosis->unseen);
    }
    // A named client's packets may arrive on the usual uplink although the route back leads through
    // another. Strict reverse path filtering drops them, which only its counter shows.
    if (diagnosis && diagnosis->way.IsWhole() && port != nullptr && connection.is_client_named &&
        question_.client_link.empty() && causes::HasReversePathDropped()) {
      if (const auto other = planner_.ByUsualUplink(connection, *port)) {
        Try([&] { diagnosis = causes::Diagnose(facts_, *other); });
      }
      if (diagnosis->way.IsWhole()) {
        NoteOtherEntries(connection);
      }
    }
    return diagnosis;
  }

  // Notes the links by which the client's packets may come in, too, and are dropped there.
  void NoteOtherEntries(const Connection& connection) {
    for (const rtnl::Link& link : facts_.Uplinks()) {
      if (connection.uplink && link.index != connection.uplink->index && link.operational &&
          connection.family() == Family::kIpv4 && causes::IsReversePathStrict(link.name)) {
        AddNote(
            Format("if packets from {} come in by '{}', rp_filter drops them: ask with -from "
                   "{}%{}",
                   connection.source,
                   link.name,
                   connection.source,
                   link.name));
      }
    }
  }

  // While our own rules are damaged, adds no causes: others may drop only packets that our rules no
  // longer accept. What was seen without a probe is more exact than a guess from the last station.
  void AddProbed(const Connection& connection, causes::Diagnosis diagnosis) {
    const std::string why = diagnosis.causes.empty() ? "" : diagnosis.causes.front().text;
    if (!diagnosis.note.empty()) {
      AddNote(diagnosis.note);
    }
    has_failed_ = has_failed_ || !diagnosis.way.IsWhole();
    if (diagnosis.is_by_policy && !client_ && !question_.to) {
      AddNote(diagnosis.causes.front().text);
    } else if (!result_.Explains(diagnosis)) {
      const std::optional<Finding> known = result_.FindCause();
      std::erase_if(diagnosis.causes, [&](const Finding& cause) {
        return known && !cause.fix.command.empty() && cause.fix == known->fix;
      });
      diagnosis.is_in_container ? AddInContainer(std::move(diagnosis.causes))
                                : Add(std::move(diagnosis.causes));
    }
    const std::string target = question_.to
                                   ? Cat(Bracketed(connection.destination), ':', connection.port)
                                   : Cat(connection.port);
    result_.ways.push_back({.title = Cat(connection.ProtocolName(), ' ', target),
                            .way = std::move(diagnosis.way),
                            .from = connection.from,
                            .why = why});
  }

  // If every probed connection was answered, a fault on the node is no reason for silence unless it
  // is beyond the probe. Faults in the container remain: the kernel answers for a stopped service.
  void ForgiveAnswered() {
    if (!result_.ways.empty() && !has_failed_) {
      for (Finding& finding : result_.findings) {
        finding.ends = finding.ends && finding.area == Area::kContainer;
      }
    }
    Add(std::move(beyond_));
  }

  // Finds chains that drop all forwarded packets, also those from an allocation.
  void LookForDrops() {
    Add(firewall::FindForeignDrops(host_.nft, record_.rules.forward_hook.accept_mark_bit));
  }

  state::Host& host_;
  const Attachment& attachment_;
  const state::Record& record_;
  const Question& question_;
  const std::optional<Ip>& client_;
  causes::NodeFacts facts_{host_};
  causes::Planner planner_{facts_, question_.client_link};
  bool has_failed_ = false;  // some probed connection was not answered
  FindingList beyond_;       // faults that probes of published ports cannot see
  Inspected result_;
};

}  // namespace

Inspected Inspect(state::Host& host, const Attachment& attachment, const Question& question) {
  return Inspection(host, attachment, question).Run();
}

}  // namespace nomad_bridge::cli
