// What the tests of records, takeover and repair share: a World with configs, attachments with
// servers in them, and the question whether an attachment works.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/text.h"
#include "tests/support/soon.h"
#include "tests/support/world.h"

namespace nomad_bridge::test {

constexpr const char* kRecords = "/run/nomad-bridge/nomad";
constexpr const char* kLeases = "/var/run/cni/nomad";
constexpr const char* kTable = "nomad-bridge";

// "tcp", host port, container port.
struct PublishedPort {
  std::string protocol;
  int host_port = 0;
  int container_port = 0;
  std::string host_ip = {};
};

// A network config of ours as a runtime hands it over; `more` is merged over it (null takes a key
// away).
inline std::string Config(const std::vector<PublishedPort>& ports = {},
                          const nlohmann::json& more = nlohmann::json::object()) {
  nlohmann::json mappings = nlohmann::json::array();
  for (const PublishedPort& port : ports) {
    nlohmann::json mapping = {{"hostPort", port.host_port},
                              {"containerPort", port.container_port},
                              {"protocol", port.protocol}};
    if (!port.host_ip.empty()) {
      mapping["hostIP"] = port.host_ip;
    }
    mappings.push_back(std::move(mapping));
  }
  nlohmann::json config = {{"cniVersion", "1.1.0"},
                           {"name", "nomad"},
                           {"type", "nomad-bridge"},
                           {"capabilities", {{"portMappings", true}}},
                           {"runtimeConfig", {{"portMappings", std::move(mappings)}}}};
  config.merge_patch(more);
  return config.dump();
}

// The same config with what ADD answered, as CHECK and DEL get it.
inline std::string WithResult(const std::string& config, const Outcome& add) {
  nlohmann::json document = nlohmann::json::parse(config);
  document["prevResult"] = add.json;
  return document.dump();
}

// GC for a runtime that knows of nothing but `valid`.
inline std::string GcConfig(const std::vector<std::string>& valid = {}) {
  nlohmann::json list = nlohmann::json::array();
  for (const std::string& id : valid) {
    list.push_back({{"containerID", id}, {"ifname", "eth0"}});
  }
  return Config({}, {{"cni.dev/valid-attachments", std::move(list)}});
}

// CNI_ARGS as Nomad makes them.
inline Variables Nomad(Variables variables,
                       const std::string& job,
                       const std::string& group,
                       const std::string& alloc) {
  variables["CNI_ARGS"] = Cat("IgnoreUnknown=true;NOMAD_JOB_ID=",
                              job,
                              ";NOMAD_GROUP_NAME=",
                              group,
                              ";NOMAD_ALLOC_ID=",
                              alloc);
  return variables;
}

// "172.26.64.2" of a result whose first address is 172.26.64.2/20.
inline std::string AddressOf(const Outcome& add) {
  if (!add.json.is_object() || !add.json.contains("ips")) {
    return "";
  }
  const std::string cidr = add.json.at("ips").at(0).at("address");
  return cidr.substr(0, cidr.find('/'));
}

// The second interface of a result is the host's end.
inline std::string HostVethOf(const Outcome& add) {
  return add.json.at("interfaces").at(1).at("name");
}

inline std::string Msg(const Outcome& outcome) {
  return outcome.json.is_object() ? outcome.json.value("msg", "") : "";
}

inline std::string Details(const Outcome& outcome) {
  return outcome.json.is_object() ? outcome.json.value("details", "") : "";
}

inline int ErrorCode(const Outcome& outcome) {
  return outcome.json.is_object() ? outcome.json.value("code", -1) : -1;
}

inline std::string MsgAndDetails(const Outcome& outcome) {
  return Cat(Msg(outcome), " / ", Details(outcome));
}

class RepairWorld : public World {
 protected:
  // A used machine: an ADD and a DEL have been there, so that everything shared stands, and the
  // container's lo is up.
  void UseOnce(const std::string& config, const Variables& variables = {}) {
    const Outcome add = RunPlugin("ADD", config, variables);
    ASSERT_EQ(add.exit_code, 0) << add;
    const Outcome del = RunPlugin("DEL", config, variables);
    ASSERT_EQ(del.exit_code, 0) << del;
  }

  // An ADD that must succeed.
  Outcome MustAdd(const std::string& config, const Variables& variables = {}) {
    Outcome add = RunPlugin("ADD", config, variables);
    EXPECT_EQ(add.exit_code, 0) << add;
    return add;
  }

  Outcome MustDel(const std::string& config, const Variables& variables = {}) {
    Outcome del = RunPlugin("DEL", config, variables);
    EXPECT_EQ(del.exit_code, 0) << del;
    return del;
  }

  [[nodiscard]] Outcome Check(const std::string& config,
                              const Outcome& add,
                              const Variables& variables = {}) {
    return RunPlugin("CHECK", WithResult(config, add), variables);
  }

  [[nodiscard]] static bool HasInterface(const Node& node, const std::string& name) {
    return node.Run({"ip", "link", "show", "dev", name}).exit_code == 0;
  }

  [[nodiscard]] bool HasRecord(const std::string& container_id) {
    return FindFile(Cat(kRecords, "/", container_id, "@eth0.json")).has_value();
  }

  // The addresses that have a lease, and whose they are.
  [[nodiscard]] static std::map<std::string, std::string> Leases() {
    std::map<std::string, std::string> leases;
    for (const std::string& name : Entries(kLeases)) {
      if (name.find_first_of(".:") != std::string::npos && !name.starts_with("last_")) {
        const std::string text = FindFile(Cat(kLeases, "/", name)).value_or("");
        leases[name] = text.substr(0, text.find('\r'));
      }
    }
    return leases;
  }
};

}  // namespace nomad_bridge::test
