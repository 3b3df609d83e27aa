#include "tests/support/plugin_world.h"

#include <stdexcept>

#include "base/text.h"

namespace nomad_bridge::test {

using nlohmann::json;

json PluginWorld::Config(const std::string& version) {
  return {{"cniVersion", version}, {"name", "nomad"}, {"type", "nomad-bridge"}};
}

json PluginWorld::Publishing(json config,
                             int host_port,
                             int container_port,
                             const std::string& protocol,
                             const std::string& host_ip) {
  config["runtimeConfig"]["portMappings"].push_back({{"HostPort", host_port},
                                                     {"ContainerPort", container_port},
                                                     {"Protocol", protocol},
                                                     {"HostIP", host_ip}});
  return config;
}

json PluginWorld::WithPrevResult(json config, const json& result) {
  config["prevResult"] = result;
  return config;
}

std::string PluginWorld::NomadArgs(const std::string& job, const std::string& allocation) {
  return Cat("IgnoreUnknown=true;NOMAD_REGION=global;NOMAD_NAMESPACE=default;NOMAD_JOB_ID=",
             job,
             ";NOMAD_GROUP_NAME=api;NOMAD_ALLOC_ID=",
             allocation);
}

Outcome PluginWorld::RunPlugin(const std::string& verb,
                               const json& config,
                               const Variables& variables) {
  return World::RunPlugin(verb, config.dump(), variables);
}

json PluginWorld::Attach(const json& config, const Variables& variables) {
  const Outcome add = RunPlugin("ADD", config, variables);
  if (add.exit_code != 0) {
    throw std::runtime_error(Cat("ADD failed: ", add));
  }
  return add.json;
}

void PluginWorld::Detach(const json& config, const Variables& variables) {
  const Outcome del = RunPlugin("DEL", config, variables);
  if (del.exit_code != 0) {
    throw std::runtime_error(Cat("DEL failed: ", del));
  }
}

void PluginWorld::WarmUp() {
  container().Must({"ip", "link", "set", "lo", "up"});
  json config = Publishing(Config(), 7, 7);
  config["ipam"]["ranges"] = {{{{"subnet", "172.26.64.0/20"}}}, {{{"subnet", "fd00:64::/64"}}}};
  Node& early = AddContainer("early");
  const Variables variables = As("early", early);
  Attach(config, variables);
  Detach(config, variables);
  KillContainer(early);
}

std::string PluginWorld::OnlyPort() {
  const json ports = host().Json({"ip", "-j", "link", "show", "master", "nomad"});
  if (ports.size() != 1) {
    throw std::runtime_error(Cat("bridge 'nomad' has ", ports.size(), " ports, not one"));
  }
  return ports.at(0).at("ifname");
}

std::string AddressOf(const json& result, int family) {
  for (const json& ip : result.at("ips")) {
    const std::string address = ip.at("address");
    if ((address.find(':') == std::string::npos) == (family == 4)) {
      return address.substr(0, address.find('/'));
    }
  }
  throw std::runtime_error(Cat("no address of family ", family, " in ", result.dump()));
}

}  // namespace nomad_bridge::test
