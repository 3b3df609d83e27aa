#include "plugin/state/kernel_names.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "netlink/nft/element.h"

namespace nomad_bridge::state {
namespace {

constexpr std::size_t kMaxAliasBytes = 255;  // the kernel's IFALIASZ without its terminator
constexpr std::string_view kVethPrefix = "veth";
constexpr int kVethDigits = 11;  // fill the 15 bytes of a link name

std::string Identity(const AttachmentId& id) {
  return Format("nomad-bridge net={} id={} if={}", id.network, id.container_id, id.ifname);
}

std::string Cut(std::string_view text, std::size_t max_bytes) {
  return CutUtf8(Printable(text), max_bytes);
}

}  // namespace

std::string HostVethName(const AttachmentId& id) {
  const std::string key = Cat(id.network, '\0', id.container_id, '\0', id.ifname);
  return Cat(kVethPrefix, Hex(StableHash(key), kVethDigits));
}

bool IsHostVethName(std::string_view name) {
  return name.size() == kVethPrefix.size() + kVethDigits && name.starts_with(kVethPrefix) &&
         name.find_first_not_of("0123456789abcdef", kVethPrefix.size()) == name.npos;
}

std::string LinkAlias(const AttachmentId& id, const cni::Labels& labels) {
  const std::string text = cni::DescribeInWords(labels);
  return Cut(Cat(Identity(id), text.empty() ? "" : " ", text), kMaxAliasBytes);
}

bool IsAliasOf(std::string_view alias, const AttachmentId& id) {
  const std::string identity = Cut(Identity(id), kMaxAliasBytes);
  const bool begins = alias.substr(0, identity.size()) == identity;
  return begins && (alias.size() == identity.size() || alias[identity.size()] == ' ');
}

std::optional<ParsedAlias> ParseAlias(std::string_view alias) {
  ParsedAlias parsed;
  for (auto [name, field] : {std::pair{"nomad-bridge net=", &parsed.id.network},
                             std::pair{"id=", &parsed.id.container_id},
                             std::pair{"if=", &parsed.id.ifname}}) {
    if (!alias.starts_with(name)) {
      return std::nullopt;
    }
    alias.remove_prefix(std::string_view(name).size());
    *field = TakeUntil(' ', alias);
  }
  parsed.labels = cni::ParseDescribed(alias);
  return parsed;
}

std::string ElementComment(const AttachmentId& id, const cni::Labels& labels) {
  // Nomad's container id is its allocation id. It is written once, under the name people look for.
  cni::Labels others = labels;
  const auto is_container = [&](const cni::Label& label) { return label.value == id.container_id; };
  const auto removed = std::remove_if(others.begin(), others.end(), is_container);
  const bool is_allocation = removed != others.end();
  others.erase(removed, others.end());
  const std::string text = cni::DescribeInWords(others);
  return Cut(Format("{}{}{}{}{} net={}",
                    HostVethName(id),
                    is_allocation ? " alloc=" : " id=",
                    id.container_id,
                    text.empty() ? "" : " ",
                    text,
                    id.network),
             nft::kMaxCommentBytes);
}

}  // namespace nomad_bridge::state
