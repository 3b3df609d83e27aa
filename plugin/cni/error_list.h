// The errors of a command that continues after an error (DEL, GC). They are thrown together at its
// end.
//
// Shapes  One string per error, "cannot remove <what>: <msg>: <details>"; joined with "; ".
// Errors  ThrowIfAny throws kIncomplete with all errors in the details. Try catches what `act`
//         throws.
#pragma once

#include <exception>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace nomad_bridge::cni {

// Rewords "not found" in the message of another program: go-cni takes these words for success on
// DEL.
[[nodiscard]] inline std::string WithoutNotFound(std::string text) {
  constexpr std::string_view kMisleading = "not found";
  for (std::size_t at = text.find(kMisleading); at != text.npos; at = text.find(kMisleading)) {
    text.replace(at, kMisleading.size(), "not there");
  }
  return text;
}

class ErrorList {
 public:
  ErrorList() = default;
  explicit ErrorList(std::vector<std::string> list) : list_(std::move(list)) {}

  // Runs `act`, and adds its error to the list. `what` completes "cannot remove ...".
  void Try(const std::string& what, const std::function<void()>& act) {
    try {
      act();
    } catch (const std::exception& error) {
      list_.push_back(Format("cannot remove {}: {}", what, error.what()));
    }
  }
  void Add(const std::vector<std::string>& more) {
    list_.insert(list_.end(), more.begin(), more.end());
  }

  [[nodiscard]] bool empty() const { return list_.empty(); }
  [[nodiscard]] const std::vector<std::string>& list() const { return list_; }

  // `msg` says what could not be completed.
  void ThrowIfAny(const std::string& msg) const {
    if (!list_.empty()) {
      throw Error(Code::kIncomplete, msg, Join(list_));
    }
  }

  // Returns "first; second; third".
  [[nodiscard]] static std::string Join(const std::vector<std::string>& list) {
    return WithoutNotFound(Joined(list, "; "));
  }

 private:
  std::vector<std::string> list_;
};

}  // namespace nomad_bridge::cni
