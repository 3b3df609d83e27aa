#include "plugin/cli/target.h"

#include <optional>

#include "base/text.h"
#include "plugin/cli/command.h"
#include "plugin/cli/named_attachments.h"

namespace nomad_bridge::cli {
namespace {

// Returns the address, or the first address of the allocation with that name. Returns nullopt if it
// is a name that only the allocation in question can look up.
std::optional<Ip> AddressOf(const Inventory& inventory, const std::string& name) {
  const bool is_bracketed = name.size() > 2 && name.front() == '[' && name.back() == ']';
  if (const auto address = Ip::Parse(is_bracketed ? name.substr(1, name.size() - 2) : name)) {
    return address;
  }
  if (inventory.is_complete && FindAll(inventory, {{"", name}}).empty()) {
    return std::nullopt;
  }
  for (const Attachment* const each : FindOne(inventory, name)) {
    if (each->record && !each->record->ipam.addresses.empty()) {
      return each->record->ipam.addresses.front().address;
    }
  }
  throw CannotTell(Format("'{}' has no known address", name));
}

}  // namespace

std::string Target::Text() const {
  return Cat(name.empty() ? Bracketed(address) : name,
             ':',
             port,
             protocol == Protocol::kTcp ? "" : Cat('/', nomad_bridge::Text(protocol)));
}

Target ParseTarget(const std::string& word, const Inventory& inventory) {
  Target target;
  std::string place = word;
  for (const Protocol protocol : {Protocol::kTcp, Protocol::kUdp}) {
    const std::string end = Cat('/', Text(protocol));
    if (place.ends_with(end)) {
      target.protocol = protocol;
      place.resize(place.size() - end.size());
    }
  }
  const std::size_t colon = place.rfind(':');
  target.port = colon == std::string::npos
                    ? std::uint16_t{0}
                    : FindNumber<std::uint16_t>(place.substr(colon + 1)).value_or(0);
  if (target.port == 0) {
    throw UsageError(
        Format("-to '{}' is no target; allowed: ADDRESS:PORT, [IPV6]:PORT, ALLOC:PORT or "
               "NAME:PORT, with /udp for UDP",
               word));
  }
  place.resize(colon);
  const std::optional<Ip> address = AddressOf(inventory, place);
  target.address = address.value_or(Ip());
  target.name = address ? "" : place;
  return target;
}

}  // namespace nomad_bridge::cli
