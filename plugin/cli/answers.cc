#include "plugin/cli/answers.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "base/list.h"
#include "base/text.h"
#include "plugin/causes/explain.h"
#include "plugin/causes/in_container.h"

namespace nomad_bridge::cli {
namespace {

using Place = causes::Connection::Place;

std::string FromOf(const Question& question, const Inspected& found) {
  if (question.client) {
    return question.client->Text();
  }
  const bool is_node =
      !found.ways.empty() && std::ranges::all_of(found.ways, [](const NamedWay& each) {
        return each.from == Place::kNode;
      });
  return question.to ? "" : is_node ? "the node" : "outside";
}

// Returns the link by which packets leave the node if nobody on it answers them.
std::string LeavesBy(const NamedWay& way) {
  const causes::Station& last = way.way.stations.back();
  return last.what == causes::Station::What::kLeave ? last.name : "";
}

// Asks by way of the connection. `answer` says who asks. Adds no answer if the kernel does not let
// us look: the question itself is answered by then.
void Ask(causes::NodeFacts& facts,
         const std::optional<causes::Connection>& connection,
         Answer answer,
         std::vector<Answer>& answers) {
  if (!connection) {
    return;
  }
  try {
    const causes::Diagnosis diagnosis = causes::Diagnose(facts, *connection);
    answer.address = connection->source.Text();
    answer.why = diagnosis.way.IsWhole() ? "" : diagnosis.causes.front().text;
    answers.push_back(std::move(answer));
  } catch (const Error&) {
    return;
  }
}

// Returns whether a probe from the attachment's container shows what its programs meet: the
// container is there, and handles the frames of its interface itself.
bool IsClient(const state::Record& record) {
  std::optional<causes::Inside> inside = causes::OpenInside(record);
  return inside && !causes::FindFrameReaderNote(*inside);
}

// Returns another attachment on the same bridge, with an address of `family`.
const Attachment* FindNeighbour(const Attachment& attachment,
                                const Inventory& inventory,
                                Family family) {
  const auto found = std::ranges::find_if(inventory.attachments, [&](const Attachment& each) {
    return each.state == State::kOk && each.record && each.id != attachment.id &&
           each.record->link.gateway_ifname == attachment.record->link.gateway_ifname &&
           HasFamily(each.record->ipam.addresses, family) && IsClient(*each.record);
  });
  return found == inventory.attachments.end() ? nullptr : &*found;
}

// "outside, the node and neighbours"
std::string Listed(const std::vector<std::string>& names, std::string_view last) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    text += Cat(i == 0 ? "" : i + 1 == names.size() ? Cat(' ', last, ' ') : ", ", names[i]);
  }
  return text;
}

// "answers", "gets datagrams from"
std::string_view VerbOf(const Json& diagnosis) {
  const Json& ways = diagnosis.at("ways");
  const bool has_tcp = std::ranges::any_of(ways, [](const Json& way) {
    return way.at("connection").get<std::string>().starts_with("tcp ");
  });
  return has_tcp || ways.empty() ? "answers" : "gets datagrams from";
}

std::string ShowToTarget(const Json& answer) {
  const std::string target = PlainText(answer.at("to"));
  if (!answer.at("answered")) {
    return Format("does not reach {}: {}", target, PlainText(answer.at("why")));
  }
  return answer.at("leavesBy").is_null()
             ? Cat("reaches ", target)
             : Format(
                   "what it sends to {} leaves by '{}'", target, PlainText(answer.at("leavesBy")));
}

std::string ShowToClients(const Json& answers, std::string_view verb) {
  std::vector<std::string> served;
  std::vector<std::string> others;
  std::string why;
  for (const Json& answer : answers) {
    (answer.at("answered") ? served : others).push_back(PlainText(answer.at("from")));
    why = why.empty() && !answer.at("answered") ? PlainText(answer.at("why")) : why;
  }
  if (others.empty()) {
    return Format("{} {}", verb, Listed(served, "and"));
  }
  if (served.empty()) {
    const bool is_named = Ip::Parse(others.front()).has_value();
    return Format("does not answer{}: {}", is_named ? Cat(' ', others.front()) : "", why);
  }
  return Format("{} {}, but not {}: {}", verb, Listed(served, "and"), Listed(others, "or"), why);
}

// Says why there is no answer to show.
std::string ShowNoAnswer(const Json& attachment, const Json& diagnosis) {
  const Json& unknown = diagnosis.at("unknown");
  const Json& causes = diagnosis.at("causes");
  if (!unknown.empty()) {
    return Cat("not known: ", PlainText(unknown.front()));
  }
  if (!causes.empty()) {
    return Cat("something is wrong: ", PlainText(causes.front().at("what")));
  }
  return attachment.at("ports").empty() && diagnosis.at("notes").empty()
             ? "nothing is wrong; it publishes no port: ask with -from ADDRESS or -to TARGET"
             : "nothing is wrong; no connection was tried";
}

}  // namespace

std::vector<Answer> AnswersTo(const Question& question, const Inspected& found) {
  const std::optional<Finding> cause = found.FindCause();
  if (!cause && found.ways.empty()) {
    return {};
  }
  const auto failed =
      std::ranges::find_if(found.ways, [](const NamedWay& each) { return !each.way.IsWhole(); });
  Answer answer = {.from = FromOf(question, found)};
  if (cause || failed != found.ways.end()) {
    answer.why = cause ? cause->text : failed->why;
  }
  if (question.to) {
    answer.to = question.to->Text();
    answer.leaves_by = found.ways.empty() ? "" : LeavesBy(found.ways.back());
  }
  return {answer};
}

const portmap::DnatEntry* FindPort(const state::Record& record,
                                   const Question& question,
                                   std::optional<Family> family) {
  const portmap::DnatEntry* chosen = nullptr;
  int most = -1;
  for (const portmap::DnatEntry& port : record.rules.ports) {
    const int rank = (std::to_string(port.host_port) == question.name ? 2 : 0) +
                     (port.protocol == Protocol::kTcp ? 1 : 0);
    if (port.container_ip.family() == family.value_or(port.container_ip.family()) && rank > most) {
      chosen = &port;
      most = rank;
    }
  }
  return chosen;
}

std::vector<Answer> FindNearby(state::Host& host,
                               const Attachment& attachment,
                               const Inventory& inventory,
                               const Question& question) {
  const state::Record& record = *attachment.record;
  const portmap::DnatEntry* const port = FindPort(record, question);
  causes::NodeFacts facts(host);
  causes::Planner planner(facts);
  const std::optional<causes::Connection> outside =
      port != nullptr ? planner.ToPort(record, *port, std::nullopt) : std::nullopt;
  if (!outside || outside->from != Place::kBeyond || port->protocol == Protocol::kSctp) {
    return {};
  }
  std::vector<Answer> answers;
  Ask(facts, planner.ToPort(record, *port, outside->destination), {.from = "the node"}, answers);
  const Family family = port->container_ip.family();
  if (const Attachment* const neighbour = FindNeighbour(attachment, inventory, family)) {
    const std::vector<Ip> own = AddressesOnly(neighbour->record->ipam.addresses);
    Ask(facts,
        planner.ToPort(record, *port, *std::ranges::find(own, family, &Ip::family)),
        {.from = "neighbours"},
        answers);
    if (!answers.empty() && answers.back().from == "neighbours" && !answers.back().why.empty()) {
      answers.back().from = Cat("its neighbour ", neighbour->Named());
    }
  }
  return answers;
}

std::string ShowAnswer(const Json& attachment) {
  const Json& diagnosis = attachment.at("diagnosis");
  if (diagnosis.is_null()) {
    return "not known: its record cannot be read";
  }
  const Json& answers = diagnosis.at("answers");
  if (answers.empty()) {
    return ShowNoAnswer(attachment, diagnosis);
  }
  const Json& first = answers.front();
  return Printable(first.at("from").is_null() ? ShowToTarget(first)
                                              : ShowToClients(answers, VerbOf(diagnosis)));
}

}  // namespace nomad_bridge::cli
