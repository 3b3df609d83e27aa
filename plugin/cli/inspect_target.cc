#include "plugin/cli/inspect_target.h"

#include <algorithm>

#include "base/list.h"
#include "base/text.h"

namespace nomad_bridge::cli {
namespace {

// Returns the address, or the first address of the allocation with that name.
std::optional<Ip> AddressOf(const Inventory& inventory, const std::string& name) {
  const bool is_bracketed = name.size() > 2 && name.front() == '[' && name.back() == ']';
  if (const auto address = Ip::Parse(is_bracketed ? name.substr(1, name.size() - 2) : name)) {
    return address;
  }
  for (const Attachment* const each : FindOne(inventory, name)) {
    if (each->record && !each->record->ipam.addresses.empty()) {
      return each->record->ipam.addresses.front().address;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<Question::Target> TargetOf(const Arguments& arguments, const Inventory& inventory) {
  const std::string* const to = arguments.Find("to");
  if (to == nullptr) {
    return std::nullopt;
  }
  Question::Target target;
  std::string place = *to;
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
        Format("-to '{}' is no target; allowed: ADDRESS:PORT, [IPV6]:PORT or ALLOC:PORT, with "
               "/udp for UDP",
               *to));
  }
  const std::optional<Ip> address = AddressOf(inventory, place.substr(0, colon));
  if (!address) {
    throw CannotTell(Format("'{}' has no known address", place.substr(0, colon)));
  }
  target.address = *address;
  return target;
}

void CheckTarget(const Question& question, const Attachments& attachments) {
  const auto has_it = [&](const Attachment* each) {
    return each->record &&
           Contains(AddressesOnly(each->record->ipam.addresses), question.to->address);
  };
  if (question.client && question.to && std::ranges::none_of(attachments, has_it)) {
    throw UsageError(Format("-to with -from takes an address of the allocation itself, not {}",
                            question.to->address));
  }
}

}  // namespace nomad_bridge::cli
