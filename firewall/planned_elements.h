// The elements of our table as a batch in the making will leave them: what the kernel holds, and
// what the batch does to it.
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

#include "netlink/nft_batch.h"
#include "netlink/nft_element.h"
#include "netlink/nft_socket.h"
#include "netlink/nft_table.h"

namespace nomad_bridge::firewall {

class PlannedElements {
 public:
  // How the kernel is asked: not at all (the table is new), element by element, or set by set.
  enum class Reading { kNothing, kSingly, kWholeSets };

  PlannedElements(NftSocket& socket, NftTableId table, Reading reading, NftBatch& batch)
      : socket_(socket), table_(std::move(table)), reading_(reading), batch_(batch) {}

  // The element with `like`'s set and key as it will be.
  [[nodiscard]] std::optional<NftElement> Find(const NftElement& like);

  // Takes the element to be absent without asking: the kernel refuses the batch if it is not.
  void AssumeAbsent(const NftElement& element) { known_[KeyOf(element)] = std::nullopt; }
  // Takes it to be as it should.
  void AssumePresent(const NftElement& element) { known_[KeyOf(element)] = element; }

  void Add(const NftElement& element);
  void Delete(const NftElement& element);
  void Replace(const NftElement& present, const NftElement& element);

 private:
  using Key = std::pair<std::string, std::vector<std::uint8_t>>;

  static Key KeyOf(const NftElement& element) { return {element.set, element.key}; }

  NftSocket& socket_;
  NftTableId table_;
  Reading reading_;
  NftBatch& batch_;
  std::map<Key, std::optional<NftElement>> known_;
  std::set<std::string> whole_sets_;  // read already
};

}  // namespace nomad_bridge::firewall
