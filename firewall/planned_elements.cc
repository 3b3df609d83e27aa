#include "firewall/planned_elements.h"

#include "firewall/table.h"

namespace nomad_bridge::firewall {

std::optional<nft::Element> PlannedElements::Find(const nft::Element& like) {
  const auto [known, is_unread] = known_.try_emplace(KeyOf(like));
  if (is_unread) {
    known->second = socket_.FindElement(TableOf(like), like);
  }
  return known->second;
}

void PlannedElements::Add(const nft::Element& element) {
  batch_.AddElement(TableOf(element), element);
  known_[KeyOf(element)] = element;
}

void PlannedElements::Delete(const nft::Element& element) {
  batch_.DeleteElement(TableOf(element), element);
  known_[KeyOf(element)] = std::nullopt;
}

}  // namespace nomad_bridge::firewall
