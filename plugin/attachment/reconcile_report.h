// What a reconcile or a GC found, and what it has repaired or removed.
#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "base/attachment_id.h"
#include "base/error.h"
#include "base/finding.h"
#include "base/text.h"

namespace nomad_bridge::attachment {

struct ReconcileReport {
  explicit ReconcileReport(Mode mode) : findings(mode) {}

  std::size_t attachments = 0;  // how many were looked at
  Findings findings;
  FindingList failed;              // what could not be looked at or repaired
  std::vector<AttachmentId> busy;  // skipped: another command works on them

  // Runs `act`. If it fails, notes the failure under the name `what` and returns false.
  template <typename Act>
  bool Try(Finding::Area area, const std::string& what, Act act) {
    try {
      act();
      return true;
    } catch (const Error& error) {
      Fail(area, what, error, error.fix());
    } catch (const std::exception& error) {
      Fail(area, what, error, {});
    }
    return false;
  }

 private:
  void Fail(Finding::Area area, const std::string& what, const std::exception& error, Fix fix) {
    failed.push_back({.area = area,
                      .text = Format("{}: {}", what, error.what()),
                      .fix = std::move(fix),
                      .error = error.what()});
  }
};

// Called after each attachment with how many are done, and of how many.
using Progress = std::function<void(std::size_t done, std::size_t all)>;

}  // namespace nomad_bridge::attachment
