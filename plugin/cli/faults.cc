#include "plugin/cli/faults.h"

#include "plugin/cli/doctor.h"

namespace nomad_bridge::cli {

std::map<std::string, std::uint64_t> CountFaults(state::Host& host, const Inventory& inventory) {
  std::map<std::string, std::uint64_t> faults;
  for (const Checked& each : RunChecks(host, inventory)) {
    faults[std::string(each.id)] += each.diagnosis.verdict == Verdict::kOk ? 0 : 1;
  }
  return faults;
}

}  // namespace nomad_bridge::cli
