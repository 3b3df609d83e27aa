// What the tests of links and addresses share: configs as changes to the smallest one, ADDs that
// must succeed, and the kernel's state as ip(8) tells it.
#pragma once

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/text.h"
#include "tests/support/world.h"

namespace nomad_bridge::test {

constexpr const char* kLeases = "/var/run/cni/nomad";
// One address of each family.
constexpr std::string_view kDualStack =
    R"({"ipam": {"ranges": [[{"subnet": "172.26.64.0/20"}], [{"subnet": "fd00:26::/64"}]]}})";

// The smallest config with `changes`, a JSON object, merged on top (RFC 7386: null takes a key
// away).
inline std::string Network(std::string_view changes = "{}", std::string_view more = "{}") {
  nlohmann::json config = {{"cniVersion", "1.1.0"}, {"name", "nomad"}, {"type", "nomad-bridge"}};
  config.merge_patch(nlohmann::json::parse(changes));
  config.merge_patch(nlohmann::json::parse(more));
  return config.dump();
}

// "/ipam/ranges/0": the member of a document at a JSON pointer; null if it is not there.
inline nlohmann::json At(const nlohmann::json& document, const std::string& pointer) {
  const nlohmann::json::json_pointer where(pointer);
  return document.contains(where) ? document.at(where) : nlohmann::json();
}

inline std::string Lease(const std::string& address) {
  return FindFile(Cat(kLeases, "/", address)).value_or("(no lease)");
}

class LinkWorld : public World {
 protected:
  Outcome Add(const std::string& config, const Variables& variables = {}) {
    return RunPlugin("ADD", config, variables);
  }

  // An ADD that must succeed; its result.
  nlohmann::json MustAdd(const std::string& config, const Variables& variables = {}) {
    const Outcome add = RunPlugin("ADD", config, variables);
    EXPECT_EQ(add.exit_code, 0) << add;
    return add.json;
  }

  void MustDel(const std::string& config, const Variables& variables = {}) {
    const Outcome del = RunPlugin("DEL", config, variables);
    EXPECT_EQ(del.exit_code, 0) << del;
  }

  // Refused with code `code`, and nothing that was there is another than before.
  Outcome MustRefuse(int code, const std::string& config, const Variables& variables = {}) {
    const Snapshot before = TakeSnapshot();
    Outcome add = RunPlugin("ADD", config, variables);
    EXPECT_EQ(add.exit_code, 1) << add;
    EXPECT_EQ(At(add.json, "/code"), code) << add;
    EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
    return add;
  }

  // `ip -d -j address show dev <name>`; null if there is no such link.
  [[nodiscard]] static nlohmann::json LinkOn(const Node& node, const std::string& name) {
    const Outcome shown = node.Run({"ip", "-d", "-j", "address", "show", "dev", name});
    return shown.exit_code == 0 ? shown.json.at(0) : nlohmann::json();
  }

  // "172.26.64.2/20": all but link-local ones, in the kernel's order.
  [[nodiscard]] static std::vector<std::string> AddressesOn(const Node& node,
                                                            const std::string& name) {
    std::vector<std::string> addresses;
    const nlohmann::json link = LinkOn(node, name);
    for (const nlohmann::json& address : link.at("addr_info")) {
      if (address.at("scope") != "link") {
        addresses.push_back(
            Cat(address.at("local").get<std::string>(), "/", address.at("prefixlen").get<int>()));
      }
    }
    return addresses;
  }

  // Routes to `destination` ("default", "10.0.0.0/8") in any table, as numbers.
  [[nodiscard]] static nlohmann::json RoutesTo(const Node& node, const std::string& destination) {
    const bool is_ipv6 = destination.find(':') != std::string::npos;
    nlohmann::json found = nlohmann::json::array();
    for (nlohmann::json& route :
         node.Json({"ip", "-j", "-N", is_ipv6 ? "-6" : "-4", "route", "show", "table", "all"})) {
      if (route.at("dst") == destination && route.value("type", "1") == "1") {
        found.push_back(std::move(route));
      }
    }
    return found;
  }

  // The host's ports of `bridge`.
  [[nodiscard]] nlohmann::json PortsOf(const std::string& bridge) {
    return host().Json({"ip", "-d", "-j", "link", "show", "master", bridge});
  }

  // The addresses that have a lease.
  [[nodiscard]] static std::set<std::string> Leased(const std::string& folder = kLeases) {
    std::set<std::string> leased;
    for (const std::string& name : Entries(folder)) {
      if (name.find_first_of(".:") != std::string::npos && !name.starts_with("last_reserved_ip")) {
        leased.insert(name);
      }
    }
    return leased;
  }
};

// The addresses of a result of 0.3.0 and later, with their prefix lengths.
inline std::vector<std::string> AddressesIn(const nlohmann::json& result) {
  std::vector<std::string> addresses;
  for (const nlohmann::json& ip : result.value("ips", nlohmann::json::array())) {
    addresses.push_back(ip.at("address"));
  }
  return addresses;
}

}  // namespace nomad_bridge::test
