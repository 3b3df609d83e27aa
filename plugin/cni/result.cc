#include "plugin/cni/result.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "plugin/cni/json.h"
#include "plugin/cni/request.h"

namespace nomad_bridge::cni {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// Versions whose results have one shape: a plugin understands only its own.
enum class Shape { kByFamily, kListWithVersion, kList };

Shape ShapeOf(std::string_view version) {
  if (IsAtLeast(version, "1.0.0")) {
    return Shape::kList;
  }
  return IsAtLeast(version, "0.3.0") ? Shape::kListWithVersion : Shape::kByFamily;
}

std::string TextOf(const JsonView& object, std::string_view key) {
  return object.FindText(key).value_or(std::string());
}

std::vector<std::string> TextsOf(const JsonView& object, std::string_view key) {
  std::vector<std::string> texts;
  for (const JsonView& element : object.ElementsOf(key)) {
    texts.push_back(element.String());
  }
  return texts;
}

Dns ParseDns(const JsonView& dns) {
  return {.nameservers = TextsOf(dns, "nameservers"),
          .domain = TextOf(dns, "domain"),
          .search = TextsOf(dns, "search"),
          .options = TextsOf(dns, "options")};
}

Cidr RequireSubnet(const JsonView& object, std::string_view key) {
  const std::optional<JsonView> subnet = object.Find(key);
  if (!subnet) {
    throw object.Wrong(Cat("an object with ", Quoted(key)));
  }
  return subnet->Subnet();
}

Interface ParseInterface(const JsonView& object) {
  const std::optional<JsonView> mtu = object.Find("mtu");
  constexpr int kMost = std::numeric_limits<int>::max();
  return {.name = TextOf(object, "name"),
          .mac = TextOf(object, "mac"),
          .mtu = mtu ? static_cast<int>(mtu->Integer(0, kMost)) : 0,
          .sandbox = TextOf(object, "sandbox"),
          .socket_path = TextOf(object, "socketPath"),
          .pci_id = TextOf(object, "pciID")};
}

IpConfig ParseIpConfig(const JsonView& object, std::size_t interfaces) {
  IpConfig ip{.address = RequireSubnet(object, "address"),
              .gateway = object.FindAddress("gateway")};
  if (const std::optional<JsonView> index = object.Find("interface")) {
    // Passed on, an index beyond the list makes Nomad's agent panic.
    if (interfaces == 0) {
      throw index->Wrong("none, as there are no interfaces");
    }
    ip.interface = static_cast<int>(index->Integer(0, static_cast<std::int64_t>(interfaces) - 1));
  }
  return ip;
}

Result ParseLists(const JsonView& object) {
  Result result;
  for (const JsonView& element : object.ElementsOf("interfaces")) {
    result.interfaces.push_back(ParseInterface(element));
  }
  for (const JsonView& element : object.ElementsOf("ips")) {
    result.ips.push_back(ParseIpConfig(element, result.interfaces.size()));
  }
  for (const JsonView& element : object.ElementsOf("routes")) {
    result.routes.push_back(ParseRoute(element));
  }
  return result;
}

// Routes of both families go into one list: each route's destination tells its family.
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

// Go leaves out what is empty; a reader must not have to tell "" from nothing.
ordered_json ToJson(const Dns& dns) {
  ordered_json object = ordered_json::object();
  const auto put = [&](const char* key, const auto& value) {
    if (!value.empty()) {
      object[key] = value;
    }
  };
  put("nameservers", dns.nameservers);
  put("domain", dns.domain);
  put("search", dns.search);
  put("options", dns.options);
  return object;
}

ordered_json ToJson(const Interface& interface, bool is_newest) {
  // Readers before 1.1.0 need not know the three newer fields.
  ordered_json object = {{"name", interface.name}};
  if (!interface.mac.empty()) {
    object["mac"] = interface.mac;
  }
  if (is_newest && interface.mtu != 0) {
    object["mtu"] = interface.mtu;
  }
  if (!interface.sandbox.empty()) {
    object["sandbox"] = interface.sandbox;
  }
  if (is_newest && !interface.socket_path.empty()) {
    object["socketPath"] = interface.socket_path;
  }
  if (is_newest && !interface.pci_id.empty()) {
    object["pciID"] = interface.pci_id;
  }
  return object;
}

ordered_json ToJson(const IpConfig& ip, bool with_version) {
  ordered_json object = ordered_json::object();
  if (with_version) {
    object["version"] = ip.address.address.is_ipv4() ? "4" : "6";
  }
  if (ip.interface) {
    object["interface"] = *ip.interface;  // also 0: it is an index
  }
  object["address"] = ip.address.Text();
  if (ip.gateway) {
    object["gateway"] = ip.gateway->Text();
  }
  return object;
}

ordered_json ToJson(const Route& route, bool with_extras) {
  ordered_json object = {{"dst", route.destination.Text()}};
  if (route.gateway) {
    object["gw"] = route.gateway->Text();
  }
  const auto put = [&](const char* key, std::int64_t value) {
    if (with_extras && value != 0) {
      object[key] = value;
    }
  };
  put("mtu", route.mtu);
  put("advmss", route.advmss);
  put("priority", route.priority);
  // Table 0 and scope 0 have a meaning: they are left out only if nobody has set them.
  if (with_extras && route.table) {
    object["table"] = *route.table;
  }
  if (with_extras && route.scope) {
    object["scope"] = *route.scope;
  }
  return object;
}

template <typename Element>
void PutList(ordered_json& object,
             const char* key,
             const std::vector<Element>& elements,
             bool flag) {
  for (const Element& element : elements) {
    object[key].push_back(ToJson(element, flag));
  }
}

// The first address of a family with its routes; nothing if there is none.
void PutFamily(ordered_json& object, const char* key, const Result& result, Family family) {
  const auto first = std::find_if(result.ips.begin(), result.ips.end(), [&](const IpConfig& ip) {
    return ip.address.address.family() == family;
  });
  if (first == result.ips.end()) {
    return;
  }
  ordered_json& said = object[key] = {{"ip", first->address.Text()}};
  if (first->gateway) {
    said["gateway"] = first->gateway->Text();
  }
  for (const Route& route : result.routes) {
    if (route.destination.address.family() == family) {
      said["routes"].push_back(ToJson(route, false));
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

}  // namespace

Route ParseRoute(const JsonView& object) {
  constexpr std::int64_t kMost = std::numeric_limits<int>::max();
  constexpr std::int64_t kMostUnsigned = std::numeric_limits<std::uint32_t>::max();
  constexpr std::int64_t kMostScope = 255;
  const auto find = [&](std::string_view key, std::int64_t most) {
    const std::optional<JsonView> number = object.Find(key);
    return number ? std::optional(number->Integer(0, most)) : std::nullopt;
  };
  Route route{.destination = RequireSubnet(object, "dst"),
              .gateway = object.FindAddress("gw"),
              .mtu = static_cast<int>(find("mtu", kMost).value_or(0)),
              .advmss = static_cast<int>(find("advmss", kMost).value_or(0)),
              .priority = static_cast<std::uint32_t>(find("priority", kMostUnsigned).value_or(0))};
  if (const std::optional<std::int64_t> table = find("table", kMostUnsigned)) {
    route.table = static_cast<std::uint32_t>(*table);
  }
  if (const std::optional<std::int64_t> scope = find("scope", kMostScope)) {
    route.scope = static_cast<int>(*scope);
  }
  return route;
}

Result ParseResult(const json& json, std::string_view config_version, const std::string& path) {
  const JsonView object(json, path);
  const std::string version = object.FindText("cniVersion").value_or(std::string(config_version));
  const std::vector<std::string>& supported = SupportedVersions();
  const bool is_known = std::find(supported.begin(), supported.end(), version) != supported.end();
  if (!is_known || ShapeOf(version) != ShapeOf(config_version)) {
    throw object.Find("cniVersion")
        ->Wrong(Cat("a version whose results have the shape of the config's, ", config_version));
  }
  Result result = ShapeOf(version) == Shape::kByFamily ? ParseByFamily(object) : ParseLists(object);
  if (const std::optional<JsonView> dns = object.Find("dns")) {
    result.dns = ParseDns(*dns);
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

ordered_json ToJson(const Result& result, std::string_view version) {
  const Shape shape = ShapeOf(version);
  ordered_json object = {{"cniVersion", version}};
  if (shape == Shape::kByFamily) {
    PutByFamily(object, result);
  } else {
    PutList(object, "interfaces", result.interfaces, IsAtLeast(version, "1.1.0"));
    PutList(object, "ips", result.ips, shape == Shape::kListWithVersion);
    PutList(object, "routes", result.routes, true);
  }
  // Go's older types print it always.
  if (shape != Shape::kList || !result.dns.empty()) {
    object["dns"] = ToJson(result.dns);
  }
  return object;
}

void Print(const Result& result, std::string_view version, int out) {
  Print(ToJson(result, version), out);
}

void Print(const ordered_json& result, int out) {
  WriteAll(
      out, result.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n", "stdout");
}

Dns ParseDns(const json& json, const std::string& path) {
  return ParseDns(JsonView(json, path));
}

std::optional<Result> FindPrevResult(const Request& request) {
  try {
    const std::optional<JsonView> result = JsonView(request.config, "").Find("prevResult");
    return result ? std::optional(ParseResult(result->value(), request.cni_version)) : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

void PrintPrevResult(const Request& request, int out) {
  nlohmann::ordered_json result = JsonView(request.config, "").Find("prevResult")->value();
  result["cniVersion"] = request.cni_version;
  Print(result, out);
}

}  // namespace nomad_bridge::cni
