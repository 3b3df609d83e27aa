// A mismatch is something that differs from what it should be; Mode says whether it is repaired.
//
// A check is a function `Check...(..., Mismatches&)`. It adds a mismatch for each thing that is not
// as it should be, together with its repair. In mode kRepair, Add() repairs at once, before the
// check goes on. So the same code finds a mismatch and repairs it.
//
// Errors  Errors of a repair are thrown; its mismatch then counts as left.
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

struct Mismatch {
  enum class Area {
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

  Area area = Area::kBridge;
  std::string owner;  // the bridge or container that it belongs to; empty: the node
  std::string text;   // "bridge 'nomad' is down"
  bool repairable = true;
  Fix fix = {};                                 // if it is not repairable
  std::optional<Family> family = std::nullopt;  // the family that suffers; nullopt: both
  // The part that is wrong, for callers that need it: a sysctl, "chain forward", "hairpin mode".
  std::string part = {};

  friend bool operator==(const Mismatch&, const Mismatch&) = default;

  // "the lease of 172.26.64.2 belongs to nobody; fix: nomad alloc stop 5f3c1a2b"
  [[nodiscard]] std::string TextWithFix() const {
    const std::string line = fix.Line();
    return line.empty() ? text : Cat(text, "; ", line);
  }
};

// Returns how people can repair it.
[[nodiscard]] inline Fix FixOf(const Mismatch& mismatch) {
  return mismatch.repairable ? "nomad-bridge reconcile" : mismatch.fix;
}

// The names in JSON.
inline constexpr Names<Mismatch::Area, 12> kAreaNames = {
    {{Mismatch::Area::kBridge, "bridge"},
     {Mismatch::Area::kForwarding, "forwarding"},
     {Mismatch::Area::kLocalhost, "localhost"},
     {Mismatch::Area::kPort, "port"},
     {Mismatch::Area::kLease, "lease"},
     {Mismatch::Area::kRecord, "record"},
     {Mismatch::Area::kTable, "table"},
     {Mismatch::Area::kStaticRules, "staticRules"},
     {Mismatch::Area::kElement, "element"},
     {Mismatch::Area::kLeftOver, "leftOver"},
     {Mismatch::Area::kOtherFirewall, "otherFirewall"},
     {Mismatch::Area::kPolicy, "policy"}}};

[[nodiscard]] constexpr std::string_view Text(Mismatch::Area area) {
  return NameOf(kAreaNames, area);
}

class Mismatches {
 public:
  explicit Mismatches(Mode mode) : mode_(mode) {}
  // Returns an object that repairs, and whose content the caller drops: only CHECK and reconcile
  // name what they repair.
  [[nodiscard]] static Mismatches Silently() { return Mismatches(Mode::kRepair); }

  [[nodiscard]] Mode mode() const { return mode_; }
  [[nodiscard]] bool is_repairing() const { return mode_ == Mode::kRepair; }

  // Adds a mismatch. In mode kRepair, runs `repair` before returning.
  template <typename Repair>
  void Add(Mismatch mismatch, Repair repair) {
    left_.push_back(std::move(mismatch));
    if (is_repairing()) {
      repair();
      repaired_.push_back(std::move(left_.back()));
      left_.pop_back();
    }
  }
  // Adds a mismatch that only somebody else can repair; once, even if several networks on a bridge
  // find it.
  void AddUnrepairable(Mismatch mismatch) {
    mismatch.repairable = false;
    if (!Contains(left_, mismatch)) {
      left_.push_back(std::move(mismatch));
    }
  }
  // Adds mismatches that were found together, and in mode kRepair were repaired together.
  void AddAll(std::vector<Mismatch> mismatches) {
    Append(is_repairing() ? repaired_ : left_, std::move(mismatches));
  }
  void AddAll(Mismatches&& more) {
    Append(repaired_, std::move(more.repaired_));
    Append(left_, std::move(more.left_));
  }

  [[nodiscard]] bool empty() const { return repaired_.empty() && left_.empty(); }
  [[nodiscard]] const std::vector<Mismatch>& repaired() const { return repaired_; }
  [[nodiscard]] const std::vector<Mismatch>& left() const { return left_; }
  [[nodiscard]] std::vector<std::string> TextsLeft() const {
    std::vector<std::string> texts;
    for (const Mismatch& mismatch : left_) {
      texts.push_back(mismatch.text);
    }
    return texts;
  }

 private:
  Mode mode_;
  std::vector<Mismatch> repaired_;
  std::vector<Mismatch> left_;
};

}  // namespace nomad_bridge
