// One side of the comparison: a runtime with its plugins in a world of its own.
//
// Errors  std::exception with the plugin's own words if an ADD or a DEL fails.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tests/bench/cost.h"
#include "tests/bench/runtime.h"
#include "tests/bench/samples.h"
#include "tests/bench/world.h"

namespace nomad_bridge::bench {

class Contender {
 public:
  Contender(std::string name, Runtime runtime)
      : name_(std::move(name)), runtime_(std::move(runtime)) {}
  Contender(const Contender&) = delete;
  Contender& operator=(const Contender&) = delete;
  virtual ~Contender() = default;

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const World& world() const { return world_; }
  // Whom it is compared with; null: nobody.
  [[nodiscard]] const Contender* baseline() const { return baseline_; }
  void CompareWith(const Contender& baseline) { baseline_ = &baseline; }

  // More attachments that stay, until there are `alive`; the samples are forgotten.
  void GrowTo(int alive);
  // ADD, CHECK and DEL of one attachment, in a namespace made beforehand.
  void Round();
  // What one ADD starts and needs.
  [[nodiscard]] Cost CostOfAdd();

  // As if `count` other attachments had addresses: the first ones, without a gap.
  void WriteLeases(int count) const;
  // So that the next search starts at the first address: with leases, the worst case there is.
  void ForgetLastReserved() const;

  // What the last CHECK said if it failed.
  [[nodiscard]] const std::string& complaint() const { return complaint_; }
  [[nodiscard]] const Samples& add() const { return add_; }
  [[nodiscard]] const Samples& check() const { return check_; }
  [[nodiscard]] const Samples& del() const { return del_; }

 protected:
  // Makes `count` attachments that stay; the process is in the world.
  virtual void Populate(int count);

  [[nodiscard]] Attachment Next();
  [[nodiscard]] const Runtime& runtime() const { return runtime_; }

 private:
  std::string name_;
  Runtime runtime_;
  World world_;
  const Contender* baseline_ = nullptr;
  int alive_ = 0;
  int count_ = 0;
  std::string complaint_;
  Samples add_;
  Samples check_;
  Samples del_;
};

// A build of ours, `binary`: a whole attachment in one process.
[[nodiscard]] std::unique_ptr<Contender> MakeOurs(const std::string& name,
                                                  const std::filesystem::path& binary);
// The same binary under the reference plugins' names, as Nomad's own list runs it.
[[nodiscard]] std::unique_ptr<Contender> MakeByName(const std::string& name,
                                                    const std::filesystem::path& binary);
// The reference plugins in `folder`. A thousand ADDs of theirs would take half an hour, so those that
// only stay are made faster (reference.cc).
[[nodiscard]] std::unique_ptr<Contender> MakeReference(const std::filesystem::path& folder);

}  // namespace nomad_bridge::bench
