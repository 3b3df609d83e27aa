#include "plugin/cni/version.h"

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "plugin/cni/request.h"

namespace nomad_bridge::cni {

void PrintVersions(int out) {
  const nlohmann::json answer = {{"cniVersion", SupportedVersions().back()},
                                 {"supportedVersions", SupportedVersions()}};
  WriteAll(out, answer.dump() + "\n", "stdout");
}

void PrintVersionBanner(const PluginType& type, int err) {
  // Nomad's fingerprint takes the first word that looks like a version, so ours comes before the
  // protocol's, and it has no pre-release suffix.
  std::string text = Cat(
      "CNI ", type.name, " plugin v" NOMAD_BRIDGE_VERSION "\nCNI protocol versions supported: ");
  const char* separator = "";
  for (const std::string& version : SupportedVersions()) {
    text += Cat(separator, version);
    separator = ", ";
  }
  WriteBestEffort(err, text + "\n");
}

}  // namespace nomad_bridge::cni
