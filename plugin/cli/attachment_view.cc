#include "plugin/cli/attachment_view.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/text.h"
#include "portmap/mapping.h"

namespace nomad_bridge::cli {
namespace {

constexpr const char* kUnknownText = "?";

Json PortJson(const portmap::DnatEntry& port) {
  return {{"protocol", Text(port.protocol)},
          {"hostIp", port.host_ip ? Json(port.host_ip->Text()) : Json()},
          {"hostPort", port.host_port},
          {"containerIp", port.container_ip.Text()},
          {"containerPort", port.container_port}};
}

Json TrafficJson(const rtnl::Counters& counters) {
  return {{"bytes", counters.bytes}, {"packets", counters.packets}, {"dropped", counters.dropped}};
}

Json NullIfEmpty(const std::string& text) {
  return text.empty() ? Json() : Json(text);
}

}  // namespace

std::string ShowAge(std::chrono::system_clock::duration age) {
  const auto seconds =
      std::max<std::int64_t>(0, std::chrono::duration_cast<std::chrono::seconds>(age).count());
  constexpr std::array<std::pair<std::int64_t, char>, 3> kUnits = {
      {{86'400, 'd'}, {3'600, 'h'}, {60, 'm'}}};
  for (const auto& [length, name] : kUnits) {
    if (seconds >= length) {
      return Cat(seconds / length, name);
    }
  }
  return Cat(seconds, 's');
}

std::string ShortId(const std::string& id) {
  constexpr std::size_t kShown = 8;
  return CutUtf8(id, kShown);
}

std::string OrDash(const std::string& text) {
  return text.empty() ? "-" : text;
}

std::string ShowBytes(std::uint64_t bytes) {
  constexpr std::array<std::string_view, 6> kUnits = {" B", " kB", " MB", " GB", " TB", " PB"};
  constexpr std::uint64_t kThousand = 1000;
  std::size_t unit = 0;
  std::uint64_t tenths = 0;
  while (bytes >= kThousand && unit + 1 < kUnits.size()) {
    tenths = bytes % kThousand / 100;
    bytes /= kThousand;
    ++unit;
  }
  constexpr std::uint64_t kWhole = 100;
  return Cat(bytes, tenths != 0 && bytes < kWhole ? Cat('.', tenths) : "", kUnits[unit]);
}

std::string ShowAddresses(const Attachment& attachment, Extent extent) {
  if (!attachment.record) {
    return kUnknownText;
  }
  std::string text;
  for (const Cidr& address : attachment.record->ipam.addresses) {
    text += Cat(text.empty() ? "" : " ", address.address);
    if (extent == Extent::kFirst) {
      break;
    }
  }
  return OrDash(text);
}

std::string ShowPorts(const Attachment& attachment) {
  if (!attachment.record) {
    return kUnknownText;
  }
  // Without a host address, the IPv4 and the IPv6 mapping of a port become one entry.
  std::map<std::tuple<std::uint16_t, std::string, std::uint16_t>, std::set<std::string>> protocols;
  for (const portmap::DnatEntry& port : attachment.record->rules.ports) {
    const std::string ip = port.host_ip ? Bracketed(*port.host_ip) : "";
    protocols[{port.host_port, ip, port.container_port}].emplace(Text(port.protocol));
  }
  std::string text;
  for (const auto& [port, names] : protocols) {
    const auto& [host_port, ip, container_port] = port;
    text +=
        Cat(text.empty() ? "" : " ", ip, ip.empty() ? "" : ":", host_port, "->", container_port);
    text += Cat('/', Joined(names, ","));
  }
  return OrDash(text);
}

Cell ShowState(const Attachment& attachment) {
  const bool is_passing = attachment.state == State::kMaking || attachment.state == State::kLeaving;
  const Colour colour = attachment.state == State::kOk ? Colour::kGood
                        : is_passing                   ? Colour::kDoubtful
                                                       : Colour::kBad;
  return {std::string(Text(attachment.state)), colour};
}

std::string ShowAgeOf(const Attachment& attachment) {
  const std::uint64_t created = attachment.record ? attachment.record->created : 0;
  return created == 0
             ? "-"
             : ShowAge(std::chrono::system_clock::now() -
                       std::chrono::system_clock::from_time_t(static_cast<std::time_t>(created)));
}

Json ToJson(const Attachment& attachment, const Inventory& inventory) {
  const std::optional<state::Record>& record = attachment.record;
  const auto counters = attachment.link ? attachment.link->counters : std::nullopt;
  return {{"allocation", attachment.Allocation()},
          {"namespace", NullIfEmpty(attachment.Label(cni::kNamespace))},
          {"job", NullIfEmpty(attachment.Label(cni::kJob))},
          {"group", NullIfEmpty(attachment.Label(cni::kGroup))},
          {"network", attachment.id.network},
          {"containerId", attachment.id.container_id},
          {"interface", attachment.id.ifname},
          {"state", Text(attachment.state)},
          {"created", record && record->created != 0 ? Json(record->created) : Json()},
          {"problem", NullIfEmpty(attachment.problem)},
          {"addresses", record ? ArrayOf(record->ipam.addresses, &Cidr::Text) : Json()},
          {"ports", record ? ArrayOf(record->rules.ports, PortJson) : Json()},
          {"netns", record ? Json(record->netns_path) : Json()},
          {"hostVeth", NullIfEmpty(attachment.host_veth)},
          {"bridge", NullIfEmpty(BridgeOf(attachment, inventory))},
          {"received", counters ? TrafficJson(counters->sent) : Json()},
          {"sent", counters ? TrafficJson(counters->received) : Json()}};
}

}  // namespace nomad_bridge::cli
