#include <array>

#include "base/list.h"
#include "base/text.h"
#include "plugin/config/sources.h"

namespace nomad_bridge::config {
namespace {

constexpr int kMinMtu = 68;  // RFC 791: the minimum that every link must carry
constexpr int kMaxMtu = 65535;
constexpr int kFirstVlan = 1;
constexpr int kLastVlan = 4094;
constexpr std::size_t kMaxNameBytes = 15;

std::string ParseBridge(const JsonView& config, const cni::Defaults& defaults) {
  const JsonView bridge = config.Find("bridge");
  if (!bridge) {
    return defaults.bridge;
  }
  std::string name = bridge.String();
  if (!IsBridgeName(name)) {
    throw bridge.Wrong(Cat(cni::kInterfaceNameRule, ", nor 'all', 'default' or 'lo'"));
  }
  return name;
}

int ParseMtu(const JsonView& config) {
  const JsonView mtu = config.Find("mtu");
  if (!mtu) {
    return 0;
  }
  if (mtu.Kind() == "string" && mtu.String() == "auto") {
    return kUplinkMtu;
  }
  // Integer() is not used, because its message would not list all allowed values.
  const std::optional<std::int64_t> bytes = mtu.FindInteger();
  if (!bytes || *bytes > kMaxMtu || (*bytes < kMinMtu && *bytes != 0)) {
    throw mtu.Wrong(
        Format("0 (the kernel's default), an integer from {} to {}, or \"auto\" (the uplink's)",
               kMinMtu,
               kMaxMtu));
  }
  return static_cast<int>(*bytes);
}

// Returns the MAC of the strongest source, as the reference plugin does. Checks the MACs of all
// sources, even those that are not used.
std::optional<Mac> ParseMac(const Sources& sources) {
  std::optional<Mac> chosen;
  const auto read = [&](const JsonView& object) {
    const std::optional<std::string> text = object.FindString("mac");
    if (!text) {
      return;
    }
    chosen = Mac::Parse(*text);
    if (!chosen || !chosen->IsUnicast()) {
      throw object.Find("mac").Wrong("a MAC of one station, as '02:42:ac:1a:40:02'");
    }
  };
  read(sources.config);
  if (sources.args.mac) {
    chosen = sources.args.mac;
  }
  read(sources.cni);
  read(sources.runtime);
  return chosen;
}

// Parses the gateway's keys. A default gateway is a gateway, too. Without a setting, the gateway is
// the default gateway unless the config has routes.
void ParseGateway(const Sources& sources, const cni::Defaults& defaults, LinkConfig& link) {
  const std::optional<bool> is_default = sources.config.FindBool("isDefaultGateway");
  link.is_gateway = sources.config.FindBool("isGateway").value_or(defaults.is_gateway);
  link.is_default_gateway = is_default.value_or(defaults.is_default_gateway && link.is_gateway &&
                                                !sources.ipam.Find("routes"));
  link.is_gateway = link.is_gateway || link.is_default_gateway;
  link.makes_bridge = link.is_gateway || defaults.makes_bridge_without_gateway;
}

// Parses forceAddress. Only an explicit setting removes addresses from any bridge: the node's own
// address may be on it.
ForceAddress ParseForceAddress(const JsonView& config, const cni::Defaults& defaults) {
  const std::optional<bool> force = config.FindBool("forceAddress");
  if (force) {
    return *force ? ForceAddress::kYes : ForceAddress::kNo;
  }
  return defaults.force_address ? ForceAddress::kOnOwnBridge : ForceAddress::kNo;
}

// Parses hairpinMode and promiscMode. A bridge in promiscuous mode sends a port's packets back
// itself, without hairpin mode.
void ParseModes(const JsonView& config, const cni::Defaults& defaults, LinkConfig& link) {
  const std::optional<bool> hairpin = config.FindBool("hairpinMode");
  link.promisc_mode = config.FindBool("promiscMode").value_or(false);
  if (link.promisc_mode && hairpin.value_or(false)) {
    throw config.Find("promiscMode")
        .Wrong("false, as 'hairpinMode' is true: only one of the two can be");
  }
  link.port.hairpin = hairpin.value_or(defaults.hairpin_mode && !link.promisc_mode);
}

std::uint16_t ParseVlan(const JsonView& id) {
  return static_cast<std::uint16_t>(id.Integer(kFirstVlan, kLastVlan));
}

// Parses one element of vlanTrunk: a range, an id, or both.
void ParseTrunk(const JsonView& element, std::vector<VlanRange>& trunk) {
  const JsonView first = element.Find("minID");
  const JsonView last = element.Find("maxID");
  const JsonView id = element.Find("id");
  if (!first != !last || (!first && !id)) {
    throw element.Wrong("an object with 'id', or with 'minID' and 'maxID' together");
  }
  if (first) {
    const VlanRange range{.first = ParseVlan(first), .last = ParseVlan(last)};
    if (range.first > range.last) {
      throw first.Wrong(Cat("not greater than 'maxID', which is ", range.last));
    }
    trunk.push_back(range);
  }
  if (id) {
    const std::uint16_t only = ParseVlan(id);
    trunk.push_back({.first = only, .last = only});
  }
}

// Parses sourceCheck. With a trunk it is off by default: we do not know the addresses of an
// allocation in its VLANs.
void ParseSourceCheck(const JsonView& config, const cni::Defaults& defaults, LinkConfig& link) {
  const bool is_trunk = link.port.vlans && !link.port.vlans->tagged.empty();
  const std::optional<bool> wanted = config.FindBool("sourceCheck");
  if (wanted == true && is_trunk) {
    throw config.Find("sourceCheck").Wrong("false, or no 'vlanTrunk'");
  }
  link.requires_source_check = wanted == true;
  link.port.source_check = wanted.value_or(defaults.source_check && !is_trunk);
}

// Parses the VLANs. Untagged frames of a trunk belong to VLAN 1, as with the reference plugin. VLAN
// 1 needs no gateway of its own, because the bridge device is an untagged member of it.
void ParseVlans(const JsonView& config, LinkConfig& link) {
  constexpr std::uint16_t kDefaultVlan = 1;
  const auto id = config.FindInteger<std::uint16_t>("vlan", kLastVlan).value_or(0);
  PortVlans vlans{.untagged = id != 0 ? id : kDefaultVlan,
                  .keep_default = config.FindBool("preserveDefaultVlan").value_or(false)};
  for (const JsonView& element : config.FindArray("vlanTrunk")) {
    ParseTrunk(element, vlans.tagged);
  }
  link.gateway_ifname =
      id > kDefaultVlan && link.is_gateway ? Cat(link.bridge, '.', id) : link.bridge;
  if (link.gateway_ifname.size() > kMaxNameBytes) {
    throw config.Find("vlan").Wrong(
        Format("the gateway's interface would be '{}', and a name has at most {} bytes: give the "
               "bridge a shorter one",
               link.gateway_ifname,
               kMaxNameBytes));
  }
  if (id != 0 || !vlans.tagged.empty()) {
    link.port.vlans = std::move(vlans);
  }
}

}  // namespace

LinkConfig ParseLink(const Sources& sources, const cni::Defaults& defaults) {
  const JsonView& config = sources.config;
  LinkConfig link;
  link.bridge = ParseBridge(config, defaults);
  link.mtu = ParseMtu(config);
  link.mac = ParseMac(sources);
  link.force_address = ParseForceAddress(config, defaults);
  ParseGateway(sources, defaults, link);
  ParseModes(config, defaults, link);
  link.port.isolated = config.FindBool("portIsolation").value_or(false);
  link.port.locked = config.FindBool("macspoofchk").value_or(false);
  ParseVlans(config, link);
  ParseSourceCheck(config, defaults, link);
  link.enable_dad = config.FindBool("enabledad").value_or(false);
  link.disable_container_interface = config.FindBool("disableContainerInterface").value_or(false);
  return link;
}

std::optional<std::uint16_t> LinkSpec::GatewayVlan() const {
  return port.vlans && gateway_ifname != bridge ? std::optional(port.vlans->untagged)
                                                : std::nullopt;
}

bool IsBridgeName(std::string_view name) {
  // 'all' and 'default' are directories of sysctls, so no link can have these names.
  constexpr std::array<std::string_view, 3> kTaken = {"all", "default", "lo"};
  return cni::IsInterfaceName(name) && !Contains(kTaken, name);
}

}  // namespace nomad_bridge::config
