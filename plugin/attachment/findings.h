// What a command over all attachments of the node found, and has repaired or taken back.
#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "base/attachment_id.h"
#include "base/text.h"

namespace nomad_bridge::attachment {

enum class Dry { kNo, kYes };

struct Findings {
  int attachments = 0;  // how many were looked at
  std::vector<std::string>
      found;  // one line each; repaired or taken back, unless it was a dry run,
  std::vector<std::string> failed;  // but for these
  std::vector<AttachmentId> busy;   // left out: another command works on them

  // False if `act` failed, which `what` names.
  template <typename Act>
  bool Try(const std::string& what, Act act) {
    try {
      act();
      return true;
    } catch (const std::exception& error) {
      failed.push_back(Format("{}: {}", what, error.what()));
      return false;
    }
  }
};

// After each attachment: how many are done, and of how many.
using Progress = std::function<void(std::size_t done, std::size_t all)>;

}  // namespace nomad_bridge::attachment
