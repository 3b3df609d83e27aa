// Which versions: of the protocol, for runtimes; of this program, for people and for Nomad's
// fingerprint.
//
// Errors  PrintVersions throws kIo if nobody can read it.
// Source  CNI specification 1.1.0, "VERSION"; Nomad's client/fingerprint/plugins_cni.go.
#pragma once

#include "plugin/cni/plugin_type.h"

namespace nomad_bridge::cni {

// VERSION's answer, a JSON document.
void PrintVersions(int out);

// "CNI <name> plugin v2.0.0" and the protocol's versions, for a run without CNI_COMMAND.
void PrintVersionBanner(const PluginType& type, int err);

}  // namespace nomad_bridge::cni
