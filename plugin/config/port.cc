#include "base/text.h"
#include "plugin/config/sources.h"

namespace nomad_bridge::config {
namespace {

constexpr int kFirstVlan = 1;
constexpr int kLastVlan = 4094;
constexpr std::size_t kMostNameBytes = 15;

std::uint16_t ParseVlan(const cni::JsonView& id, int least) {
  return static_cast<std::uint16_t>(id.Integer(least, kLastVlan));
}

// One element of vlanTrunk: a range, an id, or both of them.
void ParseTrunk(const cni::JsonView& element, std::vector<VlanRange>& trunk) {
  const std::optional<cni::JsonView> first = element.Find("minID");
  const std::optional<cni::JsonView> last = element.Find("maxID");
  const std::optional<cni::JsonView> id = element.Find("id");
  if (first.has_value() != last.has_value() || (!first && !id)) {
    throw element.Wrong("an object with 'id', or with 'minID' and 'maxID' together");
  }
  if (first) {
    const VlanRange range{.first = ParseVlan(*first, kFirstVlan),
                          .last = ParseVlan(*last, kFirstVlan)};
    if (range.first > range.last) {
      throw first->Wrong(Cat("not greater than 'maxID', which is ", range.last));
    }
    trunk.push_back(range);
  }
  if (id) {
    const std::uint16_t only = ParseVlan(*id, kFirstVlan);
    trunk.push_back({.first = only, .last = only});
  }
}

}  // namespace

void ParseBridgePort(const cni::JsonView& config, LinkConfig& link) {
  link.port_isolation = config.FindBool("portIsolation").value_or(false);
  link.mac_spoof_check = config.FindBool("macspoofchk").value_or(false);
  link.preserve_default_vlan = config.FindBool("preserveDefaultVlan").value_or(false);
  if (const std::optional<cni::JsonView> vlan = config.Find("vlan")) {
    link.vlan = ParseVlan(*vlan, 0);
  }
  for (const cni::JsonView& element : config.ElementsOf("vlanTrunk")) {
    ParseTrunk(element, link.vlan_trunk);
  }
  if (link.GatewayIfname().size() > kMostNameBytes) {
    throw config.Find("vlan")->Wrong(Cat("the gateway's interface would be ",
                                         Quoted(link.GatewayIfname()),
                                         ", and a name has at most ",
                                         kMostNameBytes,
                                         " bytes: give the bridge a shorter one"));
  }
}

}  // namespace nomad_bridge::config
