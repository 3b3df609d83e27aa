#include "plugin/attachment/teardown.h"

#include "plugin/attachment/leases.h"
#include "plugin/cni/error_list.h"
#include "plugin/link/host_veth.h"
#include "plugin/rules/apply.h"
#include "plugin/rules/elements.h"
#include "plugin/rules/port_side_effects.h"

namespace nomad_bridge::attachment {

std::vector<std::string> TearDownRules(state::Host& host,
                                       const std::vector<nft::Element>& elements) {
  cni::ErrorList failures;
  failures.Try("the rules", [&] { rules::RemoveElements(host, elements); });
  return failures.list();
}

std::vector<std::string> TearDownLinkAndLeases(state::Host& host, const state::Record& record) {
  cni::ErrorList failures;
  failures.Try("stale UDP flows", [&] { rules::ForgetStaleFlows(host, record); });
  failures.Try("the link", [&] { link::EnsureLinkGone(host, record.id, true); });
  failures.Try("the leases", [&] { ReleaseAddresses(record); });
  return failures.list();
}

std::vector<std::string> TearDown(state::Host& host, const state::Record& record) {
  cni::ErrorList failures;
  failures.Add(TearDownRules(host, rules::ElementsOf(record)));
  failures.Add(TearDownLinkAndLeases(host, record));
  if (failures.empty()) {
    failures.Try("the record", [&] { host.records.EnsureGone(record.id); });
  }
  return failures.list();
}

}  // namespace nomad_bridge::attachment
