#include "firewall/planned_elements.h"

namespace nomad_bridge::firewall {

std::optional<nft::Element> PlannedElements::Find(const nft::Element& like) {
  const auto [known, is_unread] = known_.try_emplace(KeyOf(like));
  if (is_unread) {
    known->second = socket_.FindElement(table_, like);
  }
  return known->second;
}

void PlannedElements::Add(const nft::Element& element) {
  batch_.AddElement(table_, element);
  known_[KeyOf(element)] = element;
}

void PlannedElements::Delete(const nft::Element& element) {
  batch_.DeleteElement(table_, element);
  known_[KeyOf(element)] = std::nullopt;
}

void PlannedElements::Replace(const nft::Element& present, const nft::Element& element) {
  Delete(present);
  Add(element);
}

}  // namespace nomad_bridge::firewall
