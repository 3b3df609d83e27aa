// Layers over directories of the machine.
#pragma once

#include "tests/support/mounted.h"

namespace nomad_bridge::test {

// For Mounted: a layer over `directory`, which keeps in /run what is written there.
[[nodiscard]] inline std::vector<std::string> LayerOver(const std::string& directory) {
  const std::string layer = Cat("/run/layers", directory);
  fs::create_directories(Cat(layer, "/upper"));
  fs::create_directories(Cat(layer, "/work"));
  return {"-t",
          "overlay",
          "overlay",
          "-o",
          Format("lowerdir={},upperdir={}/upper,workdir={}/work", directory, layer, layer)};
}

}  // namespace nomad_bridge::test
