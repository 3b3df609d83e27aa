// A World for tests of the built binary: configs as Nomad makes them, and attachments that must
// come about.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "tests/support/world.h"

namespace nomad_bridge::test {

class PluginWorld : public World {
 protected:
  // The whole of a config that works: cniVersion, name "nomad" and the type.
  [[nodiscard]] static nlohmann::json Config(const std::string& version = "1.0.0");
  // `config` with one more port mapping, spelled as go-cni spells it.
  [[nodiscard]] static nlohmann::json Publishing(nlohmann::json config,
                                                 int host_port,
                                                 int container_port,
                                                 const std::string& protocol = "tcp",
                                                 const std::string& host_ip = "");
  [[nodiscard]] static nlohmann::json WithPrevResult(nlohmann::json config,
                                                     const nlohmann::json& result);

  // Nomad's CNI_ARGS for an allocation of `job`.
  [[nodiscard]] static std::string NomadArgs(const std::string& job, const std::string& allocation);

  using World::RunPlugin;
  [[nodiscard]] Outcome RunPlugin(const std::string& verb,
                                  const nlohmann::json& config,
                                  const Variables& variables = {});

  // An ADD or DEL that must succeed (else an exception with what it said); ADD's result.
  nlohmann::json Attach(const nlohmann::json& config, const Variables& variables = {});
  void Detach(const nlohmann::json& config, const Variables& variables = {});

  // An attachment made and taken away again, dual stack and with a port, so that what stays by
  // design (bridge, table, static rules, the first container's lo being up) is there already and a
  // Snapshot shows only what is left behind.
  void WarmUp();

  // The host end of the only port of bridge "nomad".
  [[nodiscard]] std::string OnlyPort();
};

// The address of family 4 or 6 in a result of 0.3.0 or later, without its prefix length.
[[nodiscard]] std::string AddressOf(const nlohmann::json& result, int family = 4);

}  // namespace nomad_bridge::test
