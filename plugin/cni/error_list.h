// The errors of a command that goes on past them (DEL, GC), thrown together at its end.
//
// Shapes  One string per error, "cannot remove <what>: <msg>: <details>"; joined with "; ".
// Errors  ThrowIfAny throws kIncomplete, all errors in its details; Try catches what `act` throws.
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

// A message of another program without "not found", which go-cni takes for success on DEL.
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

  // `what` completes "cannot remove ...".
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

  // `msg` is what could not be completed.
  void ThrowIfAny(const std::string& msg) const {
    if (!list_.empty()) {
      throw Error(Code::kIncomplete, msg, Join(list_));
    }
  }

  // "first; second; third".
  [[nodiscard]] static std::string Join(const std::vector<std::string>& list) {
    return WithoutNotFound(Joined(list, "; "));
  }

 private:
  std::vector<std::string> list_;
};

}  // namespace nomad_bridge::cni
