#include "plugin/causes/in_policies.h"

#include "base/text.h"
#include "plugin/policy/judge.h"

namespace nomad_bridge::causes {
namespace {

using Place = Connection::Place;

policy::End EndOf(Place place, const std::optional<state::Record>& record, const Ip& address) {
  policy::End end = {.address = address, .is_node = place == Place::kNode};
  if (record) {
    end.workload = record->Workload();
  }
  return end;
}

// "api#deny0" means that no allow could help; "api" means that an allow is missing.
Fix FixOf(state::Host& host, const std::string& rule) {
  const std::string& directory = host.policy.Directory();
  const std::string policy = rule.substr(0, rule.find('#'));
  return Fix::Advice(
      Format("{} policy {} in {}, if it is to be let in, then: nomad-bridge policy apply {}",
             policy == rule ? "an entry for it among the allows of" : "an exception in",
             policy,
             directory,
             ShellWord(directory)));
}

}  // namespace

Causes FindInPolicies(state::Host& host, const Connection& connection) {
  const policy::Program& program = host.policy.Program();
  if (program.empty()) {
    return {};
  }
  const policy::Answer answer =
      policy::Judge(program,
                    {.from = EndOf(connection.from, connection.client_record, connection.source),
                     .to = EndOf(connection.to, connection.server_record, connection.server),
                     .protocol = connection.protocol,
                     .port = connection.server_port});
  if (answer.is_allowed) {
    return {};
  }
  return {{.text = Format("policy refuses what {} sends to {}/{}: rule {}",
                          connection.ClientText(),
                          connection.ProtocolName(),
                          connection.server_port,
                          answer.By()),
           .fix = FixOf(host, answer.By())}};
}

}  // namespace nomad_bridge::causes
