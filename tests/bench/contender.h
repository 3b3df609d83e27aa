// One side of the comparison: a runtime with its plugins in a world of its own.
//
// Errors  std::exception with the plugin's own words if an ADD or a DEL fails.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "tests/bench/cost.h"
#include "tests/bench/samples.h"
#include "tests/bench/world.h"
#include "tests/support/runtime.h"

namespace nomad_bridge::bench {

// How long each verb took.
struct Times {
  Samples add;
  Samples check;
  Samples del;
};

// Commands a second, of all workers together.
struct Rates {
  double add = 0;
  double del = 0;
};

class Contender {
 public:
  Contender(std::string name, test::Network network)
      : name_(std::move(name)), network_(std::move(network)) {}
  Contender(const Contender&) = delete;
  Contender& operator=(const Contender&) = delete;
  virtual ~Contender() = default;

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const World& world() const { return world_; }
  // What it is compared with; null: nothing.
  [[nodiscard]] const Contender* baseline() const { return baseline_; }
  void CompareWith(const Contender& baseline) { baseline_ = &baseline; }

  // One attachment that stays.
  [[nodiscard]] virtual test::Attached Attach();
  // More attachments that stay, until there are `alive`; the times are forgotten.
  void GrowTo(int alive);
  // ADD, CHECK and DEL of one attachment, in a namespace made beforehand.
  void Round();
  // `workers` processes at once, each of which adds `each` attachments, and, when all have, deletes
  // them; in namespaces made beforehand.
  [[nodiscard]] Rates RunParallel(int workers, int each);
  // What one ADD starts and needs.
  [[nodiscard]] Cost CostOfAdd();
  // Its attachments get an IPv6 address as well. Before the first one.
  void UseBothFamilies();
  // From now on a foreign rule is replaced before each verb, as other programs of a node do.
  void ChangeForeignRules();

  // As if `count` other attachments had addresses: the first ones, without a gap.
  void WriteLeases(int count) const;
  // So that the next search starts at the first address: with leases, the worst case there is.
  void ForgetLastReserved() const;

  [[nodiscard]] const Times& times() const { return times_; }
  // What the last CHECK printed if it failed. No exception: the reference portmap of Debian 12
  // (1.1.1) refuses every attachment with a single IP family, and that takes time too.
  [[nodiscard]] const std::string& complaint() const { return complaint_; }

 protected:
  // Makes `count` attachments that stay; the process is in the world.
  virtual void Populate(int count);

  // Of a fresh container, with one port published as tcp and as udp.
  [[nodiscard]] virtual test::Attached Next();
  [[nodiscard]] int count() const { return count_; }
  [[nodiscard]] const test::Network& network() const { return network_; }

 private:
  void Time(Samples& samples, const std::function<void()>& act) const;

  std::string name_;
  test::Network network_;
  World world_;
  const Contender* baseline_ = nullptr;
  int alive_ = 0;
  int count_ = 0;
  bool has_foreign_rules_ = false;
  Times times_;
  std::string complaint_;
};

// Our list, run by `binary`.
[[nodiscard]] test::Network NetworkOf(const std::filesystem::path& binary);

// A build of ours, `binary`: a whole attachment in one process.
[[nodiscard]] std::unique_ptr<Contender> MakeOurs(const std::string& name,
                                                  const std::filesystem::path& binary);
// The same binary under the reference plugins' names, as Nomad's own list runs it.
[[nodiscard]] std::unique_ptr<Contender> MakeByName(const std::string& name,
                                                    const std::filesystem::path& binary);
// The reference plugins in `directory`. A thousand ADDs of theirs would take half an hour, so those
// that only stay are made faster (reference.cc).
[[nodiscard]] std::unique_ptr<Contender> MakeReference(const std::filesystem::path& directory);

// The reference's links, addresses and leases in `directory`, and of rules one that masquerades
// what leaves the node, and one for a published port: what packets pay at least.
[[nodiscard]] std::unique_ptr<Contender> MakeOneRule(const std::filesystem::path& directory);

// What the kernel alone takes (floor_plugin.c), beside attachments of ours.
[[nodiscard]] std::unique_ptr<Contender> MakeFloor(const std::filesystem::path& binary);

}  // namespace nomad_bridge::bench
