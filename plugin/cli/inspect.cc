#include <algorithm>
#include <array>

#include "base/log.h"
#include "base/text.h"
#include "netlink/conntrack/conntrack.h"
#include "plugin/causes/trace.h"
#include "plugin/cli/attachment_view.h"
#include "plugin/cli/command.h"
#include "plugin/cli/inspection.h"
#include "plugin/cli/named_attachments.h"
#include "plugin/cli/policy_view.h"
#include "plugin/cli/terminal.h"
#include "portmap/mapping.h"

namespace nomad_bridge::cli {
namespace {

// Counts the connections of each published port.
std::vector<std::size_t> CountConnections(state::Host& host, const state::Record& record) {
  std::vector<conntrack::Endpoint> endpoints;
  for (const portmap::DnatEntry& port : record.rules.ports) {
    endpoints.push_back({.protocol = static_cast<std::uint8_t>(port.protocol),
                         .address = port.container_ip,
                         .port = port.container_port});
  }
  return endpoints.empty() ? std::vector<std::size_t>()
                           : conntrack::Conntrack::In(host.netns).CountAnsweredBy(endpoints);
}

constexpr std::size_t kHeadWidth = 13;

std::string Head(std::string_view title) {
  return Padded(title, kHeadWidth);
}

std::string ShowLabels(const Attachment& attachment) {
  std::string text = Cat(Head("Allocation"), attachment.Allocation());
  for (const auto& [name, title] : {std::pair{cni::kJob, "job"},
                                    std::pair{cni::kGroup, "group"},
                                    std::pair{cni::kNamespace, "namespace"}}) {
    if (const std::string& label = attachment.Label(name); !label.empty()) {
      text += Cat("  ", title, ' ', label);
    }
  }
  return Cat(text, "  network ", attachment.id.network, '\n');
}

std::string ShowPublished(const state::Record& record, const std::vector<std::size_t>& counts) {
  std::string text;
  for (std::size_t i = 0; i < record.rules.ports.size(); ++i) {
    const portmap::DnatEntry& port = record.rules.ports[i];
    const std::string any = port.container_ip.is_ipv4() ? "0.0.0.0" : "[::]";
    text +=
        Format("{}{} {}:{} -> {}:{}{}\n",
               Head(i == 0 ? "Published" : ""),
               Text(port.protocol),
               port.host_ip ? Bracketed(*port.host_ip) : any,
               port.host_port,
               Bracketed(port.container_ip),
               port.container_port,
               counts.at(i) == 0 ? "" : Format("   {} now", Counted(counts.at(i), "connection")));
  }
  return text;
}

std::string ShowInterface(const Attachment& attachment, const Inventory& inventory) {
  if (attachment.host_veth.empty()) {
    return "";
  }
  std::string text = Format("{}{} on {} <-> {}",
                            Head("Interface"),
                            attachment.host_veth,
                            OrDash(BridgeOf(attachment, inventory)),
                            attachment.id.ifname);
  if (attachment.link && attachment.link->counters) {
    const auto& [received, sent] = *attachment.link->counters;
    text += Format("   in {}  out {}  dropped {}",
                   ShowBytes(sent.bytes),
                   ShowBytes(received.bytes),
                   received.dropped + sent.dropped);
  }
  return Cat(text, '\n');
}

// Puts the lines under one heading; returns nothing if there are none.
std::string UnderHead(std::string_view title, const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) {
    text += Cat(Head(text.empty() ? title : ""), Printable(line), '\n');
  }
  return text;
}

// Shows each finding with its fix below; neighbouring ones with the same fix show it once. `arrow`
// marks the cause.
std::string ShowSide(std::string_view title,
                     const FindingList& findings,
                     const std::optional<Finding>& cause,
                     std::string_view arrow,
                     bool is_known) {
  if (findings.empty()) {
    return Cat(Head(title), is_known ? Coloured("ok", Colour::kGood) : "?", '\n');
  }
  std::string text;
  for (auto finding = findings.begin(); finding != findings.end(); ++finding) {
    text += Format("{}{}{}\n",
                   Head(text.empty() ? title : ""),
                   Coloured(Printable(finding->text), Colour::kBad),
                   *finding == cause ? arrow : "");
    if (std::next(finding) == findings.end() || std::next(finding)->fix != finding->fix) {
      text += Cat(Head(""), ShowFix(finding->fix), '\n');
    }
  }
  return text;
}

// An attachment to inspect. `found` is nullopt if it could not be inspected.
struct Shown {
  const Attachment* attachment;
  std::optional<Inspected> found;
  bool is_to = false;  // -to was given

  [[nodiscard]] bool IsWell() const {
    return attachment->state != State::kDead && !attachment->IsRecordLost() &&
           (!found || found->IsWell());
  }
  [[nodiscard]] bool IsUnknown() const { return found && found->IsUnknown(); }
  // If policies cannot be read, the findings have the reason.
  [[nodiscard]] bool CanReadPolicies() const { return found && !IsUnknown(); }
};

Shown InspectOne(state::Host& host,
                 const Attachment& attachment,
                 const Inventory& inventory,
                 const Question& question) {
  return {.attachment = &attachment,
          .found = attachment.record && inventory.is_complete
                       ? std::optional(Inspect(host, attachment, question))
                       : std::nullopt,
          .is_to = question.to.has_value()};
}

// "eth0 ✓  prerouting ✓  route ✗  forward  nomad  container  service  answer"
std::string ShowWay(const NamedWay& named) {
  using State = causes::Station::State;
  const bool is_utf8 = ShowsUtf8();
  const auto mark = [&](State state) -> std::string {
    switch (state) {
      case State::kPassed:
        return Coloured(is_utf8 ? " ✓" : " ok", Colour::kGood);
      case State::kFailed:
        return Coloured(is_utf8 ? " ✗" : " X", Colour::kBad);
      case State::kNotReached:
        return "";
    }
    return "";
  };
  return Cat(named.title, "  ", Joined(named.way.stations, "  ", [&](const causes::Station& each) {
               return Cat(Printable(each.name), mark(each.state));
             }));
}

std::string ShowWays(const std::vector<NamedWay>& ways) {
  std::string text;
  for (const NamedWay& way : ways) {
    text += Cat(Head(text.empty() ? "Way" : ""), ShowWay(way), '\n');
  }
  return text;
}

Json WayJson(const NamedWay& named) {
  constexpr std::array kStates = {"passed", "failed", "not reached"};
  return {{"connection", named.title},
          {"answered", named.way.IsWhole()},
          {"stations", ArrayOf(named.way.stations, [&](const causes::Station& each) {
             return Json{{"name", each.name},
                         {"state", kStates.at(static_cast<std::size_t>(each.state))}};
           })}};
}

std::string ShowFindings(const Shown& shown) {
  const Inspected& found = *shown.found;
  const bool has_ports = !shown.attachment->record->rules.ports.empty();
  const std::optional<Finding> cause =
      has_ports || !found.ways.empty() ? found.FindCause() : std::nullopt;
  const std::string_view arrow = has_ports && !shown.is_to ? "      <- why the port does not answer"
                                                           : "      <- why there is no answer";
  const auto show = [&](std::string_view title, Side side, bool is_known) {
    return ShowSide(title, found.On(side), cause, arrow, is_known);
  };
  return Cat(show("Host side", Side::kHost, found.is_host_known),
             found.On(Side::kPath).empty() ? "" : show("Path", Side::kPath, true),
             show("Container", Side::kContainer, found.is_container_known),
             UnderHead("Unknown", TextsOf(found.On(Side::kUnknown))),
             UnderHead("Note", TextsOf(found.On(Side::kNote))));
}

// "'5f3c1a2b' (web/api): ok"; with the cause, or the first other finding, and its fix.
std::string ShowShortly(const Shown& shown) {
  const Attachment& attachment = *shown.attachment;
  const std::string name = Cat("allocation ", attachment.Named(), ": ");
  if (!shown.found) {
    return Cat(name, Text(attachment.state), '\n');
  }
  std::optional<Finding> wrong = shown.found->FindCause();
  for (const Finding& finding : shown.found->findings) {
    wrong = wrong || SideOf(finding) == Side::kNote ? wrong : std::optional(finding);
  }
  return Cat(name, wrong ? Printable(wrong->TextWithFix()) : std::string("ok"), '\n');
}

std::string ShowAttachment(state::Host& host, const Shown& shown, const Inventory& inventory) {
  const Attachment& attachment = *shown.attachment;
  std::string text = ShowLabels(attachment);
  if (shown.found) {
    text += ShowPublished(*attachment.record, CountConnections(host, *attachment.record));
  }
  if (!attachment.record || attachment.record->rules.ports.empty()) {
    text += Cat(Head("Address"), ShowAddresses(attachment, Extent::kAll), '\n');
  }
  text += ShowInterface(attachment, inventory);
  const Cell state = ShowState(attachment);
  if (shown.CanReadPolicies()) {
    text += UnderHead("Policies", ShowPolicies(host, attachment));
  }
  text += Cat(Head("State"), Coloured(state.text, state.colour), '\n');
  if (attachment.IsRecordLost()) {
    text += Cat(Head(""), "advice: ", kLostRecordAdvice, '\n');
  }
  return shown.found ? Cat(text, ShowWays(shown.found->ways), ShowFindings(shown)) : text;
}

Json CauseJson(const Finding& finding) {
  return {{"what", finding.text}, {"fix", finding.fix.command}, {"advice", finding.fix.advice}};
}

Json FindingsJson(state::Host& host, const Shown& shown) {
  if (!shown.found) {
    return {};
  }
  const Inspected& found = *shown.found;
  const std::optional<Finding> cause = found.FindCause();
  FindingList all;
  for (const Side side : {Side::kHost, Side::kPath, Side::kContainer}) {
    Append(all, found.On(side));
  }
  return {{"host", TextsOf(found.On(Side::kHost))},
          {"path", TextsOf(found.On(Side::kPath))},
          {"container", TextsOf(found.On(Side::kContainer))},
          {"notes", TextsOf(found.On(Side::kNote))},
          {"unknown", TextsOf(found.On(Side::kUnknown))},
          {"cause", cause ? Json(cause->text) : Json()},
          {"causes", ArrayOf(all, CauseJson)},
          {"ways", ArrayOf(found.ways, WayJson)},
          {"connections", CountConnections(host, *shown.attachment->record)}};
}

Json AttachmentJson(state::Host& host, const Shown& shown, const Inventory& inventory) {
  Json json = ToJson(*shown.attachment, inventory);
  json["diagnosis"] = FindingsJson(host, shown);
  json["policies"] = shown.CanReadPolicies() ? PoliciesJson(host, *shown.attachment) : Json();
  return json;
}

// The client of -from: ADDRESS or ADDRESS%INTERFACE.
struct Client {
  std::optional<Ip> address;  // nullopt: there is no -from
  std::string link = {};
};

Client ClientOf(const Arguments& arguments) {
  const std::string* const from = arguments.Find("from");
  if (from == nullptr) {
    if (arguments.Has("trace")) {
      throw UsageError("-trace waits for a client: name it with -from ADDRESS");
    }
    return {};
  }
  const std::size_t percent = from->find('%');
  Client client = {.address = Ip::Parse(from->substr(0, percent))};
  if (!client.address) {
    throw UsageError(Format("-from '{}' is no address; allowed: IPv4 or IPv6", *from));
  }
  client.link = percent == from->npos ? "" : from->substr(percent + 1);
  return client;
}

// ---- the question

// Returns the address, or the first address of the allocation with that name. Returns nullopt if it
// is a name that only the allocation in question can look up.
std::optional<Ip> AddressOf(const Inventory& inventory, const std::string& name) {
  const bool is_bracketed = name.size() > 2 && name.front() == '[' && name.back() == ']';
  if (const auto address = Ip::Parse(is_bracketed ? name.substr(1, name.size() - 2) : name)) {
    return address;
  }
  if (inventory.is_complete && FindAll(inventory, {{"", name}}).empty()) {
    return std::nullopt;
  }
  for (const Attachment* const each : FindOne(inventory, name)) {
    if (each->record && !each->record->ipam.addresses.empty()) {
      return each->record->ipam.addresses.front().address;
    }
  }
  throw CannotTell(Format("'{}' has no known address", name));
}

// Returns the target of -to: "10.0.0.1:22", "[2001:db8::1]:53/udp", "api:8080", "shop/api:8080";
// nullopt without -to.
std::optional<Question::Target> TargetOf(const Arguments& arguments, const Inventory& inventory) {
  const std::string* const to = arguments.Find("to");
  if (to == nullptr) {
    return std::nullopt;
  }
  Question::Target target;
  std::string place = *to;
  for (const Protocol protocol : {Protocol::kTcp, Protocol::kUdp}) {
    const std::string end = Cat('/', Text(protocol));
    if (place.ends_with(end)) {
      target.protocol = protocol;
      place.resize(place.size() - end.size());
    }
  }
  const std::size_t colon = place.rfind(':');
  target.port = colon == std::string::npos
                    ? std::uint16_t{0}
                    : FindNumber<std::uint16_t>(place.substr(colon + 1)).value_or(0);
  if (target.port == 0) {
    throw UsageError(
        Format("-to '{}' is no target; allowed: ADDRESS:PORT, [IPV6]:PORT, ALLOC:PORT or "
               "NAME:PORT, with /udp for UDP",
               *to));
  }
  place.resize(colon);
  const std::optional<Ip> address = AddressOf(inventory, place);
  target.address = address.value_or(Ip());
  target.name = address ? "" : place;
  return target;
}

// Throws UsageError if the question names a client, but the target is no address of `attachments`.
void CheckTarget(const Question& question, const Attachments& attachments) {
  const auto has_it = [&](const Attachment* each) {
    return each->record &&
           Contains(AddressesOnly(each->record->ipam.addresses), question.to->address);
  };
  if (question.client && question.to && std::ranges::none_of(attachments, has_it)) {
    throw UsageError(
        Format("-to with -from takes an address of the allocation itself, not {}",
               question.to->name.empty() ? question.to->address.Text() : question.to->name));
  }
}

// Plans a connection to the port in question, or to the first port that `attachment` publishes.
std::optional<causes::Connection> ConnectionTo(state::Host& host,
                                               const Attachment& attachment,
                                               const Question& question) {
  const Ip& client = *question.client;
  const portmap::DnatEntry* chosen = nullptr;
  for (const portmap::DnatEntry& port : attachment.record->rules.ports) {
    const bool is_asked_for = std::to_string(port.host_port) == question.name;
    if (client.family() == port.container_ip.family() &&
        (chosen == nullptr || (is_asked_for && chosen->host_port != port.host_port))) {
      chosen = &port;
    }
  }
  causes::NodeFacts facts(host);
  return chosen == nullptr ? std::nullopt
                           : causes::Planner(facts, question.client_link)
                                 .ToPort(*attachment.record, *chosen, client);
}

// Runs -trace; returns nullopt without it.
std::optional<causes::Traced> RunTrace(state::Host& host,
                                       const Attachment& attachment,
                                       const Question& question,
                                       bool is_asked) {
  if (!is_asked) {
    return std::nullopt;
  }
  RequireRoot("inspect -trace");
  constexpr std::chrono::seconds kPatience{10};
  const std::optional<causes::Connection> connection =
      attachment.record ? ConnectionTo(host, attachment, question) : std::nullopt;
  if (!connection) {
    throw CannotTell(Format("'{}' publishes no port that could be traced", question.name));
  }
  LogLine("waiting at most {} seconds for what {} sends to port {}",
          kPatience.count(),
          *question.client,
          connection->port);
  return causes::TraceClient(host, *connection, FromNow(kPatience));
}

std::string ShowTrace(const causes::Traced& traced) {
  const std::vector<std::string> nothing = {"nothing came to the node's rules"};
  return Folded(UnderHead("Trace", traced.lines.empty() ? nothing : traced.lines), kHeadWidth);
}

// Shows several allocations in short; several attachments of one allocation are shown whole.
std::string ShowAll(state::Host& host,
                    const std::vector<Shown>& all,
                    const Inventory& inventory,
                    bool is_quiet) {
  const auto is_of_another = [&](const Shown& each) {
    return each.attachment->id.container_id != all.front().attachment->id.container_id;
  };
  if (is_quiet || std::ranges::any_of(all, is_of_another)) {
    return Folded(Joined(all, "", ShowShortly), 2);
  }
  return Folded(
      Joined(all, "\n", [&](const Shown& each) { return ShowAttachment(host, each, inventory); }),
      kHeadWidth);
}

int RunInspect(const Arguments& arguments) {
  const Client client = ClientOf(arguments);
  state::Host host = state::Host::Open();
  if (!client.link.empty() && !host.net.FindLink(client.link)) {
    throw UsageError(Format("-from: this node has no interface '{}'", client.link));
  }
  const Inventory inventory = TakeInventory(host);
  RemarkOn(host, inventory);
  const std::string& name = arguments.operands.front();
  const Attachments found =
      arguments.Has("trace") ? FindOne(inventory, name) : FindOfOneJob(inventory, name);
  if (found.empty()) {
    return kNo;
  }
  const Question question = {.name = name,
                             .client = client.address,
                             .client_link = client.link,
                             .to = TargetOf(arguments, inventory),
                             .probes = !arguments.Has("no-probe")};
  CheckTarget(question, found);
  std::vector<Shown> all;
  for (const Attachment* const each : found) {
    all.push_back(InspectOne(host, *each, inventory, question));
  }
  const std::optional<causes::Traced> traced =
      RunTrace(host, *found.front(), question, arguments.Has("trace"));
  if (arguments.Has("json")) {
    const auto attachment_json = [&](const Shown& each) {
      return AttachmentJson(host, each, inventory);
    };
    PrintDocument({{"attachments", ArrayOf(all, attachment_json)},
                   {"trace", traced ? Json(traced->lines) : Json()}});
  } else {
    Print(ShowAll(host, all, inventory, arguments.Has("quiet")));
    Print(traced ? ShowTrace(*traced) : "");
  }
  if (!inventory.is_complete) {
    return kUnknown;
  }
  using Outcome = causes::Traced::Outcome;
  const Outcome outcome = traced ? traced->outcome : Outcome::kAnswered;
  if (outcome == Outcome::kUnanswered || !std::ranges::all_of(all, &Shown::IsWell)) {
    return kNo;
  }
  const bool is_unknown =
      outcome == Outcome::kUnknown || std::ranges::any_of(all, &Shown::IsUnknown);
  return is_unknown ? kUnknown : kYes;
}

constexpr std::array kInspectFlags = {
    kJsonFlag,
    Flag{"quiet", nullptr, "a line for each allocation", 'q'},
    Flag{"from", "ADDRESS[%IF]", "the client that gets no answer; default: anyone"},
    Flag{"to", "TARGET", "ADDRESS:PORT, ALLOC:PORT or NAME:PORT; UDP with /udp"},
    Flag{"no-probe", nullptr, "sends nothing: only what can be seen"},
    Flag{"trace", nullptr, "what nf_tables does with the next connection from -from"}};

}  // namespace

const Command kInspect = {
    .name = "inspect",
    .operands = {"ALLOC|PORT", 1, 1},
    .summary = "says why an allocation's port does not answer",
    .text =
        R"(ALLOC is an allocation by its ID, its job, its group, JOB/GROUP, its interface
on the host, or one of its addresses. PORT is one that it publishes. IDs and
names may be shortened to any unique prefix of two or more characters.

Compares the host's side and the container with what was configured. Then sends
one packet to each published port, as a client would, and watches what the
kernel does with the packet and with its answer. Prints the way of the packet
as a line of stations, what is wrong, and what to type against it. The answer
is caught before it leaves the node; the service accepts nothing.

-from: the packet comes from that client, and in by the interface IF; without
IF, by that of the route back to the client. If the allocation publishes no
ports, the packet goes to the ports that it listens on.
-to: the other way round, from the allocation to a service of the node, to
another allocation, or out of the node. A name of DNS is looked up with the
allocation's own resolv.conf. With -from, from that client to the allocation's
own address.
-trace: what nf_tables does, rule by rule, with the next connection that
-from's ADDRESS begins.

If several allocations of one job have that name, prints a line for each.

Exit 1: something is wrong, a connection gets no answer, no allocation has that
name, or allocations of several jobs have it. Exit 2: the answer is unknown,
because inspect does not run as root, or because something cannot be read or
probed.
)",
    .flags = kInspectFlags,
    .run = RunInspect};

}  // namespace nomad_bridge::cli
