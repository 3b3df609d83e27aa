#include "plugin/config/config.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/list.h"
#include "base/nearest.h"
#include "base/text.h"
#include "plugin/cni/args.h"
#include "plugin/cni/json.h"
#include "plugin/config/sources.h"

namespace nomad_bridge::config {
namespace {

// Parses the labels. Labels of the CNI conventions take precedence over CNI_ARGS, the older way to
// pass them.
cni::Labels ParseLabels(const Sources& sources) {
  constexpr std::string_view kShape = "an object with the strings 'key' and 'value'";
  cni::Labels labels = sources.args.labels;
  for (const JsonView& label : sources.cni.FindArray("labels")) {
    labels.push_back(
        {label.Require("key", kShape).String(), label.Require("value", kShape).String()});
  }
  return cni::LastOfEach(std::move(labels));
}

// Throws for mistakes that only ADD refuses. A running allocation must not fail its CHECK because
// of them.
void CheckForAdd(const JsonView& config, const cni::Args& args) {
  if (!args.forged_key.empty()) {
    throw Error(
        Code::kInvalidEnvironment,
        Format("CNI_ARGS has the key '{}'", Excerpt(args.forged_key)),
        "allowed: each of NOMAD_* and K8S_* once, in capitals, as the orchestrator writes it");
  }
  const std::string requests = config.FindString("requests").value_or("allow");
  if (requests != "allow" && requests != "refuse") {
    throw config.Find("requests").Wrong("'allow' or 'refuse'");
  }
  if (requests == "refuse" && (args.ip || args.mac)) {
    throw Error(Code::kInvalidEnvironment,
                args.ip ? Cat("CNI_ARGS has IP=", *args.ip) : Cat("CNI_ARGS has MAC=", *args.mac),
                "the network's config refuses requests for an address or a MAC: its key 'requests' "
                "is 'refuse'");
  }
}

// The reference firewall, portmap and loopback plugins never read CNI_ARGS: under their names it
// holds only labels, and a mistake in it must not fail the command. But policies select allocations
// by their labels, and the part kForward is there to apply them. If a mistake in a job's own
// arguments hid its labels, the job would escape the policies. For the others, `labels_error` gets
// the mistake: what to do depends on whether the node has policies.
cni::Args ParseArgsFor(const cni::PluginType& type,
                       const cni::Request& request,
                       const JsonView& config,
                       std::optional<Error>& labels_error) {
  try {
    cni::Args args = cni::ParseArgs(request.args);
    if (request.verb == cni::Verb::kAdd) {
      CheckForAdd(config, args);
    }
    return args;
  } catch (const Error& error) {
    const bool labels_decide =
        request.verb == cni::Verb::kAdd && type.Provides(cni::Part::kForward);
    if (labels_decide || type.Provides(cni::Part::kAddress) || type.Provides(cni::Part::kLink)) {
      throw;
    }
    labels_error = error;
    return {};
  }
}

// The keys of a config that the code has looked up.
struct Asked {
  // Begins with the keys that are meant for the runtime.
  std::vector<std::string> config = {"cniVersion",
                                     "cniVersions",
                                     "name",
                                     "type",
                                     "capabilities",
                                     "disableCheck",
                                     "disableGC",
                                     "dns"};
  std::vector<std::string> ipam = {"type"};
};

Sources MakeSources(const cni::Request& request,
                    const cni::PluginType& type,
                    Asked& asked,
                    std::optional<Error>& labels_error) {
  const JsonView config = JsonView(*request.config, "").Recording(asked.config);
  return {.config = config,
          .ipam = config.Find("ipam").Recording(asked.ipam),
          .runtime = config.Find("runtimeConfig"),
          .cni = config.Find("args").Find("cni"),
          .args = ParseArgsFor(type, request, config, labels_error),
          .cni_version = request.cni_version,
          .is_add = request.verb == cni::Verb::kAdd};
}

bool HasIpv6(const std::vector<ipam::RangeSet>& sets) {
  return std::ranges::any_of(sets, [](const ipam::RangeSet& set) {
    return !set.front().subnet.address.is_ipv4();  // a set has one family
  });
}

void CheckMtuIsEnough(const JsonView& config, const LinkConfig& link, bool ipv6) {
  if (ipv6 && link.mtu > 0 && link.mtu < kMinIpv6Mtu) {
    throw config.Find("mtu").Wrong(
        Format("0 (the kernel's default), or {} and more, as the network has IPv6 addresses",
               kMinIpv6Mtu));
  }
}

// Throws if an interface that stays down would get addresses, which it does not need.
void CheckInterfaceMayStayDown(const JsonView& config, const Config& parsed) {
  if (parsed.link.disable_container_interface && !parsed.ipam.type.empty()) {
    throw config.Find("disableContainerInterface")
        .Wrong(Format("false, as the network has addresses (ipam type '{}'); leave 'ipam' out, "
                      "under the name 'bridge'",
                      parsed.ipam.type));
  }
}

// Keys that are often written one level too high.
constexpr std::array<std::string_view, 6> kIpamKeys =
    {"gateway", "rangeEnd", "rangeStart", "ranges", "resolvConf", "subnet"};

// Adds keys with unknown names. Ignores names with other characters: they are extensions or
// comments.
void AddUnknownKeys(const JsonView& object,
                    const std::vector<std::string>& asked,
                    std::vector<UnknownKey>& unknown) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ46";
  for (const std::string& key : object.Keys()) {
    const auto is_it = [&](const std::string& each) { return EqualIgnoringCase(each, key); };
    if (key.find_first_not_of(kLetters) == key.npos && std::ranges::none_of(asked, is_it)) {
      unknown.push_back({.key = Cat(object.path(), object.path().empty() ? "" : ".", key),
                         .nearest = std::string(FindNearest(key, {asked.begin(), asked.end()}))});
    }
  }
}

// Returns the string under `key`; `value` need not be an object. Returns `fallback` if there is no
// string, or if ADD refuses it: no ADD has used it then.
std::string UsedOr(const std::string& fallback,
                   const JsonView& value,
                   std::string_view key,
                   bool (*is_valid)(std::string_view)) {
  const bool is_string = value.Kind() == "object" && value.Find(key).Kind() == "string";
  return is_string && is_valid(value.Find(key).String()) ? value.Find(key).String() : fallback;
}

// Returns whether an ADD may have run an IPAM plugin of that name: no path, and not ourselves.
bool MayBeIpamType(std::string_view ipam_type) {
  const std::vector<std::string> ours = cni::PluginTypeNames();
  return ipam_type == cni::kHostLocal ||
         (ipam_type.find_first_of(std::string_view("/\0", 2)) == ipam_type.npos &&
          !Contains(ours, ipam_type));
}

}  // namespace

Config ParseConfig(const cni::Request& request, const cni::PluginType& type) {
  Asked asked;
  std::optional<Error> labels_error;
  const Sources sources = MakeSources(request, type, asked, labels_error);
  Config config{.rules = ParseRules(sources, type),
                .labels = ParseLabels(sources),
                .labels_error = std::move(labels_error),
                .repair_on_check = sources.config.FindBool("repairOnCheck").value_or(true)};
  if (type.Provides(cni::Part::kAddress)) {
    config.ipam = ParseIpam(sources, type.defaults);
  }
  if (type.Provides(cni::Part::kLink)) {
    config.link = ParseLink(sources, type.defaults);
    // These checks compare parts of the config, so they run after parsing.
    CheckMtuIsEnough(sources.config, config.link, HasIpv6(config.ipam.ranges));
    CheckInterfaceMayStayDown(sources.config, config);
    if (const JsonView dns = sources.config.Find("dns")) {
      config.dns = cni::ParseDns(dns);
    }
  }
  const JsonView result = sources.config.Find("prevResult");
  if (result && (type.appends_prev_result || request.verb == cni::Verb::kCheck)) {
    config.prev_result = cni::ParseResult(result, request.cni_version);
  }
  AddUnknownKeys(sources.config, asked.config, config.unknown_keys);
  for (UnknownKey& unknown : config.unknown_keys) {
    unknown.nearest =
        Contains(kIpamKeys, unknown.key) ? Cat("ipam.", unknown.key) : unknown.nearest;
  }
  if (sources.ipam && config.ipam.type == cni::kHostLocal) {
    AddUnknownKeys(sources.ipam, asked.ipam, config.unknown_keys);
  }
  return config;
}

LenientConfig ParseLenient(const JsonView& config, const cni::Defaults& defaults) {
  const JsonView ipam = config.Kind() == "object" ? config.Find("ipam") : config;
  return {.bridge = UsedOr(defaults.bridge, config, "bridge", IsBridgeName),
          .ipam_type = defaults.ignores_ipam_type
                           ? defaults.ipam_type
                           : UsedOr(defaults.ipam_type, ipam, "type", MayBeIpamType),
          .data_dir = UsedOr(defaults.data_dir, ipam, "dataDir", IsDirectoryPath)};
}

}  // namespace nomad_bridge::config
