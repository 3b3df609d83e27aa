// A world with allocations on network "nomad", attached by the built binary, and servers in them:
// for tests of rules and labels.
//
//   allocation n (in the order of their ADDs, from 2)   172.26.64.<n>/20 and fd00:26::<n>/64
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "tests/support/world.h"

namespace nomad_bridge::test {

constexpr const char* kBridgeIp4 = "172.26.64.1";
constexpr const char* kBridgeIp6 = "fd00:26::1";

class RulesWorld : public World {
 protected:
  // Dual stack, everything else by default; `changes` is merged on top (RFC 7386).
  [[nodiscard]] static nlohmann::json Config(const nlohmann::json& changes = {}) {
    nlohmann::json config = nlohmann::json::parse(R"({
      "cniVersion": "1.0.0", "name": "nomad", "type": "nomad-bridge",
      "ipam": {"ranges": [[{"subnet": "172.26.64.0/20"}], [{"subnet": "fd00:26::/64"}]]}})");
    config.merge_patch(changes.is_null() ? nlohmann::json::object() : changes);
    return config;
  }

  [[nodiscard]] static nlohmann::json Port(int host_port,
                                           int container_port,
                                           const std::string& protocol = "tcp",
                                           const std::string& host_ip = "") {
    return {{"hostPort", host_port},
            {"containerPort", container_port},
            {"protocol", protocol},
            {"hostIP", host_ip}};
  }

  // Config() with these ports.
  [[nodiscard]] static nlohmann::json Publish(const std::vector<nlohmann::json>& ports,
                                              const nlohmann::json& changes = {}) {
    nlohmann::json config = Config(changes);
    config["runtimeConfig"]["portMappings"] = ports;
    return config;
  }

  // The verb for container `id` in `node`, with CNI_ARGS `args`.
  [[nodiscard]] Outcome Run(const std::string& verb,
                            const std::string& id,
                            const Node& node,
                            const nlohmann::json& config,
                            const std::string& args = "") {
    Variables variables = As(id, node);
    if (!args.empty()) {
      variables["CNI_ARGS"] = args;
    }
    return RunPlugin(verb, config.dump(), variables);
  }

  // An ADD that must succeed.
  Outcome Attach(const std::string& id,
                 const Node& node,
                 const nlohmann::json& config,
                 const std::string& args = "") {
    Outcome outcome = Run("ADD", id, node, config, args);
    EXPECT_EQ(outcome.exit_code, 0) << outcome;
    return outcome;
  }

  void Detach(const std::string& id, const Node& node, const nlohmann::json& config) {
    const Outcome outcome = Run("DEL", id, node, config);
    EXPECT_EQ(outcome.exit_code, 0) << outcome;
  }

  // A CHECK with the result of `add` as prevResult.
  [[nodiscard]] Outcome Check(const std::string& id,
                              const Node& node,
                              nlohmann::json config,
                              const Outcome& add) {
    config["prevResult"] = add.json;
    return Run("CHECK", id, node, config);
  }

  // Both families' servers, that say `text`, for as long as the test runs.
  void Serve(const Node& node,
             Protocol protocol,
             const std::vector<std::string>& addresses,
             std::uint16_t port,
             const std::string& text) {
    for (const std::string& address : addresses) {
      servers_.push_back(Server::Start(node, protocol, address, port, text));
    }
  }

  // What must get no answer is not waited for as long as what must.
  [[nodiscard]] static bool IsSilent(const Node& from, Call call) {
    call.patience = std::chrono::milliseconds(250);
    return !Ask(from, call).has_value();
  }

  // The lines of `iptables -S` (or ip6tables) that contain `part`.
  [[nodiscard]] std::vector<std::string> RulesWith(const std::string& part,
                                                   const std::string& program = "iptables") {
    std::vector<std::string> found;
    std::istringstream lines(host().Must({program, "-S"}));
    for (std::string line; std::getline(lines, line);) {
      if (line.find(part) != std::string::npos) {
        found.push_back(line);
      }
    }
    return found;
  }

  // The elements of a set or map of our table, as nft -j shows them.
  [[nodiscard]] nlohmann::json Elements(const std::string& set) {
    const std::string kind = set.starts_with("port") || set.starts_with("hostip") ? "map" : "set";
    const nlohmann::json listed =
        host().Json({"nft", "-j", "list", kind, "inet", "nomad-bridge", set});
    for (const nlohmann::json& entry : listed.at("nftables")) {
      if (entry.contains(kind)) {
        return entry.at(kind).value("elem", nlohmann::json::array());
      }
    }
    return nullptr;
  }

 private:
  std::vector<Server> servers_;
};

}  // namespace nomad_bridge::test
