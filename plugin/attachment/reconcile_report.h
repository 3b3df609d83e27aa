// What a reconcile or a GC found, and has repaired or taken back.
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
  // What could not be looked at, or be repaired: a line each.
  struct Failure {
    Mismatch::Area area;
    std::string text;
    std::string cause;  // what `text` ends with
  };
  std::vector<Failure> failed;
  std::vector<AttachmentId> busy;  // left out: another command works on them

  // False if `act` failed, which `what` names.
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

// After each attachment: how many are done, and of how many.
using Progress = std::function<void(std::size_t done, std::size_t all)>;

}  // namespace nomad_bridge::attachment
