#include "plugin/cni/result.h"

#include <cstdint>
#include <limits>

#include "base/error.h"
#include "base/text.h"
#include "plugin/cni/version.h"

namespace nomad_bridge::cni {
namespace {

constexpr std::int64_t kMaxInt = std::numeric_limits<int>::max();
constexpr std::int64_t kMaxUnsigned = std::numeric_limits<std::uint32_t>::max();

// Versions whose results have one shape: a plugin understands only its own.
enum class Shape { kByFamily, kArraysWithVersion, kArrays };

Shape ShapeOf(std::string_view version) {
  if (IsAtLeast(version, "1.0.0")) {
    return Shape::kArrays;
  }
  return IsAtLeast(version, "0.3.0") ? Shape::kArraysWithVersion : Shape::kByFamily;
}

std::string StringOf(const JsonView& object, std::string_view key) {
  return object.FindString(key).value_or(std::string());
}

std::vector<std::string> StringsOf(const JsonView& object, std::string_view key) {
  std::vector<std::string> strings;
  for (const JsonView& element : object.ElementsOf(key)) {
    strings.push_back(element.String());
  }
  return strings;
}

Cidr RequireSubnet(const JsonView& object, std::string_view key) {
  return object.Require(key, Format("an object with '{}'", key)).Subnet();
}

Interface ParseInterface(const JsonView& object) {
  return {.name = StringOf(object, "name"),
          .mac = StringOf(object, "mac"),
          .mtu = object.FindInteger<int>("mtu", kMaxInt).value_or(0),
          .sandbox = StringOf(object, "sandbox"),
          .socket_path = StringOf(object, "socketPath"),
          .pci_id = StringOf(object, "pciID")};
}

// An index beyond the array, passed on, makes Nomad's agent panic.
std::optional<int> FindIndex(const JsonView& ip, std::size_t interfaces) {
  const JsonView index = ip.Find("interface");
  if (index && interfaces == 0) {
    throw index.Wrong("none, as there are no interfaces");
  }
  return ip.FindInteger<int>("interface", static_cast<std::int64_t>(interfaces) - 1);
}

void ParseInterfaces(const JsonView& object, Result& result) {
  for (const JsonView& element : object.ElementsOf("interfaces")) {
    result.interfaces.push_back(ParseInterface(element));
  }
  auto ip = result.ips.begin();
  for (const JsonView& element : object.ElementsOf("ips")) {
    (ip++)->interface = FindIndex(element, result.interfaces.size());
  }
}

Result ParseArrays(const JsonView& object) {
  Result result;
  for (const JsonView& element : object.ElementsOf("ips")) {
    result.ips.push_back(
        {.address = RequireSubnet(element, "address"), .gateway = element.FindAddress("gateway")});
  }
  for (const JsonView& element : object.ElementsOf("routes")) {
    result.routes.push_back(ParseRoute(element));
  }
  return result;
}

// Routes of both families go into one array: each route's destination tells its family.
Result ParseByFamily(const JsonView& object) {
  Result result;
  for (const char* const key : {"ip4", "ip6"}) {
    if (const JsonView family = object.Find(key)) {
      result.ips.push_back(
          {.address = RequireSubnet(family, "ip"), .gateway = family.FindAddress("gateway")});
      for (const JsonView& element : family.ElementsOf("routes")) {
        result.routes.push_back(ParseRoute(element));
      }
    }
  }
  return result;
}

}  // namespace

Route ParseRoute(const JsonView& object) {
  constexpr std::int64_t kMaxScope = 255;
  return {.destination = RequireSubnet(object, "dst"),
          .gateway = object.FindAddress("gw"),
          .mtu = object.FindInteger<int>("mtu", kMaxInt).value_or(0),
          .advmss = object.FindInteger<int>("advmss", kMaxInt).value_or(0),
          .priority = object.FindInteger<std::uint32_t>("priority", kMaxUnsigned).value_or(0),
          .table = object.FindInteger<std::uint32_t>("table", kMaxUnsigned),
          .scope = object.FindInteger<int>("scope", kMaxScope)};
}

Dns ParseDns(const JsonView& object) {
  return {.nameservers = StringsOf(object, "nameservers"),
          .domain = StringOf(object, "domain"),
          .search = StringsOf(object, "search"),
          .options = StringsOf(object, "options")};
}

Result ParseIpamResult(const JsonView& object, std::string_view version) {
  Result result =
      ShapeOf(version) == Shape::kByFamily ? ParseByFamily(object) : ParseArrays(object);
  if (const JsonView dns = object.Find("dns")) {
    result.dns = ParseDns(dns);
  }
  return result;
}

Result ParseResult(const JsonView& object, std::string_view config_version) {
  const std::string version = object.FindString("cniVersion").value_or(std::string(config_version));
  if (!IsSupported(version) || ShapeOf(version) != ShapeOf(config_version)) {
    throw object.Find("cniVersion")
        .Wrong(Cat("a version whose results have the shape of the config's, ", config_version));
  }
  Result result = ParseIpamResult(object, version);
  if (ShapeOf(version) != Shape::kByFamily) {
    ParseInterfaces(object, result);
  }
  return result;
}

// Ours stands first: plugins behind us take interfaces[0] for the bridge.
Result Append(Result first, const Result& later) {
  const int offset = static_cast<int>(first.interfaces.size());
  first.interfaces.insert(first.interfaces.end(), later.interfaces.begin(), later.interfaces.end());
  for (IpConfig ip : later.ips) {
    if (ip.interface) {
      *ip.interface += offset;
    }
    first.ips.push_back(ip);
  }
  first.routes.insert(first.routes.end(), later.routes.begin(), later.routes.end());
  if (first.dns.empty()) {
    first.dns = later.dns;
  }
  return first;
}

std::optional<Result> FindPrevResult(const Request& request) {
  try {
    const JsonView result = JsonView(*request.config, "").Find("prevResult");
    return result ? std::optional(ParseResult(result, request.cni_version)) : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace nomad_bridge::cni
