// main() of a fuzz target without libFuzzer: runs it once with each file in the directories that
// are its arguments.
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>

#include "tests/fuzz/fuzz.h"

int main(int argc, char** argv) {
  int files = 0;
  for (int i = 1; i < argc; ++i) {
    for (const auto& file : std::filesystem::directory_iterator(argv[i])) {
      std::ifstream in(file.path(), std::ios::binary);
      const std::string bytes{std::istreambuf_iterator<char>(in), {}};
      nomad_bridge::fuzz::Run(bytes);
      ++files;
    }
  }
  std::cout << files << " inputs\n";
  return files > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
