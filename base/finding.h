// A finding is something that is wrong, or that people may take for a fault, and what to do about
// it. CHECK, reconcile, gc, doctor, inspect, up, list and metrics all show findings.
//
// A check is a function `Check...(..., Findings&)`. It adds a finding for each thing that is not as
// it should be, together with its repair. In mode kRepair, Add() repairs at once, before the check
// goes on. So the same code finds what is wrong and repairs it. Functions `Find...` return what
// they find, and repair nothing.
//
// Errors  Errors of a repair are thrown; its finding then counts as left.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fix.h"
#include "base/ip.h"
#include "base/list.h"
#include "base/names.h"
#include "base/text.h"

namespace nomad_bridge {

enum class Mode { kLook, kRepair };

struct Finding {
  enum class Area {
    kNode,        // the node beside what is ours: its links, routes, settings, others' rules
    kContainer,   // inside a container's namespace
    kBridge,      // and the gateway's addresses
    kForwarding,  // sysctls by which the node forwards
    kLocalhost,   // route_localnet, and the tc filter that makes it safe
    kPort,        // a host veth
    kLease,
    kRecord,
    kTable,          // tables, sets, chains and rules of ours
    kStaticRules,    // rules in the tables of iptables-nft and iptables-legacy
    kElement,        // of an attachment or a bridge
    kLeftOver,       // stale attachments; leases and elements without an owner
    kOtherFirewall,  // a zone of firewalld
    kPolicy,         // whether policies see the traffic of a bridge
  };
  // kNote: no fault. A policy or a rule is there on purpose, a fault ends by itself, or people
  // should know something. If it `ends` connections, inspect shows it as the cause nevertheless.
  enum class Severity { kNote, kWarning, kFault };

  Area area = Area::kNode;
  std::string owner = {};  // the bridge or container that it belongs to; empty: the node
  std::string text = {};   // "bridge 'nomad' is down"
  Fix fix = {};            // empty: nothing to do, or only the repair (is_repairable)
  Severity severity = Severity::kFault;
  bool is_repairable = false;  // by reconcile or, in area kLeftOver, by gc
  // Whether it may end connections to the owner's published ports, or those in question. false: it
  // does harm elsewhere, or none.
  bool ends = true;
  std::optional<Family> family = {};  // the family that suffers; nullopt: both
  std::string chain = {};             // the chain of ours that differs, if it is one
  std::string error = {};       // why something could not be looked at; empty if it was looked at
  std::string_view check = {};  // the ID of the check of `doctor` that has it
  // The check in whose finding people see the reason of `error`; empty if that is this finding.
  std::string_view shown_by = {};
  // A text for each to whom it happens, if there may be several; `text` has the first.
  std::vector<std::string> all = {};

  friend bool operator==(const Finding&, const Finding&) = default;

  // Returns whether rules or elements of ours are missing, or were changed.
  [[nodiscard]] bool IsOfRules() const {
    return area == Area::kTable || area == Area::kStaticRules || area == Area::kElement;
  }
  // Returns how people can repair it.
  [[nodiscard]] Fix FixNow() const {
    return !is_repairable            ? fix
           : area == Area::kLeftOver ? Fix("nomad-bridge gc")
                                     : Fix("nomad-bridge reconcile");
  }
  // "the lease of 172.26.64.2 belongs to nobody; fix: nomad alloc stop 5f3c1a2b"
  [[nodiscard]] std::string TextWithFix() const {
    const std::string line = fix.Line();
    return line.empty() ? text : Cat(text, "; ", line);
  }
};

using FindingList = std::vector<Finding>;

[[nodiscard]] inline std::vector<std::string> TextsOf(const FindingList& findings) {
  std::vector<std::string> texts;
  for (const Finding& finding : findings) {
    texts.push_back(finding.text);
  }
  return texts;
}

// The names in JSON, and in the metric of repairs.
inline constexpr Names<Finding::Area, 14> kAreaNames = {
    {{Finding::Area::kNode, "node"},
     {Finding::Area::kContainer, "container"},
     {Finding::Area::kBridge, "bridge"},
     {Finding::Area::kForwarding, "forwarding"},
     {Finding::Area::kLocalhost, "localhost"},
     {Finding::Area::kPort, "port"},
     {Finding::Area::kLease, "lease"},
     {Finding::Area::kRecord, "record"},
     {Finding::Area::kTable, "table"},
     {Finding::Area::kStaticRules, "staticRules"},
     {Finding::Area::kElement, "element"},
     {Finding::Area::kLeftOver, "leftOver"},
     {Finding::Area::kOtherFirewall, "otherFirewall"},
     {Finding::Area::kPolicy, "policy"}}};

[[nodiscard]] constexpr std::string_view Text(Finding::Area area) {
  return NameOf(kAreaNames, area);
}

inline constexpr Names<Finding::Severity, 3> kSeverityNames = {
    {{Finding::Severity::kNote, "ok"},
     {Finding::Severity::kWarning, "warn"},
     {Finding::Severity::kFault, "fail"}}};

class Findings {
 public:
  explicit Findings(Mode mode) : mode_(mode) {}
  // Returns an object that repairs, and whose content the caller drops: only CHECK and reconcile
  // name what they repair.
  [[nodiscard]] static Findings Silently() { return Findings(Mode::kRepair); }

  [[nodiscard]] Mode mode() const { return mode_; }
  [[nodiscard]] bool is_repairing() const { return mode_ == Mode::kRepair; }

  // Adds a finding. In mode kRepair, runs `repair` before returning.
  template <typename Repair>
  void Add(Finding finding, Repair repair) {
    finding.is_repairable = true;
    finding.fix = {};
    left_.push_back(std::move(finding));
    if (is_repairing()) {
      repair();
      repaired_.push_back(std::move(left_.back()));
      left_.pop_back();
    }
  }
  // Adds a finding that only somebody else can repair; once, even if several networks on a bridge
  // find it.
  void AddUnrepairable(Finding finding) {
    if (!Contains(left_, finding)) {
      left_.push_back(std::move(finding));
    }
  }
  // Adds findings that were found together, and in mode kRepair were repaired together.
  void AddAll(FindingList findings) {
    for (Finding& finding : findings) {
      finding.is_repairable = true;
    }
    Append(is_repairing() ? repaired_ : left_, std::move(findings));
  }
  void AddAll(Findings&& more) {
    Append(repaired_, std::move(more.repaired_));
    Append(left_, std::move(more.left_));
  }

  [[nodiscard]] bool empty() const { return repaired_.empty() && left_.empty(); }
  [[nodiscard]] const FindingList& repaired() const { return repaired_; }
  [[nodiscard]] const FindingList& left() const { return left_; }
  [[nodiscard]] std::vector<std::string> TextsLeft() const { return TextsOf(left_); }

 private:
  Mode mode_;
  FindingList repaired_;
  FindingList left_;
};

}  // namespace nomad_bridge
