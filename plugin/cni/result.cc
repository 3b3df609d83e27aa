#include "plugin/cni/result.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/list.h"
#include "base/text.h"
#include "plugin/cni/version.h"

namespace nomad_bridge::cni {
namespace {

using nlohmann::ordered_json;

constexpr std::int64_t kMaxInt = std::numeric_limits<int>::max();
constexpr std::int64_t kMaxUnsigned = std::numeric_limits<std::uint32_t>::max();

// Versions whose results have the same shape. A plugin understands only its own shape.
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

// Refuses an index beyond the array: if passed on, it makes Nomad's agent panic.
std::optional<int> FindIndex(const JsonView& ip, std::size_t interfaces) {
  const JsonView index = ip.Find("interface");
  if (index && interfaces == 0) {
    throw index.Wrong("none, as there are no interfaces");
  }
  return ip.FindInteger<int>("interface", static_cast<std::int64_t>(interfaces) - 1);
}

void ParseInterfaces(const JsonView& object, Result& result) {
  result.interfaces = object.FindEach("interfaces", ParseInterface);
  auto ip = result.ips.begin();
  for (const JsonView& element : object.FindArray("ips")) {
    (ip++)->interface = FindIndex(element, result.interfaces.size());
  }
}

IpConfig ParseIp(const JsonView& object, std::string_view address_key) {
  return {.address = RequireSubnet(object, address_key), .gateway = object.FindAddress("gateway")};
}

Result ParseArrays(const JsonView& object) {
  const auto parse_ip = [](const JsonView& element) { return ParseIp(element, "address"); };
  Result result;
  result.ips = object.FindEach("ips", parse_ip);
  result.routes = object.FindEach("routes", ParseRoute);
  return result;
}

// Puts routes of both families into one array: a route's destination shows its family.
Result ParseByFamily(const JsonView& object) {
  Result result;
  for (const char* const key : {"ip4", "ip6"}) {
    if (const JsonView family = object.Find(key)) {
      result.ips.push_back(ParseIp(family, "ip"));
      nomad_bridge::Append(result.routes, family.FindEach("routes", ParseRoute));
    }
  }
  return result;
}

// Go's encoders leave out empty values, and readers rely on this.
template <typename Value>
void PutUnlessEmpty(ordered_json& object, const char* key, const Value& value) {
  if (value != Value()) {
    object[key] = value;
  }
}

// Index, table and scope may be 0, so only unset values are left out.
void PutIfSet(ordered_json& object, const char* key, const auto& value) {
  if (value) {
    object[key] = *value;
  }
}

void PutIfSet(ordered_json& object, const char* key, const std::optional<Ip>& value) {
  if (value) {
    object[key] = value->Text();
  }
}

ordered_json ToJson(const Dns& dns) {
  ordered_json object = ordered_json::object();
  PutUnlessEmpty(object, "nameservers", dns.nameservers);
  PutUnlessEmpty(object, "domain", dns.domain);
  PutUnlessEmpty(object, "search", dns.search);
  PutUnlessEmpty(object, "options", dns.options);
  return object;
}

ordered_json ToJson(const Interface& interface, std::string_view version) {
  const bool is_newest = IsAtLeast(version, "1.1.0");
  ordered_json object = {{"name", interface.name}};
  PutUnlessEmpty(object, "mac", interface.mac);
  PutUnlessEmpty(object, "mtu", is_newest ? interface.mtu : 0);
  PutUnlessEmpty(object, "sandbox", interface.sandbox);
  PutUnlessEmpty(object, "socketPath", is_newest ? interface.socket_path : "");
  PutUnlessEmpty(object, "pciID", is_newest ? interface.pci_id : "");
  return object;
}

ordered_json ToJson(const IpConfig& ip, std::string_view version) {
  ordered_json object = ordered_json::object();
  if (!IsAtLeast(version, "1.0.0")) {
    object["version"] = ip.address.address.is_ipv4() ? "4" : "6";
  }
  PutIfSet(object, "interface", ip.interface);
  object["address"] = ip.address.Text();
  PutIfSet(object, "gateway", ip.gateway);
  return object;
}

ordered_json ToJson(const Route& route, std::string_view version) {
  ordered_json object = {{"dst", route.destination.Text()}};
  PutIfSet(object, "gw", route.gateway);
  if (IsAtLeast(version, "0.3.0")) {
    PutUnlessEmpty(object, "mtu", route.mtu);
    PutUnlessEmpty(object, "advmss", route.advmss);
    PutUnlessEmpty(object, "priority", route.priority);
    PutIfSet(object, "table", route.table);
    PutIfSet(object, "scope", route.scope);
  }
  return object;
}

template <typename Element>
void PutArray(ordered_json& object,
              const char* key,
              const std::vector<Element>& elements,
              std::string_view version) {
  for (const Element& element : elements) {
    object[key].push_back(ToJson(element, version));
  }
}

// Writes the first address of a family with its routes; nothing if there is none.
void PutFamily(ordered_json& object, const char* key, const Result& result, Family family) {
  const auto first = std::ranges::find_if(
      result.ips, [&](const IpConfig& ip) { return ip.address.address.family() == family; });
  if (first == result.ips.end()) {
    return;
  }
  ordered_json& member = object[key] = {{"ip", first->address.Text()}};
  PutIfSet(member, "gateway", first->gateway);
  for (const Route& route : result.routes) {
    if (route.destination.address.family() == family) {
      member["routes"].push_back(ToJson(route, "0.2.0"));
    }
  }
}

void PutByFamily(ordered_json& object, const Result& result) {
  if (result.ips.empty()) {
    throw Error(Code::kInvalidConfig,
                "cannot convert: no valid IP addresses",
                "results of CNI 0.1.0 and 0.2.0 consist of addresses");
  }
  PutFamily(object, "ip4", result, Family::kIpv4);
  PutFamily(object, "ip6", result, Family::kIpv6);
}

std::string Text(const ordered_json& document) {
  return document.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
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
  return {.nameservers = object.FindEach("nameservers", &JsonView::String),
          .domain = StringOf(object, "domain"),
          .search = object.FindEach("search", &JsonView::String),
          .options = object.FindEach("options", &JsonView::String)};
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

// Our interfaces come first: later plugins take interfaces[0] for the bridge.
Result Append(Result first, const Result& later) {
  const int offset = static_cast<int>(first.interfaces.size());
  nomad_bridge::Append(first.interfaces, later.interfaces);
  for (IpConfig ip : later.ips) {
    if (ip.interface) {
      *ip.interface += offset;
    }
    first.ips.push_back(ip);
  }
  nomad_bridge::Append(first.routes, later.routes);
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

ordered_json ToJson(const Result& result, std::string_view version) {
  ordered_json object = {{"cniVersion", version}};
  if (IsAtLeast(version, "0.3.0")) {
    PutArray(object, "interfaces", result.interfaces, version);
    PutArray(object, "ips", result.ips, version);
    PutArray(object, "routes", result.routes, version);
  } else {
    PutByFamily(object, result);
  }
  // Go's older types always print dns.
  if (!IsAtLeast(version, "1.0.0") || !result.dns.empty()) {
    object["dns"] = ToJson(result.dns);
  }
  return object;
}

void Print(const Result& result, std::string_view version, int out) {
  WriteAll(out, Text(ToJson(result, version)), "stdout");
}

void PrintPrevResult(const Request& request, int out) {
  ordered_json result = JsonView(*request.config, "").Find("prevResult").value();
  result["cniVersion"] = request.cni_version;
  WriteAll(out, Text(result), "stdout");
}

void PrintError(std::string_view version, const Error& error, int out) {
  ordered_json document = {
      {"cniVersion", version}, {"code", static_cast<int>(error.code())}, {"msg", error.msg()}};
  PutUnlessEmpty(document, "details", error.details());
  WriteBestEffort(out, Text(document));
}

}  // namespace nomad_bridge::cni
