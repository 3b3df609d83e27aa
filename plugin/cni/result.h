// Results: ADD's answer and prevResult, in every version's shape.
//
// Shapes  In memory always 1.1.0. Converted on reading and writing:
//           0.1.0, 0.2.0          ip4/ip6, the first address per family, no interfaces
//           0.3.0, 0.3.1, 0.4.0   ips with "version"; dns always there
//           1.0.0                 as 1.1.0 without mtu, socketPath and pciID of interfaces, which
//                                 readers need not know
// Errors  kInvalidConfig, which names the path of the wrong value; "cannot convert: no valid IP
//         addresses" for a result without an address that is to be written as 0.1.0 or 0.2.0.
// Source  CNI specification 1.1.0, "Result types"; FAQ of older versions; Go's pkg/types.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/ip.h"
#include "base/route.h"
#include "plugin/cni/json.h"
#include "plugin/cni/request.h"

namespace nomad_bridge::cni {

struct Interface {
  std::string name;
  std::string mac;  // a string, because another plugin's MAC may have another length
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

// Reads prevResult, or another plugin's answer. Throws if results of its version have another shape
// than results of the config's version.
[[nodiscard]] Result ParseResult(const JsonView& object, std::string_view config_version);

// Reads the answer of an IPAM plugin in any supported version. Drops interfaces and their indices:
// an IPAM plugin does not know the interfaces.
[[nodiscard]] Result ParseIpamResult(const JsonView& object, std::string_view version);

// Appends `later` to `first`: interfaces, addresses and routes, with corrected indices of
// interfaces. Takes dns from the first that has any.
[[nodiscard]] Result Append(Result first, const Result& later);

[[nodiscard]] nlohmann::ordered_json ToJson(const Result& result, std::string_view version);

// Returns prevResult for DEL; nullopt if there is none, or if it cannot be read.
[[nodiscard]] std::optional<Result> FindPrevResult(const Request& request);

// Prints prevResult as ADD's answer, including its unknown keys. prevResult must exist.
void PrintPrevResult(const Request& request, int out);

// Prints the answer of a verb that failed. libcni reads it from stdout and drops stderr, so the
// answer has everything that helps.
void PrintError(std::string_view version, const Error& error, int out);

// Prints ADD's answer, one document. Throws kIo if stdout cannot be written.
void Print(const Result& result, std::string_view version, int out);

// Reads one element of `routes` of the config or of a result. "dst" is required.
[[nodiscard]] Route ParseRoute(const JsonView& object);

// Reads a Dns object (config.dns, or a result's).
[[nodiscard]] Dns ParseDns(const JsonView& object);

}  // namespace nomad_bridge::cni
