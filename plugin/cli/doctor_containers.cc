#include "base/text.h"
#include "plugin/causes/in_container.h"
#include "plugin/cli/doctor.h"
#include "plugin/link/container.h"

namespace nomad_bridge::cli {
namespace {

// Reports what is wrong inside a container. Skips a namespace that is gone by now, or that cannot
// be seen from here: that is no fault of the allocation.
void CheckInside(Examination& node, const Attachment& attachment) {
  const state::Record& record = *attachment.record;
  const std::optional<netlink::Netns> netns = causes::FindNetns(record);
  if (!netns) {
    return;
  }
  const auto text = [&](const causes::Cause& cause) {
    return Format("allocation '{}': {}", attachment.Allocation(), cause.text);
  };
  causes::Interior inside{*netns, record};
  for (const causes::Cause& cause : causes::FindInContainer(inside, std::nullopt)) {
    if (!node.HasFix(cause.fix)) {  // otherwise bridge.mac has reported it
      node.Fail(text(cause), cause.fix);
    }
  }
}

bool HasFrameReader(const state::Record& record) {
  const std::optional<netlink::Netns> netns = causes::FindNetns(record);
  std::optional<causes::Interior> inside =
      netns ? std::optional(causes::Interior{*netns, record}) : std::nullopt;
  return inside && causes::FindFrameReaderNote(*inside);
}

}  // namespace

void CheckMacs(Examination& node) {
  for (const Attachment* const attachment : node.running) {
    const state::Record& record = *attachment->record;
    const bool is_ours = attachment->link && record.IsLive(cni::Part::kLink);
    const auto inside = is_ours ? node.host.net.FindPeer(*attachment->link) : std::nullopt;
    const auto mismatch = inside ? link::FindMacMismatch(*inside, record) : std::nullopt;
    if (mismatch && !HasFrameReader(record)) {
      node.Fail(Format("container '{}': {}", record.id.container_id, *mismatch),
                causes::InsideFix(record,
                                  Format("ip link set {} address {}",
                                         ShellWord(inside->name),
                                         record.ContainerMac().Text())));
    }
  }
}

void CheckContainers(Examination& node) {
  for (const Attachment* const attachment : node.running) {
    CheckInside(node, *attachment);
  }
}

}  // namespace nomad_bridge::cli
