#include "tests/fuzz/fuzz.h"

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  nomad_bridge::fuzz::Run({static_cast<const char*>(static_cast<const void*>(data)), size});
  return 0;
}
