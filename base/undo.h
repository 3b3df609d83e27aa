// The steps that undo what a failing ADD has done, run last first by the destructor.
//
// Order      A step is given before what it undoes is begun: that may be done although it fails. So
//            it succeeds if there is nothing to undo.
// Ownership  Closures capture by value whatever is declared after the Undo: it is destroyed first,
//            so a reference would dangle.
// Errors     A step that fails is logged and ignored: DEL is what guarantees the clean-up.
#pragma once

#include <exception>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"

namespace nomad_bridge {

class Undo {
 public:
  Undo() = default;
  Undo(const Undo&) = delete;
  Undo& operator=(const Undo&) = delete;
  ~Undo() {
    while (!steps_.empty()) {
      const Step step = std::move(steps_.back());
      steps_.pop_back();
      try {
        step.act();
      } catch (const std::exception& error) {
        LogLine("cannot {}, ignoring: {}", step.name, error.what());
      }
    }
  }

  // `name` completes "cannot ...".
  void Then(std::string name, std::function<void()> act) {
    steps_.push_back({std::move(name), std::move(act)});
  }
  // Everything has succeeded: drops the steps.
  void Keep() { steps_.clear(); }

 private:
  struct Step {
    std::string name;
    std::function<void()> act;
  };
  std::vector<Step> steps_;
};

}  // namespace nomad_bridge
