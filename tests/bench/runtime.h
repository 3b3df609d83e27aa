// A runtime as libcni is one: a list of plugins, run in order for ADD and CHECK, backwards for DEL.
//
// Shapes  stdin of each plugin is its entry of the list with name, cniVersion, runtimeConfig (if it
//         declares the capability) and prevResult put in; ADD hands each result to the next plugin,
//         CHECK and DEL hand the last one to all. CNI_ARGS is there for ADD and CHECK and empty for
//         DEL, as with Nomad.
// Source  libcni 1.3.0, api.go; go-cni's PortMapping.
#pragma once

#include <functional>
#include <string>

#include <nlohmann/json.hpp>

#include "tests/support/process.h"

namespace nomad_bridge::bench {

struct Attachment {
  std::string container_id;
  std::string netns_path;
  int host_port = 0;      // published as tcp and as udp
  nlohmann::json result;  // of ADD
};

class Runtime {
 public:
  using Execute = std::function<test::Outcome(const test::Command&)>;

  // `conflist` is a network configuration list; its plugins are in `folder`.
  Runtime(nlohmann::json conflist, std::string folder);

  // Each throws std::runtime_error with the plugin's own words if it fails.
  void Add(Attachment& attachment, const Execute& execute = kExecute) const;
  void Del(const Attachment& attachment) const;
  // What the first plugin that fails says, the rest not asked; empty if all is well. Not thrown:
  // the reference portmap of Debian 12 (1.1.1) refuses every attachment with a single IP family,
  // and that takes time too.
  [[nodiscard]] std::string Check(const Attachment& attachment) const;

 private:
  static const Execute kExecute;

  [[nodiscard]] test::Command Prepare(const std::string& verb,
                                      const nlohmann::json& plugin,
                                      const Attachment& attachment,
                                      const nlohmann::json& prev_result) const;

  nlohmann::json list_;
  std::string folder_;
  std::string cni_args_;
};

}  // namespace nomad_bridge::bench
