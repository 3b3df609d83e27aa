// What a reconcile or a GC found, and what it has repaired or removed.
#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "base/attachment_id.h"
#include "base/mismatch.h"
#include "base/text.h"

namespace nomad_bridge::attachment {

struct ReconcileReport {
  explicit ReconcileReport(Mode mode) : mismatches(mode) {}

  std::size_t attachments = 0;  // how many were looked at
  Mismatches mismatches;
  // One entry for each thing that could not be looked at or repaired.
  struct Failure {
    Mismatch::Area area;
    std::string text;
    std::string cause;  // the part of `text` after "<what>: "
  };
  std::vector<Failure> failed;
  std::vector<AttachmentId> busy;  // skipped: another command works on them

  // Runs `act`. If it fails, notes the failure under the name `what` and returns false.
  template <typename Act>
  bool Try(Mismatch::Area area, const std::string& what, Act act) {
    try {
      act();
      return true;
    } catch (const std::exception& error) {
      failed.push_back({area, Format("{}: {}", what, error.what()), error.what()});
      return false;
    }
  }
};

// Called after each attachment with how many are done, and of how many.
using Progress = std::function<void(std::size_t done, std::size_t all)>;

}  // namespace nomad_bridge::attachment
