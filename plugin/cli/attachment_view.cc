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

Json DropJson(const Dropped& dropped) {
  Json json = FindingJson(dropped.finding);
  json["key"] = dropped.key;
  json["packets"] = dropped.packets;
  json["secondsAgo"] = dropped.seconds_ago;
  return json;
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

Json ToJson(const Attachment& attachment, const Inventory& inventory) {
  const std::optional<state::Record>& record = attachment.record;
  const bool is_known = attachment.IsKnown();
  const auto counters = attachment.link ? attachment.link->counters : std::nullopt;
  return {{"allocation", attachment.Allocation()},
          {"namespace", OrNull(attachment.Label(cni::kNamespace))},
          {"job", OrNull(attachment.Label(cni::kJob))},
          {"group", OrNull(attachment.Label(cni::kGroup))},
          {"network", attachment.id.network},
          {"containerId", attachment.id.container_id},
          {"interface", attachment.id.ifname},
          {"state", Text(attachment.state)},
          {"created", record && record->created != 0 ? Json(record->created) : Json()},
          {"problem", OrNull(attachment.problem)},
          {"drops", inventory.has_drops ? ArrayOf(attachment.drops, DropJson) : Json()},
          {"addresses", is_known ? ArrayOf(attachment.Addresses(), &Cidr::Text) : Json()},
          {"ports", is_known ? ArrayOf(attachment.Ports(), PortJson) : Json()},
          {"netns",
           record                 ? Json(record->netns_path)
           : attachment.reference ? Json(attachment.reference->netns_path)
                                  : Json()},
          {"hostVeth", OrNull(attachment.host_veth)},
          {"bridge", OrNull(BridgeOf(attachment, inventory))},
          {"received", counters ? TrafficJson(counters->sent) : Json()},
          {"sent", counters ? TrafficJson(counters->received) : Json()}};
}

Cell ShowShortId(const Json& id) {
  return ShortId(id);
}

Cell ShowAddresses(const Json& addresses) {
  return addresses.is_null() ? kUnknownText
                             : OrDash(Joined(addresses, " ", [](const std::string& cidr) {
                                 return cidr.substr(0, cidr.find('/'));
                               }));
}

Cell ShowFirstAddress(const Json& addresses) {
  return ShowAddresses(addresses.empty() ? addresses : Json::array({addresses.front()}));
}

Cell ShowPorts(const Json& ports) {
  if (ports.is_null()) {
    return kUnknownText;
  }
  // Without a host address, the IPv4 and the IPv6 mapping of a port become one entry.
  std::map<std::tuple<int, std::string, int>, std::set<std::string>> protocols;
  for (const Json& port : ports) {
    const Json& ip = port.at("hostIp");
    protocols[{port.at("hostPort").get<int>(),
               ip.is_null() ? "" : Cat(Bracketed(Ip::Parse(ip.get<std::string>()).value()), ':'),
               port.at("containerPort").get<int>()}]
        .insert(port.at("protocol"));
  }
  return OrDash(Joined(protocols, " ", [](const auto& each) {
    const auto& [host_port, ip, container_port] = each.first;
    return Cat(ip, host_port, "->", container_port, '/', Joined(each.second, ","));
  }));
}

Cell ShowAgeSince(const Json& created) {
  using Clock = std::chrono::system_clock;
  return created.is_null() ? "-" : ShowAge(Clock::now() - Clock::from_time_t(created));
}

Cell ShowState(const Json& state) {
  const bool is_passing = state == Text(State::kMaking) || state == Text(State::kLeaving) ||
                          state == Text(State::kReference);
  const Colour colour = state == Text(State::kOk) ? Colour::kGood
                        : is_passing              ? Colour::kDoubtful
                                                  : Colour::kBad;
  return {state, colour};
}

Cell ShowStateAndDrops(const Json& attachment) {
  Cell cell = ShowState(attachment.at("state"));
  const Json& drops = attachment.at("drops");
  if (!drops.is_null() && !drops.empty()) {
    cell.text += ", drops";
    cell.colour = cell.colour == Colour::kGood ? Colour::kDoubtful : cell.colour;
  }
  return cell;
}

std::string ShowName(const Json& attachment) {
  std::vector<std::string> names;
  for (const char* const label : {"job", "group"}) {
    if (!attachment.at(label).is_null()) {
      names.push_back(attachment.at(label));
    }
  }
  return Cat('\'',
             PlainText(attachment.at("allocation")),
             '\'',
             names.empty() ? "" : Format(" ({})", Joined(names, "/")));
}

}  // namespace nomad_bridge::cli
