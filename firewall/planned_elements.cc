#include "firewall/planned_elements.h"

namespace nomad_bridge::firewall {

std::optional<nft::Element> PlannedElements::Find(const nft::Element& like) {
  if (const auto known = known_.find(KeyOf(like)); known != known_.end()) {
    return known->second;
  }
  switch (reading_) {
    case Reading::kNothing:
      return std::nullopt;
    case Reading::kSingly:
      return known_[KeyOf(like)] = socket_.FindElement(table_, like);
    case Reading::kWholeSets:
      break;
  }
  if (!whole_sets_.insert(like.set).second) {
    return std::nullopt;
  }
  for (nft::Element& element : socket_.Elements(table_, like.set)) {
    known_.try_emplace(KeyOf(element), std::move(element));  // what the batch does to it holds
  }
  return Find(like);
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
