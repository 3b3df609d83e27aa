#include <utility>

#include "base/list.h"
#include "plugin/commands/commands.h"
#include "plugin/commands/described_record.h"
#include "plugin/commands/session.h"
#include "plugin/state/events.h"
#include "plugin/takeover/reference.h"

namespace nomad_bridge::commands {
namespace {

// The config may have an alternative name of the bridge.
bool IsSameLink(rtnl::Socket& net, const std::string& configured, const std::string& name) {
  if (configured == name) {
    return true;
  }
  const std::optional<rtnl::Link> link = net.FindLink(configured);
  return link && link->name == name;
}

// Repairs the host's side, unless the config forbids it, and returns what is left wrong. Rebuilds a
// missing record. Only compares what the reference plugins made.
std::vector<std::string> CheckHostSide(Session& session, std::optional<state::Record>& found) {
  Findings rebuilt(session.mode());
  const state::RepairLog log(rebuilt);
  if (!found) {
    found = RebuildInterface(session, rebuilt);
  }
  const bool is_ours = found && found->Has(cni::Part::kLink);
  if (!is_ours && takeover::IsReferenceMade(session.host, session.request, session.config)) {
    return takeover::DiffReference(session.host, session.request, session.type, session.config);
  }
  const state::Record record = RequireRecord(session, found);
  if (!IsSameLink(session.host.net, session.config.link.bridge, record.link.bridge)) {
    return {Format("it is on bridge '{}', and the config names '{}'",
                   record.link.bridge,
                   session.config.link.bridge)};
  }
  std::vector<std::string> texts = rebuilt.TextsLeft();
  Append(texts, FindingsLeft(session, record));
  return texts;
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

FindingList CheckContainerSide(Session& session, const std::optional<state::Record>& record) {
  const cni::Request& request = session.request;
  std::optional<link::ExpectedInterface> expected =
      link::ExpectedBy(*session.config.prev_result, request);
  if (!expected) {
    return {
        {.text = Format(
             "prevResult has no interface '{}' in '{}'", request.id.ifname, request.netns_path)}};
  }
  expected->may_be_down = session.config.link.disable_container_interface;
  rtnl::Socket& net = session.container.net;
  const std::optional<rtnl::Link> link = net.FindLink(request.id.ifname);
  const bool is_checked = record && record->Has(cni::Part::kLink) && record->link.port.source_check;
  if (is_checked && link && link->mac != record->ContainerMac()) {
    expected->mac = record->ContainerMac();
    expected->has_source_check = true;
  }
  FindingList found = link::FindInInterface(session.container, link, *expected);
  if (link && link->kind != "veth") {
    found.push_back(
        {.text = Format("interface '{}' is no longer a veth: it is '{}'", link->name, link->kind)});
  }
  if (session.type.Provides(cni::Part::kLoopback)) {
    Append(found, link::FindInLoopback(session.container));
  }
  return found;
}

}  // namespace

void CheckInterface(const cni::Request& request, const cni::PluginType& type) {
  Session session = OpenSession(request, type);
  std::optional<state::Record> record = session.host.records.Find(request.id);
  std::vector<std::string> wrong = CheckHostSide(session, record);
  CheckIpam(session, record);
  Append(wrong, TextsOf(CheckContainerSide(session, record)));
  ThrowIfChanged(request.id, wrong);
}

}  // namespace nomad_bridge::commands
