// CNI_ARGS: "IgnoreUnknown=true;NOMAD_JOB_ID=billing;...".
//
// Shapes  Pairs separated by ';'. The *first* '=' separates key and value (Nomad's values may
//         contain more of them; the reference plugins refuse such values). Keys are case-sensitive.
//         The last of duplicate keys counts. An empty string means no arguments; an empty MAC or IP
//         means none.
// Errors  kInvalidEnvironment, which names CNI_ARGS and the pair: for a pair without '=' or without
//         a key, a bad IP, MAC or IgnoreUnknown, and for an unknown key unless IgnoreUnknown is 1
//         or true.
// Source  CNI conventions; Go's pkg/types/args.go; nomad/client networking_cni.go.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/ip.h"
#include "plugin/cni/labels.h"

namespace nomad_bridge::cni {

struct Args {
  std::optional<Mac> mac;  // MAC
  std::optional<Ip> ip;    // IP; a prefix length is dropped
  Labels labels;           // NOMAD_*, K8S_POD_*, and, under IgnoreUnknown, every other key
  // A key NOMAD_* or K8S_* that occurs twice, ignoring case, or is not in capitals. No orchestrator
  // writes such a key, but a job's author may, to pass for another job. Empty if there is none.
  std::string forged_key;
};

[[nodiscard]] Args ParseArgs(std::string_view text);

}  // namespace nomad_bridge::cni
