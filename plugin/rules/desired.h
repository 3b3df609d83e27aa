// The elements that live attachments of the node should have in our table, and which other elements
// may stay. Reads all records.
//
// Locks   The caller holds the rules' lock while it uses this object: without the lock, parts may
//         become live or stop being live.
// Errors  kKernel, kIo.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "firewall/ruleset.h"
#include "plugin/link/host_veth.h"
#include "plugin/link/liveness.h"
#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::rules {

class DesiredState {
 public:
  // Elements of `kept_owners` stay, even if an owner has no record. `listed` saves asking the
  // kernel for the link of each attachment.
  DesiredState(state::Host& host,
               std::set<std::string> kept_owners,
               const link::ListedVeths* listed);
  ~DesiredState() = default;
  DesiredState(const DesiredState&) = delete;
  DesiredState& operator=(const DesiredState&) = delete;

  // The result refers to this object.
  [[nodiscard]] const firewall::DesiredElements& elements() const { return elements_; }

  // Returns the live parts of every live attachment, as judged by the policies in force.
  [[nodiscard]] const std::vector<state::Record>& records() const { return live_; }

 private:
  // Which elements of an attachment with a record may stay although they are not desired.
  struct MayRemain {
    bool all = false;
    cni::Parts parts;  // elements of these parts may stay
  };

  void Add(state::Record record, bool is_alive);
  void NoteShared(const std::vector<nft::Element>& elements);
  [[nodiscard]] bool MayStay(const nft::Element& element) const;
  [[nodiscard]] bool HasOtherOwnersAddress(const nft::Element& element) const;
  [[nodiscard]] bool IsUsedByContainer(const nft::Element& element) const;
  [[nodiscard]] bool IsShared(const nft::Element& element) const;
  [[nodiscard]] bool HasUnrecordedContainerBehind(const std::string& ifname) const;

  state::Host& host_;
  std::set<std::string> kept_owners_;
  std::vector<state::Record> live_;
  std::map<std::string, MayRemain> recorded_;  // by owner: every attachment with a record
  firewall::DesiredElements elements_;
  std::vector<nft::Element> shared_;          // the shared elements of all records, each once
  std::map<Ip, std::string> address_owners_;  // of live attachments
  mutable link::HeldAddresses held_{host_};
};

// Reads all records when they are first needed.
class LazyDesiredState {
 public:
  LazyDesiredState(state::Host& host,
                   std::set<std::string> kept_owners,
                   const link::ListedVeths* listed)
      : host_(host), kept_owners_(std::move(kept_owners)), listed_(listed) {}

  const DesiredState& operator*() {
    return state_ ? *state_ : state_.emplace(host_, kept_owners_, listed_);
  }
  const DesiredState* operator->() { return &**this; }

 private:
  state::Host& host_;
  std::set<std::string> kept_owners_;
  const link::ListedVeths* listed_;
  std::optional<DesiredState> state_;
};

}  // namespace nomad_bridge::rules
