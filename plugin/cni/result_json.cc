// The writing half of result.h.
#include <algorithm>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "plugin/cni/result.h"
#include "plugin/cni/version.h"

namespace nomad_bridge::cni {
namespace {

using nlohmann::ordered_json;

// Go's encoders leave out what is empty, and their readers count on it.
template <typename Value>
void PutUnlessEmpty(ordered_json& object, const char* key, const Value& value) {
  if (value != Value()) {
    object[key] = value;
  }
}

// Index, table and scope 0 have a meaning: left out only if nobody has set them.
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

// The first address of a family with its routes; nothing if there is none.
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

ordered_json ToJson(const Result& result, std::string_view version) {
  ordered_json object = {{"cniVersion", version}};
  if (IsAtLeast(version, "0.3.0")) {
    PutArray(object, "interfaces", result.interfaces, version);
    PutArray(object, "ips", result.ips, version);
    PutArray(object, "routes", result.routes, version);
  } else {
    PutByFamily(object, result);
  }
  // Go's older types print it always.
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
