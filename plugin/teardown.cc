#include "plugin/teardown.h"

#include <algorithm>

#include "base/error.h"
#include "plugin/addresses.h"
#include "plugin/failures.h"
#include "plugin/flows.h"
#include "plugin/link.h"
#include "plugin/log.h"
#include "plugin/reference.h"
#include "plugin/rules.h"

namespace nomad_bridge {

namespace {

// On a full disk a record may say too much: whoever goes by it finds that to be gone already.
void WriteRest(Host& host, const Record& rest) {
  try {
    host.records.Write(rest);
  } catch (const Error& error) {
    Say(error.what(), ", ignoring");
  }
}

}  // namespace

std::vector<std::string> TearDown(Host& host, const Record& record) {
  Failures failures;
  failures.Try("the rules", [&] { WithdrawRules(host, ElementsOf(record)); });
  failures.Try("its hold on ports", [&] { HandOnPorts(host, record); });
  failures.Try("stale UDP flows", [&] { ForgetStaleFlows(host, record); });
  failures.Try("the link", [&] { EnsureLinkGone(host, record.who, true); });
  failures.Try("the leases", [&] { ReleaseAddresses(record); });
  if (failures.empty()) {
    failures.Try("the record", [&] { host.records.EnsureGone(record.who); });
  }
  return failures.list();
}

std::vector<std::string> TearDownRules(Host& host,
                                       const Record& record,
                                       const Parts& parts,
                                       Leaving leaving) {
  Record rest = record;
  rest.leaving = leaving;
  for (const Part part : parts) {
    rest.parts.erase(part);
  }
  std::vector<NftElement> going = ElementsOf(record);
  const std::vector<NftElement> staying = ElementsOf(rest);
  std::erase_if(going, [&](const NftElement& element) {
    return std::find(staying.begin(), staying.end(), element) != staying.end();
  });
  Failures failures;
  failures.Try("the rules", [&] { WithdrawRules(host, going); });
  if (parts.contains(Part::kPorts)) {
    failures.Try("its hold on ports", [&] { HandOnPorts(host, record); });
    failures.Try("stale UDP flows", [&] { ForgetStaleFlows(host, record); });
  }
  if (failures.empty() && rest.parts.empty()) {
    failures.Try("the record", [&] { host.records.EnsureGone(rest.who); });
  } else if (failures.empty()) {
    WriteRest(host, rest);
  }
  return failures.list();
}

void RemoveEarlier(Host& host,
                   const Attachment& who,
                   const std::optional<Record>& earlier,
                   const std::string& data_dir,
                   Undo& undo) {
  if (earlier) {
    undo.Then("remove what an earlier ADD left", [&host, earlier] {
      Failures failures;
      failures.Add(TearDown(host, *earlier));
      failures.ThrowIfAny("some of it is still there");
    });
    WithdrawRules(host, ElementsOf(*earlier));
    EnsureLinkGone(host, who, true);
  } else if (FindHostVeth(host.net, who, false) || HasReferenceRules(host, who)) {
    Failures failures;
    failures.Add(TearDownUnrecorded(host, who, data_dir));
    failures.ThrowIfAny("cannot remove what an earlier ADD without a record left");
  }
}

std::vector<std::string> TearDownUnrecorded(Host& host,
                                            const Attachment& who,
                                            const std::string& data_dir,
                                            const std::vector<Ip>& addresses) {
  Failures failures;
  failures.Try("the rules", [&] { WithdrawRules(host, FindRulesOf(host, who)); });
  failures.Try("the reference plugins' rules", [&] {
    std::vector<Ip> all = FindLeasesOf(who, data_dir);
    all.insert(all.end(), addresses.begin(), addresses.end());
    RemoveReferenceRulesOf(host, who, all, {Part::kMasquerade, Part::kForward, Part::kPorts});
  });
  failures.Try("the link", [&] { EnsureLinkGone(host, who, false); });
  failures.Try("the leases", [&] { ReleaseAddressesOf(who, data_dir); });
  if (failures.empty()) {
    failures.Try("the record", [&] { host.records.EnsureVoidGone(who); });
  }
  return failures.list();
}

}  // namespace nomad_bridge
