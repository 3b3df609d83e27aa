// The elements of our tables as a batch will leave them: what the kernel holds, read one by one, and
// what the batch does to it.
//
// Ownership  Refers to the socket and the batch it was made with; both must outlive it.
// Errors     kKernel from reading.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "netlink/nft/batch.h"
#include "netlink/nft/element.h"
#include "netlink/nft/socket.h"
#include "netlink/nft/table.h"

namespace nomad_bridge::firewall {

// What tells an element from all others.
using ElementKey = std::tuple<nft::TableFamily, std::string, std::vector<std::uint8_t>, bool>;

[[nodiscard]] inline ElementKey KeyOf(const nft::Element& element) {
  return {element.family, element.set, element.key, element.ends_interval};
}

class PlannedElements {
 public:
  PlannedElements(nft::Socket& socket, nft::Batch& batch) : socket_(socket), batch_(batch) {}

  // The element with `like`'s set and key as it will be.
  [[nodiscard]] std::optional<nft::Element> Find(const nft::Element& like);

  // Spares the reading: the kernel refuses the batch if the element is there.
  void AssumeAbsent(const nft::Element& element) { known_.try_emplace(KeyOf(element)); }

  void Add(const nft::Element& element);
  void Delete(const nft::Element& element);

 private:
  nft::Socket& socket_;
  nft::Batch& batch_;
  std::map<ElementKey, std::optional<nft::Element>> known_;
};

}  // namespace nomad_bridge::firewall
