// A result that a plugin before us, or a delegated IPAM plugin, has printed: read, and printed
// again in each version of the protocol. The last byte chooses the version.
#include "plugin/cni/result.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "plugin/cni/json.h"
#include "plugin/cni/version.h"
#include "tests/fuzz/fuzz.h"

namespace nomad_bridge {

void fuzz::Run(std::string_view input) {
  if (input.empty()) {
    return;
  }
  const std::size_t choice = TakeChoice(input);
  const std::vector<std::string>& versions = cni::SupportedVersions();
  const std::string& version = versions.at(choice % versions.size());
  try {
    const cni::JsonPtr json = cni::ParseJson(input, "result");
    const cni::JsonView view(*json, "");
    const cni::Result ipam = cni::ParseIpamResult(view, version);
    static_cast<void>(cni::ToJson(ipam, version).dump());
    const cni::Result result = cni::ParseResult(view, version);
    static_cast<void>(cni::ToJson(cni::Append(ipam, result), versions.back()).dump());
  } catch (const Error&) {
    return;  // refused
  }
}

}  // namespace nomad_bridge
