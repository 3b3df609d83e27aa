// The elements of our table as a batch will leave them: what the kernel holds, and what the batch does
// to it.
//
// Ownership  Refers to the socket and the batch it was made with; both must outlive it.
// Errors     kKernel from reading.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "netlink/nft/batch.h"
#include "netlink/nft/element.h"
#include "netlink/nft/socket.h"
#include "netlink/nft/table.h"

namespace nomad_bridge::firewall {

class PlannedElements {
 public:
  // How the kernel is read: not at all (the table is new), element by element, or set by set.
  enum class Reading { kNothing, kSingly, kWholeSets };

  PlannedElements(nft::Socket& socket, nft::TableId table, Reading reading, nft::Batch& batch)
      : socket_(socket), table_(std::move(table)), reading_(reading), batch_(batch) {}

  // The element with `like`'s set and key as it will be.
  [[nodiscard]] std::optional<nft::Element> Find(const nft::Element& like);

  // Without reading: the kernel refuses the batch if the element is there.
  void AssumeAbsent(const nft::Element& element) { known_[KeyOf(element)] = std::nullopt; }
  void AssumePresent(const nft::Element& element) { known_[KeyOf(element)] = element; }

  void Add(const nft::Element& element);
  void Delete(const nft::Element& element);
  void Replace(const nft::Element& present, const nft::Element& element);

 private:
  using Key = std::pair<std::string, std::vector<std::uint8_t>>;

  static Key KeyOf(const nft::Element& element) { return {element.set, element.key}; }

  nft::Socket& socket_;
  nft::TableId table_;
  Reading reading_;
  nft::Batch& batch_;
  std::map<Key, std::optional<nft::Element>> known_;
  std::set<std::string> whole_sets_;  // read already
};

}  // namespace nomad_bridge::firewall
