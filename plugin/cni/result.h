// Results: what ADD answers and what prevResult says, in every version's shape.
//
// Shapes  In memory always 1.1.0's; converted when read and when written:
//           0.1.0, 0.2.0          ip4/ip6, the first address per family, no interfaces
//           0.3.0, 0.3.1, 0.4.0   ips with "version"; dns always there
//           1.0.0                 as 1.1.0 without mtu, socketPath and pciID of interfaces, which
//                                 readers need not know
// Errors  kInvalidConfig naming the path of what is wrong; "cannot convert: no valid IP addresses"
//         for a result without an address that is to be written as 0.1.0 or 0.2.0.
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
  std::string mac;  // a string, as another plugin's may be of another length
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

// Reads prevResult, or another plugin's answer. A version whose results have another shape than the
// config's is an error.
[[nodiscard]] Result ParseResult(const JsonView& object, std::string_view config_version);

// Reads the answer of an IPAM plugin, of any supported version, without interfaces and indices into
// them: an IPAM plugin does not know the interfaces.
[[nodiscard]] Result ParseIpamResult(const JsonView& object, std::string_view version);

// `later` behind `first`: interfaces, addresses and routes follow, and the indices of interfaces
// grow. dns: the first that has any.
[[nodiscard]] Result Append(Result first, const Result& later);

[[nodiscard]] nlohmann::ordered_json ToJson(const Result& result, std::string_view version);

// prevResult for DEL: nullopt if there is none, or none that can be read.
[[nodiscard]] std::optional<Result> FindPrevResult(const Request& request);

// prevResult as ADD's answer, with its unknown keys. It must be there.
void PrintPrevResult(const Request& request, int out);

// The answer of a verb that failed, as libcni reads it from stdout: it drops stderr, so everything
// that helps is in there.
void PrintError(std::string_view version, const Error& error, int out);

// ADD's answer: one document. Throws kIo if stdout cannot be written.
void Print(const Result& result, std::string_view version, int out);

// Reads one element of `routes`, the config's or a result's; "dst" is required.
[[nodiscard]] Route ParseRoute(const JsonView& object);

// Reads a Dns object (config.dns, or a result's).
[[nodiscard]] Dns ParseDns(const JsonView& object);

}  // namespace nomad_bridge::cni
