#include <algorithm>
#include <array>

#include "base/list.h"
#include "base/log.h"
#include "base/text.h"
#include "plugin/causes/trace.h"
#include "plugin/cli/answers.h"
#include "plugin/cli/attachment_view.h"
#include "plugin/cli/command.h"
#include "plugin/cli/inspection.h"
#include "plugin/cli/named_attachments.h"
#include "plugin/cli/policy_view.h"
#include "plugin/cli/target.h"
#include "plugin/cli/terminal.h"
#include "portmap/mapping.h"

namespace nomad_bridge::cli {
namespace {

// `asks_nearby`: the node and a neighbour are asked, too.
Json InspectOne(state::Host& host,
                const Attachment& attachment,
                const Inventory& inventory,
                const Question& question,
                bool asks_nearby) {
  Json json = ToJson(attachment, inventory);
  json["advice"] = attachment.IsRecordLost() ? Json(kLostRecordAdvice) : Json();
  json["diagnosis"] = Json();
  json["policies"] = Json();
  for (Json& port : json["ports"]) {
    port["connections"] = Json();
  }
  if (!attachment.record || !inventory.is_complete) {
    return json;
  }
  Inspected found = Inspect(host, attachment, question);
  found.answers = AnswersTo(question, found);
  if (asks_nearby && !found.ways.empty()) {
    Append(found.answers, FindNearby(host, attachment, inventory, question));
  }
  json["diagnosis"] = ToJson(found);
  for (std::size_t i = 0; i < json["ports"].size(); ++i) {
    json["ports"][i]["connections"] = found.connections ? Json(found.connections->at(i)) : Json();
  }
  // If policies cannot be read, the diagnosis has the reason.
  if (!IsUnknown(json)) {
    json["policies"] = PoliciesJson(host, attachment);
  }
  return json;
}

// Shows several allocations in short; several attachments of one allocation are shown whole.
std::string TextOf(const Json& document, const Arguments& arguments) {
  const Json& all = document.at("attachments");
  const auto is_of_another = [&](const Json& each) {
    return each.at("containerId") != all.front().at("containerId");
  };
  const bool is_short = arguments.Has("quiet") || std::ranges::any_of(all, is_of_another);
  const std::string trace = ShowTrace(document.at("trace"));
  if (is_short) {
    return Cat(Folded(Joined(all, "", ShowShortly), 2), Folded(trace, kHeadWidth));
  }
  const auto show_whole = [&](const Json& each) {
    const std::string result = Cat(Padded("Result", kHeadWidth), ShowAnswer(each), '\n');
    return Cat(ShowInspected(each, arguments.Has("to")), trace.empty() ? result : trace);
  };
  return Folded(Joined(all, "\n", show_whole), kHeadWidth);
}

// ---- the question

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

std::optional<Target> TargetOf(const Arguments& arguments, const Inventory& inventory) {
  const std::string* const to = arguments.Find("to");
  return to == nullptr ? std::nullopt : std::optional(ParseTarget(*to, inventory));
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

// Plans a connection from the client to the port in question, or to the first published port.
std::optional<causes::Connection> ConnectionTo(state::Host& host,
                                               const Attachment& attachment,
                                               const Question& question) {
  const portmap::DnatEntry* const port =
      FindPort(*attachment.record, question, question.client->family());
  causes::NodeFacts facts(host);
  return port == nullptr ? std::nullopt
                         : causes::Planner(facts, question.client_link)
                               .ToPort(*attachment.record, *port, *question.client);
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

int RunInspect(const Arguments& arguments) {
  const Client client = ClientOf(arguments);
  state::Host host = state::Host::OpenToLook();
  if (!client.link.empty() && !host.net.FindLink(client.link)) {
    throw UsageError(Format("-from: this node has no interface '{}'", client.link));
  }
  Inventory inventory = TakeInventory(host);
  AddReferenceMade(host, inventory);
  AddDrops(host, inventory);
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
  const bool asks_nearby = found.size() == 1 && !question.client && !question.to &&
                           question.probes && !arguments.Has("quiet");
  const Json all = ArrayOf(found, [&](const Attachment* each) {
    return InspectOne(host, *each, inventory, question, asks_nearby);
  });
  const std::optional<causes::Traced> traced =
      RunTrace(host, *found.front(), question, arguments.Has("trace"));
  const Json document = {{"attachments", all}, {"trace", traced ? Json(traced->lines) : Json()}};
  if (arguments.Has("json")) {
    PrintDocument(document);
  } else {
    Print(TextOf(document, arguments));
  }
  if (!inventory.is_complete) {
    return kUnknown;
  }
  using Outcome = causes::Traced::Outcome;
  const Outcome outcome = traced ? traced->outcome : Outcome::kAnswered;
  if (outcome == Outcome::kUnanswered || !std::ranges::all_of(all, IsWell)) {
    return kNo;
  }
  return outcome == Outcome::kUnknown || std::ranges::any_of(all, IsUnknown) ? kUnknown : kYes;
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

-from: the packet comes from that client. It enters the node by the interface
IF, or without IF by the interface of the route back to the client. If the
allocation publishes no ports, the packet goes to the ports that it listens on.
-to: the other way round, from the allocation to a service of the node, to
another allocation, or out of the node. A name of DNS is looked up with the
allocation's own resolv.conf. With -from, from that client to the allocation's
own address.
-trace: what nf_tables does, rule by rule, with the next connection that
-from's ADDRESS begins.

If several allocations of one job have that name, prints a line for each. Only
shows what the reference plugins made, and sends no packet to it.

Exit 1: something is wrong, a connection gets no answer, no allocation has that
name, or allocations of several jobs have it. Exit 2: the answer is unknown,
because inspect does not run as root, or because something cannot be read or
probed.
)",
    .flags = kInspectFlags,
    .run = RunInspect};

}  // namespace nomad_bridge::cli
