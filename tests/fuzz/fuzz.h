// What every fuzz target does: one function, called with bytes again and again.
//
// Errors  A target throws nothing but what its own input may be refused with; anything else, and
//         every finding of the sanitizers, ends the run with the input in a file.
// Source  llvm.org/docs/LibFuzzer.html
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace nomad_bridge::fuzz {

// Defined by each target.
void Run(std::string_view input);

// Takes the last byte away and returns it: what a target does besides. The last, so that files of
// other tests can be inputs as they are. `input` must not be empty.
[[nodiscard]] inline std::size_t TakeChoice(std::string_view& input) {
  const auto choice = static_cast<unsigned char>(input.back());
  input.remove_suffix(1);
  return choice;
}

}  // namespace nomad_bridge::fuzz
