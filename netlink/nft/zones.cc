#include "netlink/nft/zones.h"

#include <array>
#include <cstring>

#include <linux/netfilter/nf_conntrack_tuple_common.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/xt_CT.h>

#include "netlink/core/handles.h"
#include "netlink/nft/packet_fields.h"

namespace nomad_bridge::nft {
namespace {

// All revisions' structs begin so.
struct TargetHead {
  std::uint16_t flags = 0;
  std::uint16_t zone = 0;
};

}  // namespace

std::optional<std::uint16_t> AnswersZone(const Expression& set,
                                         std::span<const PartialByte> value) {
  if (BytesOf(set, NFTNL_EXPR_CT_DIR) == Bytes{IP_CT_DIR_ORIGINAL}) {
    return 0;
  }
  std::uint16_t zone = 0;
  if (value.size() != sizeof zone || !IsKnown(value)) {
    return std::nullopt;
  }
  const std::array<std::uint8_t, sizeof zone> bytes = {value[0].value, value[1].value};
  std::memcpy(&zone, bytes.data(), bytes.size());
  return zone;
}

std::optional<std::uint16_t> AnswersZoneOfTarget(const Expression& target) {
  const auto head = InfoOf<TargetHead>(target, NFTNL_EXPR_TG_INFO);
  if ((head.flags & XT_CT_ZONE_MARK) != 0) {
    return std::nullopt;
  }
  const bool is_of_requests_only =
      (head.flags & (XT_CT_ZONE_DIR_ORIG | XT_CT_ZONE_DIR_REPL)) == XT_CT_ZONE_DIR_ORIG;
  return is_of_requests_only ? std::uint16_t{0} : head.zone;
}

bool IsNotrack(const Expression& target) {
  const std::string name = TextOf(target, NFTNL_EXPR_TG_NAME);
  return name == "NOTRACK" ||
         (name == "CT" &&
          (InfoOf<TargetHead>(target, NFTNL_EXPR_TG_INFO).flags & XT_CT_NOTRACK) != 0);
}

}  // namespace nomad_bridge::nft
