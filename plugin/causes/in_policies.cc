#include "base/text.h"
#include "firewall/address_policy.h"
#include "plugin/causes/journey.h"
#include "plugin/policy/judge.h"

namespace nomad_bridge::causes {
namespace {

// An allocation by its address, the node, which nothing comes from by a link, or any other.
policy::End ClientOf(state::Host& host, const Journey& journey) {
  policy::End end = {.address = journey.client, .is_node = !journey.uplink};
  const std::optional<nft::Element> element = firewall::FindAddress(host.nft, *journey.client);
  if (const auto owner = element ? host.records.FindOwner(element->owner()) : std::nullopt) {
    end.workload = owner->Workload();
  }
  return end;
}

// "api#deny0": nothing it says will be let pass; "api": an allow is missing.
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

Causes FindInPolicies(state::Host& host, const Journey& journey) {
  const state::Record& record = *journey.record;
  const policy::Program& program = host.policy.Program();
  if (program.empty() || !journey.is_client_named || !record.Has(cni::Part::kForward)) {
    return {};
  }
  const policy::Answer answer =
      policy::Judge(program,
                    {.from = ClientOf(host, journey),
                     .to = {.workload = record.Workload(), .address = journey.port.container_ip},
                     .protocol = static_cast<policy::Ports::Protocol>(journey.port.protocol),
                     .port = journey.port.container_port});
  if (answer.is_allowed) {
    return {};
  }
  return {{.text = Format("policy refuses what {} sends to {}/{}: rule {}",
                          *journey.client,
                          journey.Protocol(),
                          journey.port.container_port,
                          answer.by),
           .fix = FixOf(host, answer.by)}};
}

}  // namespace nomad_bridge::causes
