#include <utility>

#include "base/list.h"
#include "plugin/commands/commands.h"
#include "plugin/commands/described_record.h"
#include "plugin/commands/session.h"
#include "plugin/link/frame_reader.h"
#include "plugin/state/events.h"
#include "plugin/takeover/reference.h"

namespace nomad_bridge::commands {
namespace {

// Repairs the host's side, unless the config forbids it, and returns the mismatches that are left.
// Rebuilds a missing record. Only compares what the reference plugins made.
std::vector<std::string> CheckHostSide(Session& session,
                                       std::optional<state::Record>& found,
                                       const std::optional<rtnl::Link>& inside) {
  Mismatches rebuilt(session.mode());
  const state::RepairLog log(rebuilt);
  if (!found) {
    found = RebuildInterface(session, rebuilt);
  }
  const bool is_ours = found && found->Has(cni::Part::kLink);
  if (!is_ours && takeover::IsReferenceMade(session.host, session.request, session.config)) {
    return takeover::DiffReference(session.host, session.request, session.type, session.config);
  }
  const state::Record record = RequireRecord(session, found);
  if (session.config.link.bridge != record.link.bridge) {
    return {Format("it is on bridge '{}', and the config names '{}'",
                   record.link.bridge,
                   session.config.link.bridge)};
  }
  std::vector<std::string> mismatches = rebuilt.TextsLeft();
  Append(mismatches, MismatchesLeft(session, record));
  const auto mismatch = inside ? link::FindMacMismatch(*inside, record) : std::nullopt;
  link::Container& container = session.container;
  if (mismatch && !link::FindFrameReader(container.netns, container.net, *inside)) {
    mismatches.push_back(*mismatch);
  }
  return mismatches;
}

// Runs CHECK of the IPAM plugin that ADD used, even if the config now names another plugin.
void CheckIpam(const Session& session, const std::optional<state::Record>& record) {
  const std::string& type = session.config.ipam.type;
  if (!record) {
    cni::InvokeIpamOf(session.request, type, cni::Verb::kCheck);
  } else if (record->ipam.delegated) {
    cni::InvokeIpam(cni::WithConfigOf(session.request, type, *record->ipam.delegated),
                    cni::Verb::kCheck,
                    session.request.id,
                    session.request.netns_path);
  }
}

std::vector<std::string> CheckContainerSide(Session& session,
                                            const std::optional<rtnl::Link>& inside) {
  const link::ExpectedState state = session.config.link.disable_container_interface
                                        ? link::ExpectedState::kAny
                                        : link::ExpectedState::kUp;
  std::vector<std::string> mismatches = link::DiffContainer(
      session.container, session.request, inside, *session.config.prev_result, state);
  if (session.type.Provides(cni::Part::kLoopback)) {
    Append(mismatches, link::DiffLoopback(session.container));
  }
  return mismatches;
}

}  // namespace

void CheckInterface(const cni::Request& request, const cni::PluginType& type) {
  Session session = OpenSession(request, type);
  std::optional<state::Record> record = session.host.records.Find(request.id);
  const std::optional<rtnl::Link> inside = session.container.net.FindLink(request.id.ifname);
  std::vector<std::string> mismatches = CheckHostSide(session, record, inside);
  CheckIpam(session, record);
  Append(mismatches, CheckContainerSide(session, inside));
  ThrowIfChanged(request.id, mismatches);
}

}  // namespace nomad_bridge::commands
