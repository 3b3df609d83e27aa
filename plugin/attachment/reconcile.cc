#include "plugin/attachment/reconcile.h"

#include <map>
#include <optional>
#include <utility>

#include "base/file_lock.h"
#include "firewall/foreign_drops.h"
#include "plugin/attachment/leases.h"
#include "plugin/attachment/publish.h"
#include "plugin/attachment/segment.h"
#include "plugin/foreign/other_firewalls.h"
#include "plugin/link/host_veth.h"
#include "plugin/link/liveness.h"
#include "plugin/rules/check_ruleset.h"
#include "plugin/rules/elements.h"
#include "plugin/rules/localhost.h"
#include "plugin/state/events.h"
#include "plugin/state/kernel_names.h"

namespace nomad_bridge::attachment {
namespace {

using Area = Finding::Area;

class Reconciler {
 public:
  Reconciler(state::Host& host, ReconcileReport& report)
      : host_(host), report_(report), findings_(report.findings), log_(report.findings) {}

  // Each step needs the step before it: a port needs its bridge, elements name links that must
  // exist, and route_localnet is safe only while the rules are in force.
  void CheckOne(const state::Record& record) {
    const std::optional<rtnl::Link> bridge = CheckSegment(host_, record, findings_);
    CheckOwn(record, FindVeth(record), bridge, findings_);
    CheckOwnRules(record);
    rules::CheckLocalhost(host_, record, findings_);
  }

  // The socket unit runs this after every change of rules, also after our own ADDs and DELs. So it
  // reads one record of each network: the others need the same static rules.
  void CheckSharedRules() {
    const std::vector<state::Record> records =
        host_.records.OnePerNetwork([&](const state::Record& record) {
          // Policies also need static rules for a link without the part `forward`.
          return (record.IsLive(cni::Part::kForward) || record.IsLive(cni::Part::kLink)) &&
                 link::IsAlive(host_, record);
        });
    rules::CheckTables(host_, records, findings_);
    for (const state::Record& record : records) {
      NoteGateway(record);
    }
    CheckOtherFirewalls();
    CheckForeignDrops();
  }

  void CheckAll(const std::vector<rtnl::Link>& links, const Progress& progress) {
    listed_.emplace(links);
    // Links before rules, whose elements name the links.
    const std::vector<AttachmentId> all = host_.records.List("");
    for (std::size_t done = 0; done < all.size(); ++done) {
      CheckAttachment(all[done]);
      progress(done + 1, all.size());
    }
    // One batch for all attachments.
    const auto check_rules = [&] { rules::CheckRuleset(host_, findings_, &*listed_); };
    report_.Try(Area::kTable, "the rules", check_rules);
    // After the rules, which make route_localnet safe.
    for (const auto& each : segments_) {
      const state::Record& record = each.second.record;
      report_.Try(Area::kLocalhost, Format("127.0.0.1 and network '{}'", record.id.network), [&] {
        rules::CheckLocalhost(host_, record, findings_);
      });
    }
    // Last: the tools of other firewalls take time. If the rules cannot be read, the report says so
    // already.
    if (host_.nft.is_open()) {
      CheckOtherFirewalls();
      CheckForeignDrops();
    }
  }

 private:
  // Checks one of many attachments. If its repair fails, the others are still repaired. Locks only
  // an attachment with a finding, so that no command waits for a check that finds nothing.
  void CheckAttachment(const AttachmentId& id) {
    const std::optional<state::Record> record = host_.records.Find(id);
    if (!record) {
      return;
    }
    // If no part is live, a command works on the attachment, or a killed command left it, and GC
    // removes it.
    if (!record->IsAny(state::Phase::kLive)) {
      if (!host_.records.TryLock(id)) {
        report_.busy.push_back(id);
      }
      return;
    }
    const std::optional<rtnl::Link> veth = listed_->Find(id, link::Recorded::kYes);
    if (!link::IsAlive(host_, *record, veth)) {
      return;
    }
    ++report_.attachments;
    const state::Record live = record->OnlyLive();
    NoteGateway(live);
    // Checks what attachments share once, for the first record that needs it.
    const auto added = segments_.try_emplace(SegmentKey(live), Segment{live});
    Segment& segment = added.first->second;
    if (added.second) {
      segment.is_usable = report_.Try(Area::kBridge, Format("network '{}'", id.network), [&] {
        segment.bridge = CheckSegment(host_, live, findings_);
      });
    }
    if (segment.is_usable) {
      report_.Try(Area::kPort, Format("container '{}'", id.container_id), [&] {
        Findings first_look(Mode::kLook);
        CheckOwn(live, veth, segment.bridge, first_look);
        // The first look took no lock: a command may have been at work.
        if (!first_look.empty()) {
          CheckLocked(id, segment.bridge);
        }
      });
    }
  }

  void CheckLocked(const AttachmentId& id, const std::optional<rtnl::Link>& bridge) {
    const std::optional<FileLock> lock = host_.records.TryLock(id);
    if (!lock) {
      report_.busy.push_back(id);
    } else if (const std::optional<state::Record> record = FindLive(id)) {
      CheckOwn(*record, FindVeth(*record), bridge, findings_);
    }
  }

  void CheckOwn(const state::Record& record,
                const std::optional<rtnl::Link>& veth,
                const std::optional<rtnl::Link>& bridge,
                Findings& findings) {
    if (record.IsLive(cni::Part::kLink)) {
      Findings of_link(findings.mode());
      link::CheckHostVeth(host_, record, veth, bridge, of_link);
      const bool is_repaired = !of_link.repaired().empty();
      findings.AddAll(std::move(of_link));
      if (is_repaired) {
        // A bridge drops what the node sends until it has noticed the carrier of a new port.
        link::AwaitGateway(host_, record);
      }
    }
    if (record.IsLive(cni::Part::kAddress)) {
      CheckLeasesOf(record, findings);
    }
  }

  [[nodiscard]] std::optional<rtnl::Link> FindVeth(const state::Record& record) {
    return record.IsLive(cni::Part::kLink)
               ? link::FindHostVeth(host_.net, record.id, link::Recorded::kYes)
               : std::nullopt;
  }

  // Checks that the rules of `record`, all of whose parts are live, are in force.
  void CheckOwnRules(const state::Record& record) {
    if (rules::ElementsOf(record).empty()) {
      return;  // the kernel may not even have nf_tables
    }
    // After the tables, because the elements name their sets and chains.
    const bool is_everything_compared = rules::CheckTables(host_, {record}, findings_);
    FindingList lost =
        is_everything_compared ? FindingList() : rules::CompareElements(host_, record);
    if (!lost.empty() && findings_.is_repairing()) {
      PublishAgain(host_, record);
    }
    findings_.AddAll(std::move(lost));
    foreign::CheckOtherFirewalls(host_, record, findings_);
  }

  // Collects a gateway's interface: its forwarding is checked once, after all attachments.
  void NoteGateway(const state::Record& record) {
    if (rules::HasForwardHook(record)) {
      gateways_.try_emplace(record.link.gateway_ifname, record);
    }
  }

  void CheckOtherFirewalls() {
    for (const auto& each : gateways_) {
      report_.Try(Area::kOtherFirewall, Format("other firewalls for '{}'", each.first), [&] {
        foreign::CheckOtherFirewalls(host_, each.second, findings_);
      });
    }
  }

  // Names chains of other programs that drop everything. A reconcile changes neither them nor the
  // place of our jump in FORWARD: a drop before it may be intended.
  void CheckForeignDrops() {
    if (gateways_.empty()) {
      return;
    }
    const state::Record& record = gateways_.begin()->second;
    report_.Try(Area::kNode, "rules of other programs", [&] {
      for (Finding& drop :
           firewall::FindForeignDrops(host_.nft, record.rules.forward_hook.accept_mark_bit)) {
        if (drop.severity == Finding::Severity::kFault) {
          findings_.AddUnrepairable(std::move(drop));
        }
      }
    });
  }

  // Returns the live parts of `id`; nullopt if it has none.
  std::optional<state::Record> FindLive(const AttachmentId& id) {
    const std::optional<state::Record> record = host_.records.Find(id);
    return record && record->IsAny(state::Phase::kLive) ? std::optional(record->OnlyLive())
                                                        : std::nullopt;
  }

  struct Segment {
    state::Record record;
    std::optional<rtnl::Link> bridge;
    bool is_usable = false;
  };

  state::Host& host_;
  ReconcileReport& report_;
  Findings& findings_;
  state::RepairLog log_;
  std::map<std::string, Segment> segments_;
  std::map<std::string, state::Record> gateways_;  // one record for each gateway
  std::optional<link::ListedVeths> listed_;        // for the first look at each attachment
};

}  // namespace

ReconcileReport ReconcileAll(state::Host& host,
                             Mode mode,
                             const std::vector<rtnl::Link>* links,
                             const Progress& progress) {
  ReconcileReport report(mode);
  Reconciler(host, report).CheckAll(links != nullptr ? *links : host.net.Links(), progress);
  return report;
}

ReconcileReport ReconcileRules(state::Host& host, Mode mode) {
  ReconcileReport report(mode);
  Reconciler(host, report).CheckSharedRules();
  return report;
}

ReconcileReport ReconcileOne(state::Host& host, const state::Record& record, Mode mode) {
  ReconcileReport report(mode);
  Reconciler(host, report).CheckOne(record.OnlyLive());
  return report;
}

}  // namespace nomad_bridge::attachment
