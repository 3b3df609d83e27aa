#include <utility>

#include "plugin/checking.h"
#include "plugin/guest.h"
#include "plugin/host.h"
#include "plugin/mend.h"
#include "plugin/reference.h"
#include "plugin/verbs.h"

namespace nomad_bridge {
namespace {

void Append(std::vector<std::string>& list, const std::vector<std::string>& more) {
  list.insert(list.end(), more.begin(), more.end());
}

// Mended on the way, unless the config forbids it.
std::vector<std::string> FaultsOfOurs(Host& host, const Config& config, const Record& record) {
  if (!config.repair_on_check) {
    return FaultsOfHostSide(host, record);
  }
  return MendHostSide(host, config.link, record);
}

}  // namespace

void CheckInterface(const Request& request, const Name& name) {
  const Config config = ParseConfig(request, name);
  const Result& expected = RequirePrevResult(config);
  Host host = Host::Open();
  Guest guest = OpenGuest(request, host);
  const RangeLock mine = host.records.Lock(request.who);

  std::optional<Record> record = host.records.Find(request.who);
  const bool has_link = record && record->Has(Part::kLink);
  const bool is_reference = !has_link && IsReferenceMade(host, request, config);
  std::vector<std::string> faults =
      is_reference
          ? ReferenceFaults(host, request, name, config)
          : FaultsOfOurs(host, config, RequireRecord(std::move(record), request.who, guest.netns));
  if (const std::optional<Giver> giver = FindGiver(request, config.ipam.type)) {
    Ask(*giver, Verb::kCheck, request.who, request.netns_path);
  }
  Append(faults, Differences(guest, request, expected, config.link.disable_container_interface));
  if (name.Does(Part::kLoopback)) {
    Append(faults, LoopbackDifferences(guest));
  }
  ThrowIfChanged(request.who, faults);
}

}  // namespace nomad_bridge
