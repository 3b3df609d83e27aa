#include <nlohmann/json.hpp>

#include "plugin/verbs.h"

namespace nomad_bridge {

void Version(std::ostream& out) {
  const nlohmann::json answer = {{"cniVersion", SupportedVersions().back()},
                                 {"supportedVersions", SupportedVersions()}};
  out << answer.dump() << std::endl;
}

void About(const Name& name, std::ostream& err) {
  // Nomad's fingerprint takes the first word that looks like a version, so ours comes before the
  // protocol's, and it has no pre-release suffix.
  err << "CNI " << name.name << " plugin v" << NOMAD_BRIDGE_VERSION
      << "\nCNI protocol versions supported: ";
  const char* separator = "";
  for (const std::string& version : SupportedVersions()) {
    err << separator << version;
    separator = ", ";
  }
  err << '\n';
}

}  // namespace nomad_bridge
