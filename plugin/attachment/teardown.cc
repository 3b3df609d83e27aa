#include "plugin/attachment/teardown.h"

#include "plugin/attachment/leases.h"
#include "plugin/cni/error_list.h"
#include "plugin/link/host_veth.h"
#include "plugin/rules/apply.h"
#include "plugin/rules/elements.h"
#include "plugin/rules/port_side_effects.h"

namespace nomad_bridge::attachment {

std::vector<std::string> TearDown(state::Host& host,
                                  const state::Record& record,
                                  const std::function<void()>& transfer_ports) {
  cni::ErrorList failures;
  failures.Try("the rules", [&] { rules::RemoveElements(host, rules::ElementsOf(record)); });
  failures.Try("its published ports", transfer_ports);
  failures.Try("stale UDP flows", [&] { rules::ForgetStaleFlows(host, record); });
  failures.Try("the link", [&] { link::EnsureLinkGone(host, record.id, link::Recorded::kYes); });
  failures.Try("the leases", [&] { ReleaseAddresses(record); });
  if (failures.empty()) {
    failures.Try("the record", [&] { host.records.EnsureGone(record.id); });
  }
  return failures.list();
}

}  // namespace nomad_bridge::attachment
