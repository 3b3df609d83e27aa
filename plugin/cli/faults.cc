#include "plugin/cli/faults.h"

namespace nomad_bridge::cli {

std::map<std::string, std::uint64_t> CountFaults(state::Host& /*host*/,
                                                 const Inventory& inventory) {
  std::map<std::string, std::uint64_t> faults;
  for (const Attachment& attachment : inventory.attachments) {
    faults["dead"] += attachment.state == State::kDead ? 1 : 0;
  }
  return faults;
}

}  // namespace nomad_bridge::cli
