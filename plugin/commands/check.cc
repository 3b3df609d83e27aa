#include <utility>

#include "base/list.h"
#include "plugin/commands/commands.h"
#include "plugin/commands/described_record.h"
#include "plugin/commands/session.h"
#include "plugin/takeover/reference.h"

namespace nomad_bridge::commands {
namespace {

// Repaired on the way, unless the config forbids it. What the reference plugins made is only
// compared.
std::vector<std::string> CheckHostSide(Session& session) {
  std::optional<state::Record> found = session.host.records.Find(session.request.id);
  if (!found) {
    found = RebuildInterface(session);
  }
  const bool is_ours = found && found->Has(cni::Part::kLink);
  if (!is_ours && takeover::IsReferenceMade(session.host, session.request, session.config)) {
    return takeover::DiffReference(session.host, session.request, session.type, session.config);
  }
  const state::Record record = RequireRecord(session, std::move(found));
  if (session.config.link.bridge != record.link.bridge) {
    return {Format("it is on bridge '{}', and the config names '{}'",
                   record.link.bridge,
                   session.config.link.bridge)};
  }
  return MismatchesLeft(session, record);
}

std::vector<std::string> CheckContainerSide(Session& session) {
  const link::ExpectedState state = session.config.link.disable_container_interface
                                        ? link::ExpectedState::kAny
                                        : link::ExpectedState::kUp;
  std::vector<std::string> mismatches =
      link::DiffContainer(session.container, session.request, *session.config.prev_result, state);
  if (session.type.Provides(cni::Part::kLoopback)) {
    Append(mismatches, link::DiffLoopback(session.container));
  }
  return mismatches;
}

}  // namespace

void CheckInterface(const cni::Request& request, const cni::PluginType& type) {
  Session session = OpenSession(request, type);
  std::vector<std::string> mismatches = CheckHostSide(session);
  cni::InvokeIpamOf(request, session.config.ipam.type, cni::Verb::kCheck);
  Append(mismatches, CheckContainerSide(session));
  ThrowIfChanged(request.id, mismatches);
}

}  // namespace nomad_bridge::commands
