#include "firewall/drops.h"

#include <algorithm>
#include <ctime>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/list.h"
#include "base/text.h"
#include "plugin/cli/attachment_view.h"
#include "plugin/cli/inventory.h"

namespace nomad_bridge::cli {
namespace {

constexpr std::uint64_t kGoesOn = 300;  // seconds since the last packet

// Finds the attachments at the two ends of dropped packets.
class Ends {
 public:
  explicit Ends(Inventory& inventory) {
    for (Attachment& attachment : inventory.attachments) {
      if (!attachment.record || attachment.state == State::kDead) {
        continue;
      }
      by_port_.emplace(attachment.host_veth, &attachment);
      for (const std::string& port : attachment.record->link.foreign_ports) {
        by_port_.emplace(port, &attachment);
      }
      for (const Ip& address : AddressesOnly(attachment.Addresses())) {
        by_address_.emplace(address, &attachment);
      }
    }
  }

  // Returns nullptr if it is no attachment.
  [[nodiscard]] Attachment* Find(const std::string& port, const std::optional<Ip>& address) const {
    if (const auto found = by_port_.find(port); !port.empty() && found != by_port_.end()) {
      return found->second;
    }
    const auto found = address ? by_address_.find(*address) : by_address_.end();
    return found == by_address_.end() ? nullptr : found->second;
  }

 private:
  std::map<std::string, Attachment*> by_port_;
  std::map<Ip, Attachment*> by_address_;
};

std::string EndText(const Attachment* end, const std::string& port, const std::optional<Ip>& ip) {
  return end != nullptr ? end->Named() : ip ? ip->Text() : Cat('\'', port, '\'');
}

// Returns "172.26.64.200", or "172.26.64.200 (MAC 02:42:00:00:00:01)" if the MAC is a foreign one.
std::string SourceText(const firewall::Drop& drop, const Attachment& sender) {
  const Mac& mac = *drop.from_mac;
  if (!drop.from) {
    return Cat("the MAC ", mac.Text());
  }
  return mac == sender.record->ContainerMac() ? drop.from->Text()
                                              : Format("{} (MAC {})", *drop.from, mac.Text());
}

Fix FixOf(std::string_view key) {
  return Fix::Advice(
      key == firewall::kSourceCheck
          ? R"("sourceCheck": false in its conflist, if it may send from addresses of its own)"
      : key == firewall::kInboundKey
          ? R"(publish the port; "inbound": "any" in its conflist opens all ports)"
          : R"("ingressPolicy": "open" in the conflist, if they may reach each other)");
}

// What one key has dropped of an attachment, in one direction: "from" or "to".
struct Dropping {
  std::string_view key;
  std::string_view direction;
  std::vector<std::pair<std::string, firewall::Drop>> drops =
      {};  // with the other end, latest first
};

Dropped Summed(const Dropping& dropping, const Attachment& attachment) {
  const auto& [peer, latest] = dropping.drops.front();
  Dropped sum = {.key = dropping.key, .seconds_ago = latest.seconds_ago};
  std::set<std::string> peers;
  for (const auto& [each, drop] : dropping.drops) {
    sum.packets += drop.packets;
    peers.insert(each);
  }
  std::string text =
      Format("{} has dropped {} {} {}{}, the last {} ago{}",
             dropping.key,
             Counted(sum.packets, "packet"),
             dropping.direction,
             peer,
             peers.size() > 1 ? Format(" (and {} more)", peers.size() - 1) : "",
             ShowAge(std::chrono::seconds(sum.seconds_ago)),
             dropping.key == firewall::kSourceCheck
                 ? Cat("; the allocation has ", Joined(AddressesOnly(attachment.Addresses()), ", "))
                 : "");
  sum.finding = {.owner = attachment.id.container_id,
                 .text = std::move(text),
                 .fix = FixOf(dropping.key),
                 .severity = sum.seconds_ago <= kGoesOn ? Finding::Severity::kWarning
                                                        : Finding::Severity::kNote,
                 .ends = false};
  return sum;
}

std::uint64_t SecondsSince(std::uint64_t time) {
  const auto now = static_cast<std::uint64_t>(std::time(nullptr));
  return now > time ? now - time : 0;
}

// The droppings of all attachments.
class Droppings {
 public:
  void Add(Attachment* attachment,
           std::string_view direction,
           std::string peer,
           const firewall::Drop& drop) {
    if (attachment == nullptr || drop.seconds_ago > SecondsSince(attachment->record->created)) {
      return;  // an earlier attachment had this address
    }
    std::vector<Dropping>& of_it = all_[attachment];
    auto found = std::ranges::find_if(of_it, [&](const Dropping& each) {
      return each.key == drop.key && each.direction == direction;
    });
    if (found == of_it.end()) {
      found = of_it.insert(of_it.end(), {.key = drop.key, .direction = direction});
    }
    found->drops.emplace_back(std::move(peer), drop);
  }

  void Finish() const {
    for (const auto& [attachment, droppings] : all_) {
      for (const Dropping& dropping : droppings) {
        attachment->drops.push_back(Summed(dropping, *attachment));
      }
    }
  }

 private:
  std::map<Attachment*, std::vector<Dropping>> all_;
};

}  // namespace

void AddDrops(state::Host& host, Inventory& inventory) {
  if (!inventory.is_complete) {
    return;
  }
  std::vector<firewall::Drop> drops;
  try {
    drops = firewall::ReadDrops(host.nft);
  } catch (const Error&) {
    return;
  }
  inventory.has_drops = true;
  const Ends ends(inventory);
  Droppings droppings;
  for (const firewall::Drop& drop : drops) {
    Attachment* const from = ends.Find(drop.from_port, drop.from);
    Attachment* const to = ends.Find(drop.to_port, drop.to);
    if (drop.key == firewall::kSourceCheck) {
      droppings.Add(from, "from", from == nullptr ? "" : SourceText(drop, *from), drop);
      continue;
    }
    droppings.Add(to, "from", EndText(from, drop.from_port, drop.from), drop);
    droppings.Add(from, "to", EndText(to, drop.to_port, drop.to), drop);
  }
  droppings.Finish();
}

}  // namespace nomad_bridge::cli
