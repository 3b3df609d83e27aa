#include "plugin/attachment/reconcile.h"

#include <map>
#include <optional>
#include <utility>

#include "base/list.h"
#include "base/text.h"
#include "plugin/attachment/repair.h"
#include "plugin/link/liveness.h"
#include "plugin/rules/apply.h"
#include "plugin/rules/converge.h"
#include "plugin/rules/forward_hooks.h"

namespace nomad_bridge::attachment {
namespace {

// Attachments with the same key share all that RepairSegment() repairs.
std::string SegmentKey(const state::Record& record) {
  std::string key = Format("{} {} {} {} {}",
                           record.link.bridge,
                           record.link.gateway_ifname,
                           record.IsLive(cni::Part::kLink) ? "link" : "",
                           record.link.port.vlans ? "vlan" : "",
                           // Whose ports need route_localnet.
                           record.IsLive(cni::Part::kPorts) && record.rules.snat ? "snat" : "");
  for (const Cidr& gateway : record.link.gateways) {
    key += Cat(' ', gateway);
  }
  for (const std::string& ifname : record.link.foreign_host_ifnames) {
    key += Cat(' ', ifname);
  }
  return key;
}

class Reconciliation {
 public:
  Reconciliation(state::Host& host, Dry dry) : host_(host), dry_(dry) {}

  void Look(const AttachmentId& id) {
    const std::optional<RangeLock> lock = host_.records.TryLock(id);
    if (!lock) {
      findings_.busy.push_back(id);
      return;
    }
    const std::optional<state::Record> record = host_.records.Find(id);
    if (!record || !record->IsAny(state::Phase::kLive) || !link::IsAlive(host_, *record)) {
      return;
    }
    ++findings_.attachments;
    // What is shared is repaired once, for the first record that needs it.
    const auto [segment, is_first] = segments_.try_emplace(SegmentKey(*record), true);
    if (is_first) {
      segment->second =
          findings_.Try(Format("network '{}'", id.network), [&] { LookAtSegment(*record); });
    }
    if (segment->second) {
      findings_.Try(Format("container '{}'", id.container_id), [&] { LookAtOwn(*record); });
    }
    NoteGateway(*record);
  }

  void LookAtGateway(const AttachmentId& id) {
    const std::optional<state::Record> record = host_.records.Find(id);
    if (record && record->IsAny(state::Phase::kLive) &&
        !gateways_.contains(record->link.gateway_ifname) && link::IsAlive(host_, *record)) {
      NoteGateway(*record);
    }
  }

  void LookAtSharedRules() {
    findings_.Try("the rules",
                  [&] { Append(findings_.found, rules::ConvergeAfterForeignChanges(host_)); });
  }

  void LookAtRules() {
    findings_.Try("the rules", [&] {
      Append(findings_.found,
             dry_ == Dry::kYes ? rules::DiffAll(host_) : rules::ConvergeAll(host_, {}));
    });
  }

  void OpenForeignFirewalls() {
    if (dry_ == Dry::kYes) {
      return;
    }
    for (const auto& gateway : gateways_) {
      findings_.Try(Format("other firewalls for '{}'", gateway.first), [&] {
        if (std::optional<state::Checkpoint> checkpoint = host_.checkpoint.Find()) {
          rules::UpdateForeignFirewalls(host_, gateway.second, *std::move(checkpoint));
        }
      });
    }
  }

  [[nodiscard]] Findings Take() { return std::move(findings_); }

 private:
  // Repaired only if something is missing: an address besides ours is the operator's affair.
  void LookAtSegment(const state::Record& record) {
    const std::vector<std::string> mismatches = DiffSegment(host_, record);
    Append(findings_.found, mismatches);
    if (dry_ == Dry::kNo && !mismatches.empty()) {
      RepairSegment(host_, record);
    }
  }

  void LookAtOwn(const state::Record& record) {
    const std::vector<std::string> mismatches = DiffOwn(host_, record);
    Append(findings_.found, mismatches);
    if (dry_ == Dry::kNo && !mismatches.empty()) {
      for (const std::string& left : RepairOwn(host_, record)) {
        findings_.failed.push_back(Format("container '{}': {}", record.id.container_id, left));
      }
    }
  }

  void NoteGateway(const state::Record& record) {
    if (rules::HasForwardHook(record)) {
      gateways_.try_emplace(record.link.gateway_ifname, record.OnlyLive());
    }
  }

  state::Host& host_;
  Dry dry_;
  Findings findings_;
  std::map<std::string, bool> segments_;           // false: it cannot be repaired
  std::map<std::string, state::Record> gateways_;  // a record behind each
};

}  // namespace

bool IsUnchanged(state::Host& host) {
  return rules::FindCurrentCheckpoint(host).has_value();
}

Findings ReconcileAfterForeignChanges(state::Host& host) {
  Reconciliation reconciliation(host, Dry::kNo);
  reconciliation.LookAtSharedRules();
  for (const AttachmentId& id : host.records.List("")) {
    reconciliation.LookAtGateway(id);
  }
  reconciliation.OpenForeignFirewalls();
  return reconciliation.Take();
}

Findings Reconcile(state::Host& host, Dry dry, const Progress& progress) {
  Reconciliation reconciliation(host, dry);
  const std::vector<AttachmentId> all = host.records.List("");
  for (std::size_t done = 0; done < all.size(); ++done) {
    reconciliation.Look(all[done]);
    progress(done + 1, all.size());
  }
  reconciliation.LookAtRules();
  reconciliation.OpenForeignFirewalls();
  return reconciliation.Take();
}

}  // namespace nomad_bridge::attachment
