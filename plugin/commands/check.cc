#include <utility>

#include "base/append.h"
#include "plugin/attachment/repair.h"
#include "plugin/commands/check_errors.h"
#include "plugin/commands/commands.h"
#include "plugin/link/container.h"
#include "plugin/state/host.h"
#include "plugin/takeover/reference.h"

namespace nomad_bridge::commands {
namespace {

// Mended on the way, unless the config forbids it.
std::vector<std::string> DiffOurs(state::Host& host,
                                  const config::Config& config,
                                  const state::Record& record) {
  if (!config.repair_on_check) {
    return attachment::DiffHostSide(host, record);
  }
  return attachment::RepairHostSide(host, config.link, record);
}

}  // namespace

void CheckInterface(const cni::Request& request, const cni::PluginType& type) {
  const config::Config config = config::ParseConfig(request, type);
  const cni::Result& expected = RequirePrevResult(config);
  state::Host host = state::Host::Open();
  link::Container container = link::OpenContainer(request, host);
  const RangeLock mine = host.records.Lock(request.id);

  std::optional<state::Record> record = host.records.Find(request.id);
  const bool has_link = record && record->Has(cni::Part::kLink);
  const bool is_reference = !has_link && takeover::IsReferenceMade(host, request, config);
  std::vector<std::string> mismatches =
      is_reference
          ? takeover::DiffReference(host, request, type, config)
          : DiffOurs(host, config, RequireRecord(std::move(record), request.id, container.netns));
  if (const std::optional<cni::DelegatedIpam> delegated_ipam =
          cni::FindDelegatedIpam(request, config.ipam.type)) {
    cni::InvokeIpam(*delegated_ipam, cni::Verb::kCheck, request.id, request.netns_path);
  }
  Append(
      mismatches,
      link::DiffContainer(container, request, expected, config.link.disable_container_interface));
  if (type.Provides(cni::Part::kLoopback)) {
    Append(mismatches, link::DiffLoopback(container));
  }
  ThrowIfChanged(request.id, mismatches);
}

}  // namespace nomad_bridge::commands
