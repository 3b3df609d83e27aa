#include "plugin/cni/result.h"

#include <cstdint>
#include <limits>

#include "base/error.h"
#include "base/text.h"
#include "plugin/cni/version.h"

namespace nomad_bridge::cni {
namespace {

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
  const std::optional<JsonView> subnet = object.Find(key);
  if (!subnet) {
    throw object.Wrong(Format("an object with '{}'", key));
  }
  return subnet->Subnet();
}

template <typename Number>
std::optional<Number> FindNumber(const JsonView& object,
                                 std::string_view key,
                                 std::int64_t most = std::numeric_limits<Number>::max()) {
  const std::optional<JsonView> member = object.Find(key);
  return member ? std::optional(static_cast<Number>(member->Integer(0, most))) : std::nullopt;
}

Interface ParseInterface(const JsonView& object) {
  return {.name = StringOf(object, "name"),
          .mac = StringOf(object, "mac"),
          .mtu = FindNumber<int>(object, "mtu").value_or(0),
          .sandbox = StringOf(object, "sandbox"),
          .socket_path = StringOf(object, "socketPath"),
          .pci_id = StringOf(object, "pciID")};
}

// An index beyond the array, passed on, makes Nomad's agent panic.
std::optional<int> FindIndex(const JsonView& ip, std::size_t interfaces) {
  const std::optional<JsonView> index = ip.Find("interface");
  if (index && interfaces == 0) {
    throw index->Wrong("none, as there are no interfaces");
  }
  return FindNumber<int>(ip, "interface", static_cast<std::int64_t>(interfaces) - 1);
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
    if (const std::optional<JsonView> family = object.Find(key)) {
      result.ips.push_back(
          {.address = RequireSubnet(*family, "ip"), .gateway = family->FindAddress("gateway")});
      for (const JsonView& element : family->ElementsOf("routes")) {
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
          .mtu = FindNumber<int>(object, "mtu").value_or(0),
          .advmss = FindNumber<int>(object, "advmss").value_or(0),
          .priority = FindNumber<std::uint32_t>(object, "priority").value_or(0),
          .table = FindNumber<std::uint32_t>(object, "table"),
          .scope = FindNumber<int>(object, "scope", kMaxScope)};
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
  if (const std::optional<JsonView> dns = object.Find("dns")) {
    result.dns = ParseDns(*dns);
  }
  return result;
}

Result ParseResult(const JsonView& object, std::string_view config_version) {
  const std::string version = object.FindString("cniVersion").value_or(std::string(config_version));
  if (!IsSupported(version) || ShapeOf(version) != ShapeOf(config_version)) {
    throw object.Find("cniVersion")
        ->Wrong(Cat("a version whose results have the shape of the config's, ", config_version));
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
    const std::optional<JsonView> result = JsonView(*request.config, "").Find("prevResult");
    return result ? std::optional(ParseResult(*result, request.cni_version)) : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace nomad_bridge::cni
