#include "plugin/attachment/teardown.h"

#include "base/error.h"
#include "base/list.h"
#include "base/log.h"
#include "plugin/attachment/leases.h"
#include "plugin/cni/error_list.h"
#include "plugin/link/host_veth.h"
#include "plugin/rules/apply.h"
#include "plugin/rules/elements.h"
#include "plugin/rules/port_side_effects.h"

namespace nomad_bridge::attachment {
namespace {

// If the disk is full others may repair what is being removed; the command goes on all the same.
void WritePhase(state::Host& host, const state::Record& record) {
  try {
    host.records.Write(record);
  } catch (const Error& error) {
    LogLine("{}, ignoring", error.what());
  }
}

}  // namespace

std::vector<std::string> TearDown(state::Host& host,
                                  const state::Record& record,
                                  const std::function<void()>& transfer_ports) {
  WritePhase(host, record.All(state::Phase::kLeaving));
  cni::ErrorList failures;
  failures.Try("the rules", [&] { rules::RemoveElements(host, rules::ElementsOf(record)); });
  failures.Try("its published ports", transfer_ports);
  failures.Try("stale UDP flows", [&] { rules::ForgetStaleFlows(host, record); });
  failures.Try("the link", [&] { link::EnsureLinkGone(host, record); });
  failures.Try("the leases", [&] { ReleaseAddresses(record); });
  if (failures.empty()) {
    failures.Try("the record", [&] { host.records.EnsureGone(record.id); });
  }
  return failures.list();
}

std::vector<std::string> TearDownRules(state::Host& host,
                                       const state::Record& record,
                                       const state::Record& rest,
                                       const std::function<void()>& transfer_ports) {
  cni::Parts removed;
  for (const auto& [part, phase] : record.parts) {
    if (record.Has(part) && !rest.IsLive(part)) {
      removed.insert(part);
    }
  }
  WritePhase(host, record.With(removed, state::Phase::kLeaving));
  std::vector<nft::Element> elements = rules::ElementsOf(record);
  const std::vector<nft::Element> kept = rules::ElementsOf(rest.OnlyLive());
  std::erase_if(elements, [&](const nft::Element& element) { return Contains(kept, element); });
  cni::ErrorList failures;
  failures.Try("the rules", [&] { rules::RemoveElements(host, elements); });
  if (removed.contains(cni::Part::kPorts)) {
    failures.Try("its published ports", transfer_ports);
  }
  // A port that was never committed is perhaps another's, whose flows go on.
  if (removed.contains(cni::Part::kPorts) &&
      record.parts.at(cni::Part::kPorts) != state::Phase::kMaking) {
    failures.Try("stale UDP flows", [&] { rules::ForgetStaleFlows(host, record); });
  }
  if (failures.empty() && rest.IsEmpty()) {
    failures.Try("the record", [&] { host.records.EnsureGone(rest.id); });
  } else if (failures.empty()) {
    WritePhase(host, rest);
  }
  return failures.list();
}

}  // namespace nomad_bridge::attachment
