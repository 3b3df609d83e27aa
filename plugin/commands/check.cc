#include <utility>

#include "base/list.h"
#include "plugin/commands/check_errors.h"
#include "plugin/commands/commands.h"
#include "plugin/commands/rebuild.h"
#include "plugin/link/container.h"
#include "plugin/rules/bridge_family.h"
#include "plugin/state/host.h"
#include "plugin/takeover/reference.h"

namespace nomad_bridge::commands {
namespace {

// Repaired on the way, unless the config forbids it. What the reference plugins made is only compared.
std::vector<std::string> CheckHostSide(state::Host& host,
                                       const netlink::NetnsId& container,
                                       const cni::Request& request,
                                       const cni::PluginType& type,
                                       const config::Config& config) {
  std::optional<state::Record> found = host.records.Find(request.id);
  if (!found) {
    found =
        RebuildInterface(host, request, type, rules::WithPossibleChecks(config, host), container);
  }
  const bool is_ours = found && found->Has(cni::Part::kLink);
  if (!is_ours && takeover::IsReferenceMade(host, request, config)) {
    return takeover::DiffReference(host, request, type, config);
  }
  const state::Record record = RequireRecord(std::move(found), request.id, container);
  if (config.link.bridge != record.link.bridge) {
    return {Format(
        "it is on bridge '{}', and the config names '{}'", record.link.bridge, config.link.bridge)};
  }
  return MismatchesLeft(host, config, record);
}

std::vector<std::string> CheckContainerSide(link::Container& container,
                                            const cni::Request& request,
                                            const cni::PluginType& type,
                                            const config::Config& config) {
  const link::ExpectedState state = config.link.disable_container_interface
                                        ? link::ExpectedState::kAny
                                        : link::ExpectedState::kUp;
  std::vector<std::string> mismatches =
      link::DiffContainer(container, request, *config.prev_result, state);
  if (type.Provides(cni::Part::kLoopback)) {
    Append(mismatches, link::DiffLoopback(container));
  }
  return mismatches;
}

}  // namespace

void CheckInterface(const cni::Request& request, const cni::PluginType& type) {
  const config::Config config = config::ParseConfig(request, type);
  RequirePrevResult(config);
  state::Host host = state::Host::Open();
  link::Container container = link::OpenContainer(request, host);
  const RangeLock own = host.records.Lock(request.id);

  std::vector<std::string> mismatches = CheckHostSide(host, container.id, request, type, config);
  cni::InvokeIpamOf(request, config.ipam.type, cni::Verb::kCheck);
  Append(mismatches, CheckContainerSide(container, request, type, config));
  ThrowIfChanged(request.id, mismatches);
}

}  // namespace nomad_bridge::commands
