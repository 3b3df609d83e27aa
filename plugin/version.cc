#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/text.h"
#include "plugin/log.h"
#include "plugin/verbs.h"

namespace nomad_bridge {

void Version(int out) {
  const nlohmann::json answer = {{"cniVersion", SupportedVersions().back()},
                                 {"supportedVersions", SupportedVersions()}};
  WriteAll(out, answer.dump() + "\n", "stdout");
}

void About(const Name& name, int err) {
  // Nomad's fingerprint takes the first word that looks like a version, so ours comes before the
  // protocol's, and it has no pre-release suffix.
  std::string text = Cat(
      "CNI ", name.name, " plugin v" NOMAD_BRIDGE_VERSION "\nCNI protocol versions supported: ");
  const char* separator = "";
  for (const std::string& version : SupportedVersions()) {
    text += Cat(separator, version);
    separator = ", ";
  }
  Tell(err, text + "\n");
}

}  // namespace nomad_bridge
