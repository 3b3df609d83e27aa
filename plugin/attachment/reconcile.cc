#include "plugin/attachment/reconcile.h"

#include <map>
#include <optional>
#include <utility>

#include "base/file_lock.h"
#include "plugin/attachment/leases.h"
#include "plugin/attachment/publish.h"
#include "plugin/attachment/segment.h"
#include "plugin/link/host_veth.h"
#include "plugin/link/liveness.h"
#include "plugin/rules/commit.h"
#include "plugin/rules/converge.h"
#include "plugin/rules/forward_hooks.h"
#include "plugin/rules/localhost.h"
#include "plugin/state/events.h"
#include "plugin/state/kernel_names.h"

namespace nomad_bridge::attachment {
namespace {

using Area = Mismatch::Area;
using Extent = Scope::Extent;
using rules::Depth;

class Reconciler {
 public:
  Reconciler(state::Host& host, const Scope& scope, ReconcileReport& report)
      : host_(host), scope_(scope), report_(report), mismatches_(report.mismatches) {
    // `up` does not log what it creates.
    if (scope.extent != Extent::kNetwork) {
      log_.emplace(report.mismatches);
    }
  }

  void Run(const Progress& progress) {
    switch (scope_.extent) {
      case Extent::kNetwork:
        return CheckNetwork(scope_.record->Finished());
      case Extent::kTables:
        return CheckTables();
      case Extent::kOne:
        return CheckOne(scope_.record->OnlyLive());
      case Extent::kRules:
        CheckRuleset({.at_least = Depth::kEverything, .valid = scope_.valid});
        return;
      case Extent::kAll:
        return CheckAll(progress);
    }
  }

 private:
  // Each step needs the step before it: a port needs its bridge, elements name links that must
  // exist, and route_localnet is safe only while the rules are in force.
  void CheckOne(const state::Record& record) {
    const std::optional<rtnl::Link> bridge = CheckSegment(host_, record, mismatches_);
    CheckOwn(record, FindVeth(record), bridge, mismatches_);
    CheckRules(host_, record, mismatches_);
    rules::CheckLocalhost(host_, record, mismatches_);
  }

  void CheckNetwork(const state::Record& record) {
    EnsureSegment(host_, record);
    if (record.HasRules()) {
      CheckRuleset({.added = &record});
      rules::CheckOtherFirewalls(host_, record, checkpoint_, mismatches_);
    }
  }

  // The socket unit runs this after every change of rules, also after our own ADDs and DELs. So it
  // reads records only if somebody else has changed a rule.
  void CheckTables() {
    if (CheckRuleset({}) == Depth::kNothing) {
      return;
    }
    for (const AttachmentId& id : host_.records.List("")) {
      const std::optional<state::Record> record = FindLive(id);
      if (record && !gateways_.contains(record->link.gateway_ifname) &&
          link::IsAlive(host_, *record)) {
        NoteGateway(*record);
      }
    }
    CheckOtherFirewalls();
  }

  void CheckAll(const Progress& progress) {
    const std::vector<rtnl::Link> listed =
        scope_.links != nullptr ? std::vector<rtnl::Link>() : host_.net.Links();
    const std::vector<rtnl::Link>& links = scope_.links != nullptr ? *scope_.links : listed;
    listed_.emplace(links);
    // Links before rules, whose elements name the links.
    const std::vector<AttachmentId> all = host_.records.List("");
    for (std::size_t done = 0; done < all.size(); ++done) {
      CheckAttachment(all[done]);
      progress(done + 1, all.size());
    }
    // One batch for all attachments.
    report_.Try(Area::kTable, "the rules", [&] {
      CheckRuleset({.at_least = Depth::kEverything, .valid = scope_.valid, .listed = &*listed_});
    });
    // After the rules, which make route_localnet safe.
    for (const auto& each : segments_) {
      const state::Record& record = each.second.record;
      report_.Try(Area::kLocalhost, Format("127.0.0.1 and network '{}'", record.id.network), [&] {
        rules::CheckLocalhost(host_, record, mismatches_);
      });
    }
    // Last: the tools of other firewalls take time. If the rules cannot be read, the report says so
    // already.
    if (host_.nft.is_open()) {
      CheckOtherFirewalls();
    }
  }

  // Checks one of many attachments. If its repair fails, the others are still repaired. Locks only
  // an attachment with a mismatch, so that no command waits for a check that finds nothing.
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
        segment.bridge = CheckSegment(host_, live, mismatches_);
      });
    }
    if (segment.is_usable) {
      report_.Try(Area::kPort, Format("container '{}'", id.container_id), [&] {
        Mismatches first_look(Mode::kLook);
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
      CheckOwn(*record, FindVeth(*record), bridge, mismatches_);
    }
  }

  void CheckOwn(const state::Record& record,
                const std::optional<rtnl::Link>& veth,
                const std::optional<rtnl::Link>& bridge,
                Mismatches& mismatches) {
    if (record.IsLive(cni::Part::kLink)) {
      link::CheckHostVeth(host_, record, veth, bridge, mismatches);
      if (!mismatches.repaired().empty()) {
        // A new bridge drops what the node sends until it has noticed the carrier of its ports.
        link::AwaitGateway(host_, record);
      }
    }
    if (record.IsLive(cni::Part::kAddress)) {
      CheckLeases(record, mismatches);
    }
  }

  [[nodiscard]] std::optional<rtnl::Link> FindVeth(const state::Record& record) {
    return record.IsLive(cni::Part::kLink)
               ? link::FindHostVeth(host_.net, record.id, link::Recorded::kYes)
               : std::nullopt;
  }

  Depth CheckRuleset(const rules::RulesetScope& scope) {
    rules::Converged converged = rules::CheckRuleset(host_, scope, mismatches_);
    checkpoint_ = std::move(converged.checkpoint);
    return converged.depth;
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
        rules::CheckOtherFirewalls(host_, each.second, checkpoint_, mismatches_);
      });
    }
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
  const Scope& scope_;
  ReconcileReport& report_;
  Mismatches& mismatches_;
  std::optional<state::RepairLog> log_;
  state::Checkpoint checkpoint_;  // as of the last comparison of the rules
  std::map<std::string, Segment> segments_;
  std::map<std::string, state::Record> gateways_;  // one record for each gateway
  std::optional<link::ListedVeths> listed_;        // for the first look at each attachment
};

}  // namespace

ReconcileReport Reconcile(state::Host& host,
                          const Scope& scope,
                          Mode mode,
                          const Progress& progress) {
  ReconcileReport report(mode);
  Reconciler(host, scope, report).Run(progress);
  return report;
}

}  // namespace nomad_bridge::attachment
