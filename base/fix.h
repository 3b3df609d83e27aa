// What to do about a fault: a command that repairs it when pasted into a shell; if there is no such
// command, advice in words.
#pragma once

#include <string>
#include <utility>

#include "base/text.h"

namespace nomad_bridge {

struct Fix {
  Fix() = default;
  Fix(const char* pasted) : command(pasted) {}
  Fix(std::string pasted) : command(std::move(pasted)) {}
  static Fix Advice(std::string words) {
    Fix fix;
    fix.advice = std::move(words);
    return fix;
  }

  // "fix: nomad-bridge gc", "advice: plug in ..."; empty if there is nothing to do.
  [[nodiscard]] std::string Line() const {
    return !command.empty() ? Cat("fix: ", command)
           : advice.empty() ? std::string()
                            : Cat("advice: ", advice);
  }

  bool operator==(const Fix&) const = default;

  std::string command;
  std::string advice;
};

}  // namespace nomad_bridge
