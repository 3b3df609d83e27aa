// Results: what ADD answers and what prevResult says, in every version's shape.
//
// Shapes  In memory always 1.1.0's; converted when read and when written:
//           0.1.0, 0.2.0          ip4/ip6, the first address per family, no interfaces
//           0.3.0, 0.3.1, 0.4.0   ips with "version"; dns always there
//           1.0.0                 as 1.1.0 without mtu, socketPath and pciID of interfaces
// Errors  kInvalidConfig naming the path below prevResult. Writing a result without an address as
//         0.1.0/0.2.0 is one too ("cannot convert: no valid IP addresses").
// Source  CNI specification 1.1.0, "Result types"; FAQ of older versions; Go's pkg/types.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/ip.h"
#include "base/route.h"
#include "plugin/cni/json.h"
#include "plugin/cni/request.h"

namespace nomad_bridge::cni {

struct Interface {
  std::string name;
  std::string mac;  // as text: a stranger's may be of another length
  int mtu = 0;
  std::string sandbox;  // CNI_NETNS verbatim; empty on the host
  std::string socket_path;
  std::string pci_id;

  bool operator==(const Interface&) const = default;
};

struct IpConfig {
  std::optional<int> interface;  // index into interfaces
  Cidr address;
  std::optional<Ip> gateway;

  bool operator==(const IpConfig&) const = default;
};

struct Dns {
  std::vector<std::string> nameservers;
  std::string domain;
  std::vector<std::string> search;
  std::vector<std::string> options;

  [[nodiscard]] bool empty() const { return *this == Dns{}; }
  bool operator==(const Dns&) const = default;
};

struct Result {
  std::vector<Interface> interfaces;
  std::vector<IpConfig> ips;
  std::vector<Route> routes;
  Dns dns;
};

// `json` is config.prevResult, or what errors call `path`; `config_version` the config's. A result
// of another family than the config's is an error.
[[nodiscard]] Result ParseResult(const nlohmann::json& json,
                                 std::string_view config_version,
                                 const std::string& path = "prevResult");

// `later` behind `first`: its interfaces follow, their indices in ips move along. dns: the first
// that has any.
[[nodiscard]] Result Append(Result first, const Result& later);

[[nodiscard]] nlohmann::ordered_json ToJson(const Result& result, std::string_view version);

// What `request` says an earlier ADD answered; nullopt if it says nothing, or nonsense: for DEL.
[[nodiscard]] std::optional<Result> FindPrevResult(const Request& request);

// prevResult as ADD's answer, passed on whole, also what we know nothing of. It must be there.
void PrintPrevResult(const Request& request, int out);

// ADD's answer: one document. Throws kIo if nobody can read it.
void Print(const Result& result, std::string_view version, int out);
void Print(const nlohmann::ordered_json& result, int out);

// Reads one element of `routes`, the config's or a result's; "dst" is required.
[[nodiscard]] Route ParseRoute(const JsonView& object);

// Reads a Dns object (config.dns, or a result's).
[[nodiscard]] Dns ParseDns(const nlohmann::json& json, const std::string& path);

}  // namespace nomad_bridge::cni
