// Steps that undo what a failing ADD has done. The destructor runs them, the last one first.
//
// Order      Add a step before you begin the action that it undoes, because an action that fails
//            may still have had an effect. So a step must succeed if there is nothing to undo.
// Ownership  Closures must capture variables that are declared after the Undo by value: these are
//            destroyed first, so references to them would dangle.
// Errors     A step that fails is logged and ignored: DEL guarantees the clean-up.
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
  // Drops the steps: everything has succeeded.
  void Keep() { steps_.clear(); }

 private:
  struct Step {
    std::string name;
    std::function<void()> act;
  };
  std::vector<Step> steps_;
};

}  // namespace nomad_bridge
