// The versions of the protocol, for runtimes; the version of this program, for people and for
// Nomad's fingerprint.
//
// Shapes  A config may name only versions from SupportedVersions(), exactly: not "1.1".
// Errors  CheckVersion: kIncompatibleVersion; kDecode on CHECK, GC and STATUS if the text is no
//         version at all. PrintVersions: kIo if stdout cannot be written.
// Source  CNI specification 1.1.0, "VERSION"; Go's pkg/version, pkg/skel; Nomad's
//         client/fingerprint/plugins_cni.go.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plugin/cni/plugin_type.h"
#include "plugin/cni/request.h"

namespace nomad_bridge::cni {

// Returns "0.1.0" ... "1.1.0", oldest first. VERSION answers with them.
[[nodiscard]] const std::vector<std::string>& SupportedVersions();
[[nodiscard]] bool IsSupported(std::string_view version);

// Returns whether `version`, a supported version, is `other` or newer.
[[nodiscard]] bool IsAtLeast(std::string_view version, std::string_view other);

// Throws if a config of `version` does not allow `verb`.
void CheckVersion(const std::string& version, Verb verb);

// Prints VERSION's answer, a JSON document.
void PrintVersions(int out);

// Returns for example "2.0.0".
[[nodiscard]] std::string_view ProgramVersion();

// Prints "CNI <name> plugin v2.0.0" and the protocol's versions, for a run without CNI_COMMAND.
void PrintVersionBanner(const PluginType& type, int err);

}  // namespace nomad_bridge::cni
