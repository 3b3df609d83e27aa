// Which versions: of the protocol, for runtimes; of this program, for people and for Nomad's
// fingerprint.
//
// Shapes  A version that a config may name is exactly one of SupportedVersions(): "1.1" is none.
// Errors  CheckVersion: kIncompatibleVersion; kDecode for what is no version at all, on CHECK, GC
//         and STATUS. PrintVersions: kIo if stdout cannot be written.
// Source  CNI specification 1.1.0, "VERSION"; Go's pkg/version, pkg/skel; Nomad's
//         client/fingerprint/plugins_cni.go.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plugin/cni/plugin_type.h"
#include "plugin/cni/request.h"

namespace nomad_bridge::cni {

// "0.1.0" ... "1.1.0", oldest first: what VERSION answers.
[[nodiscard]] const std::vector<std::string>& SupportedVersions();
[[nodiscard]] bool IsSupported(std::string_view version);

// Whether `version`, one of the supported ones, is `other` or newer.
[[nodiscard]] bool IsAtLeast(std::string_view version, std::string_view other);

// Throws unless a config of `version` may ask for `verb`.
void CheckVersion(const std::string& version, Verb verb);

// VERSION's answer, a JSON document.
void PrintVersions(int out);

// "2.0.0"
[[nodiscard]] std::string_view ProgramVersion();

// "CNI <name> plugin v2.0.0" and the protocol's versions, for a run without CNI_COMMAND.
void PrintVersionBanner(const PluginType& type, int err);

}  // namespace nomad_bridge::cni
