#include "plugin/cli/inspected.h"

#include <algorithm>
#include <iterator>

#include "base/names.h"
#include "base/text.h"
#include "netlink/conntrack/conntrack.h"
#include "plugin/cli/attachment_view.h"
#include "plugin/cli/policy_view.h"
#include "plugin/cli/terminal.h"

namespace nomad_bridge::cli {
namespace {

using Area = Finding::Area;
using Severity = Finding::Severity;

Section SectionOf(const Finding& finding) {
  if (!finding.error.empty()) {
    return Section::kUnknown;
  }
  if (finding.severity == Severity::kNote && !finding.ends) {
    return Section::kNote;
  }
  return finding.area == Area::kNode        ? Section::kPath
         : finding.area == Area::kContainer ? Section::kContainer
                                            : Section::kHost;
}

constexpr Names<Section, 5> kSectionNames = {{{Section::kHost, "host"},
                                              {Section::kPath, "path"},
                                              {Section::kContainer, "container"},
                                              {Section::kNote, "notes"},
                                              {Section::kUnknown, "unknown"}}};

using Result = causes::Station::Result;
constexpr Names<Result, 3> kResultNames = {{{Result::kPassed, "passed"},
                                            {Result::kFailed, "failed"},
                                            {Result::kNotReached, "not reached"}}};

Json WayJson(const NamedWay& named) {
  return {{"connection", named.title},
          {"answered", named.way.IsWhole()},
          {"stations", ArrayOf(named.way.stations, [](const causes::Station& each) -> Json {
             return {{"name", each.name}, {"state", NameOf(kResultNames, each.result)}};
           })}};
}

Json AnswerJson(const Answer& answer) {
  return {{"from", OrNull(answer.from)},
          {"to", OrNull(answer.to)},
          {"address", OrNull(answer.address)},
          {"answered", answer.why.empty()},
          {"leavesBy", OrNull(answer.leaves_by)},
          {"why", OrNull(answer.why)}};
}

std::string Head(std::string_view title) {
  return Padded(title, kHeadWidth);
}

std::string ShowText(const Json& text) {
  return ShowPlain(text).text;
}

// Shows each value in a line of its own, all under one heading; returns nothing without values.
std::string UnderHead(std::string_view title,
                      const Json& values,
                      std::string (*show)(const Json&) = ShowText) {
  std::string text;
  for (const Json& value : values) {
    text += Cat(Head(text.empty() ? title : ""), show(value), '\n');
  }
  return text;
}

std::string ShowLabels(const Json& attachment) {
  std::string text = Cat(Head("Allocation"), PlainText(attachment.at("allocation")));
  for (const char* const label : {"job", "group", "namespace", "network"}) {
    if (const Json& value = attachment.at(label); !value.is_null()) {
      text += Cat("  ", label, ' ', PlainText(value));
    }
  }
  return Cat(text, '\n');
}

std::string ShowPort(const Json& port) {
  const auto address = [&](const char* key) {
    return Bracketed(Ip::Parse(port.at(key).get<std::string>()).value());
  };
  const Json& connections = port.at("connections");
  const std::string target = address("containerIp");
  const std::string any = target.starts_with('[') ? "[::]" : "0.0.0.0";
  return Format("{} {}:{} -> {}:{}{}",
                PlainText(port.at("protocol")),
                port.at("hostIp").is_null() ? any : address("hostIp"),
                PlainText(port.at("hostPort")),
                target,
                PlainText(port.at("containerPort")),
                connections.is_null() || connections == 0
                    ? ""
                    : Format("   {} now", Counted(connections, "connection")));
}

std::string ShowInterface(const Json& attachment) {
  if (attachment.at("hostVeth").is_null()) {
    return "";
  }
  std::string text = Format("{}{} on {} <-> {}",
                            Head("Interface"),
                            PlainText(attachment.at("hostVeth")),
                            PlainText(attachment.at("bridge")),
                            PlainText(attachment.at("interface")));
  const Json& received = attachment.at("received");
  const Json& sent = attachment.at("sent");
  if (!received.is_null()) {
    text += Format(
        "   in {}  out {}  dropped {}",
        ShowBytes(received.at("bytes")),
        ShowBytes(sent.at("bytes")),
        received.at("dropped").get<std::uint64_t>() + sent.at("dropped").get<std::uint64_t>());
  }
  return Cat(text, '\n');
}

// "tcp 8080  eth0 ✓  prerouting ✓  route ✗  forward  nomad  container  service  answer"
std::string ShowWay(const Json& way) {
  const bool is_utf8 = ShowsUtf8();
  const auto mark = [&](const Json& state) -> std::string {
    return state == NameOf(kResultNames, Result::kPassed)
               ? Coloured(is_utf8 ? " ✓" : " ok", Colour::kGood)
           : state == NameOf(kResultNames, Result::kFailed)
               ? Coloured(is_utf8 ? " ✗" : " X", Colour::kBad)
               : "";
  };
  return Cat(PlainText(way.at("connection")),
             "  ",
             Joined(way.at("stations"), "  ", [&](const Json& each) {
               return Cat(ShowText(each.at("name")), mark(each.at("state")));
             }));
}

// Shows the findings of a section, each with its fix below; neighbouring ones with the same fix
// show it once. `arrow` marks the cause.
std::string ShowSection(std::string_view title, const Json& findings, std::string_view arrow) {
  std::string text;
  for (auto finding = findings.begin(); finding != findings.end(); ++finding) {
    text += Format("{}{}{}\n",
                   Head(text.empty() ? title : ""),
                   Coloured(ShowText(finding->at("what")), Colour::kBad),
                   finding->at("isCause") ? arrow : "");
    const std::string fix = ShowFix(*finding);
    if (std::next(finding) == findings.end() || ShowFix(*std::next(finding)) != fix) {
      text += Cat(Head(""), fix, '\n');
    }
  }
  return text;
}

std::string ShowDiagnosis(const Json& diagnosis, std::string_view arrow) {
  const auto show = [&](std::string_view title, const char* section) {
    Json on = Json::array();
    std::ranges::copy_if(diagnosis.at("causes"), std::back_inserter(on), [&](const Json& each) {
      return each.at("section") == section;
    });
    const Json& compared = diagnosis.at("compared");
    if (!on.empty() || !compared.contains(section)) {
      return ShowSection(title, on, arrow);
    }
    return Cat(Head(title), compared.at(section) ? Coloured("ok", Colour::kGood) : "?", '\n');
  };
  return Cat(UnderHead("Way", diagnosis.at("ways"), ShowWay),
             show("Host side", "host"),
             show("Path", "path"),
             show("Container", "container"),
             UnderHead("Unknown", diagnosis.at("unknown")),
             UnderHead("Note", diagnosis.at("notes")));
}

}  // namespace

FindingList Inspected::In(Section section) const {
  FindingList in;
  std::ranges::copy_if(findings, std::back_inserter(in), [&](const Finding& each) {
    return SectionOf(each) == section;
  });
  return in;
}

std::optional<Finding> Inspected::FindCause() const {
  for (const Section section : {Section::kHost, Section::kPath, Section::kContainer}) {
    const FindingList in = In(section);
    const auto ends = std::ranges::find_if(in, &Finding::ends);
    if (is_asked && ends != in.end()) {
      return *ends;
    }
  }
  return std::nullopt;
}

bool Inspected::Explains(const causes::Diagnosis& diagnosis) const {
  return !are_rules_whole || (!diagnosis.is_by_rule && FindCause());
}

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

Json ToJson(const Inspected& inspected) {
  const std::optional<Finding> cause = inspected.FindCause();
  Json json = {{"cause", cause ? Json(cause->text) : Json()},
               {"causes", Json::array()},
               {"ways", ArrayOf(inspected.ways, WayJson)},
               {"answers", ArrayOf(inspected.answers, AnswerJson)},
               {"connections", inspected.connections.value_or(std::vector<std::size_t>())},
               {"compared",
                {{"host", inspected.is_host_known}, {"container", inspected.is_container_known}}}};
  for (const auto& [section, name] : kSectionNames) {
    const FindingList in = inspected.In(section);
    json[std::string(name)] = TextsOf(in);
    for (const Finding& finding : section < Section::kNote ? in : FindingList()) {
      Json& added = json["causes"].emplace_back(FindingJson(finding));
      added["section"] = name;
      added["isCause"] = finding == cause;
    }
  }
  return json;
}

bool IsUnknown(const Json& attachment) {
  const Json& diagnosis = attachment.at("diagnosis");
  return !diagnosis.is_null() && !diagnosis.at("unknown").empty();
}

bool IsWell(const Json& attachment) {
  const Json& diagnosis = attachment.at("diagnosis");
  return attachment.at("state") != Text(State::kDead) && attachment.at("advice").is_null() &&
         (diagnosis.is_null() || diagnosis.at("causes").empty());
}

std::string ShowInspected(const Json& attachment, bool is_to) {
  const Json& ports = attachment.at("ports");
  const Json& diagnosis = attachment.at("diagnosis");
  const Cell state = ShowState(attachment.at("state"));
  const std::string_view arrow = ports.empty() || is_to ? "      <- why there is no answer"
                                                        : "      <- why the port does not answer";
  return Cat(ShowLabels(attachment),
             ports.empty()
                 ? Cat(Head("Address"), ShowAddresses(attachment.at("addresses")).text, '\n')
                 : UnderHead("Published", ports, ShowPort),
             ShowInterface(attachment),
             UnderHead("Policies", ShowPolicies(attachment.at("policies"))),
             UnderHead("Dropped", attachment.at("drops"), ShowWithFix),
             Head("State"),
             Coloured(state.text, state.colour),
             '\n',
             attachment.at("advice").is_null()
                 ? ""
                 : Cat(Head(""), "advice: ", PlainText(attachment.at("advice")), '\n'),
             diagnosis.is_null() ? "" : ShowDiagnosis(diagnosis, arrow));
}

std::string ShowShortly(const Json& attachment) {
  const Json& diagnosis = attachment.at("diagnosis");
  std::string answer = diagnosis.is_null() ? PlainText(attachment.at("state")) : "ok";
  if (IsUnknown(attachment)) {
    answer = ShowText(diagnosis.at("unknown").front());
  }
  if (!IsWell(attachment) && !diagnosis.is_null()) {
    const Json& causes = diagnosis.at("causes");
    const auto cause =
        std::ranges::find_if(causes, [](const Json& each) -> bool { return each.at("isCause"); });
    answer = ShowWithFix(cause == causes.end() ? causes.front() : *cause);
  }
  return Format("allocation {}: {}\n", ShowName(attachment), answer);
}

std::string ShowTrace(const Json& lines) {
  constexpr const char* kNothing = "nothing came to the node's rules";
  return lines.is_null() ? "" : UnderHead("Trace", lines.empty() ? Json({kNothing}) : lines);
}

}  // namespace nomad_bridge::cli
