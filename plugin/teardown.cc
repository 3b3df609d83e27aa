#include "plugin/teardown.h"

#include "plugin/addresses.h"
#include "plugin/failures.h"
#include "plugin/link.h"
#include "plugin/rules.h"

namespace nomad_bridge {

std::vector<std::string> TearDown(Host& host, const Record& record) {
  Failures failures;
  failures.Try("the rules", [&] { WithdrawRules(host, ElementsOf(record)); });
  failures.Try("stale UDP flows", [&] { ForgetStaleFlows(host, record); });
  failures.Try("the link", [&] { EnsureLinkGone(host, record.who, true); });
  failures.Try("the leases", [&] { ReleaseAddresses(record); });
  if (failures.empty()) {
    failures.Try("the record", [&] { host.records.EnsureGone(record.who); });
  }
  return failures.list();
}

std::vector<std::string> TearDownUnrecorded(Host& host,
                                            const Attachment& who,
                                            const std::string& data_dir) {
  Failures failures;
  failures.Try("the rules", [&] { WithdrawRules(host, FindRulesOf(host, who)); });
  failures.Try("the link", [&] { EnsureLinkGone(host, who, false); });
  failures.Try("the leases", [&] { ReleaseAddressesOf(who, data_dir); });
  failures.Try("the record", [&] { host.records.EnsureGone(who); });  // one that could not be read
  return failures.list();
}

}  // namespace nomad_bridge
