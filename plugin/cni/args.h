// CNI_ARGS: "IgnoreUnknown=true;NOMAD_JOB_ID=billing;...".
//
// Shapes  Pairs between ';', key and value around the *first* '=' (Nomad's values may hold more of
//         them; the reference plugins refuse those). Keys are case-sensitive. Of duplicates the
//         last wins. An empty string is no arguments, an empty value of MAC or IP is none.
// Errors  kInvalidEnvironment naming CNI_ARGS and the pair: a pair without '=' or without a key, a
//         bad IP, MAC or IgnoreUnknown, an unknown key unless IgnoreUnknown is 1 or true.
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
  std::optional<Ip> ip;    // IP; a prefix length is ignored
  Labels labels;           // NOMAD_*, K8S_POD_*, and, under IgnoreUnknown, every other key
  // A key NOMAD_* or K8S_* that stands there twice without regard to case, or not in capitals: no
  // orchestrator writes it so, but a job's author may, to pass for another job. Empty: none.
  std::string forged_key;
};

[[nodiscard]] Args ParseArgs(std::string_view text);

}  // namespace nomad_bridge::cni
