// A runtime as libcni is one: a list of plugins, run in order for ADD and CHECK, backwards for DEL.
//
// Shapes  stdin of each plugin is its entry of the list with name, cniVersion, runtimeConfig (if it
//         declares the capability) and prevResult put in; ADD hands each result to the next plugin,
//         CHECK and DEL hand the last one to all. CNI_ARGS is there for ADD and CHECK and empty for
//         DEL, as with Nomad.
// Source  libcni 1.3.0, api.go; go-cni's PortMapping.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/bench/process.h"

namespace nomad_bridge::bench {

// What is attached, and as what.
struct AttachmentId {
  std::string container_id;
  std::string netns_path;
  int host_port = 0;      // published as tcp and as udp
  nlohmann::json result;  // what ADD answered
};

class Runtime {
 public:
  // `conflist` is a network configuration list; its plugins are in `folder`.
  Runtime(const nlohmann::json& conflist, std::string folder, std::string cni_args);

  // Each throws std::runtime_error with the plugin's own words if it fails.
  void Add(AttachmentId& attachment) const;
  void Del(const AttachmentId& attachment) const;
  // What the first plugin that fails says, the rest not asked; empty if all is well. Not thrown:
  // the reference portmap of Debian 12 (1.1.1) refuses every attachment with a single IP family,
  // and that takes time too.
  [[nodiscard]] std::string Check(const AttachmentId& attachment) const;

  // The same, traced: what all plugins of one verb cost together (processes are added up, the peak
  // is the largest).
  void AddTraced(AttachmentId& attachment, Cost& cost) const;

 private:
  [[nodiscard]] Command Prepare(const std::string& verb,
                                const nlohmann::json& plugin,
                                const AttachmentId& attachment,
                                const nlohmann::json& prev_result) const;

  std::string version_;
  std::vector<nlohmann::json> plugins_;
  std::string folder_;
  std::string cni_args_;
};

}  // namespace nomad_bridge::bench
