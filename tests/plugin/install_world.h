// A directory of plugins, and the changes that `nomad-bridge install` makes in it.
#pragma once

#include "tests/plugin/cli_world.h"

namespace nomad_bridge::test {

constexpr std::array kLinks = {"bridge", "host-local", "firewall", "portmap", "loopback"};
constexpr const char* kDirectory = "/run/plugins";

// What every build of ours, of any version, can be known by.
constexpr const char* kOlder =
    "#!/bin/sh\n: '\nThis file is the CNI plugin nomad-bridge, and may replace itself.\n'\n";
constexpr const char* kReferencePlugin = "#!/bin/sh\n: the reference\n";

class Install : public CliWorld {
 protected:
  void SetUp() override { fs::create_directories(kDirectory); }

  [[nodiscard]] Outcome RunInstall(const std::vector<std::string>& options = {}) {
    std::vector<std::string> arguments = {"install", kDirectory};
    arguments.insert(arguments.end(), options.begin(), options.end());
    return Run(arguments);
  }
  void MustInstall(const std::vector<std::string>& options = {}) {
    ASSERT_THAT(RunInstall(options), Exits(0));
  }

  [[nodiscard]] std::string Built() {
    return FindFile(PluginCommand("", "").argv.front(), 1 << 28).value();
  }
};

inline std::string Path(const std::string& name) {
  return Cat(kDirectory, '/', name);
}

inline std::string Content(const std::string& name) {
  return FindFile(Path(name), 1 << 28).value_or("nothing");
}

inline void Write(const std::string& name, const std::string& content) {
  fs::create_directories(kDirectory);
  WriteProgram(Path(name), content);
}

// Every name, with what it is and what it holds or leads to.
inline std::map<std::string, std::string> Listing() {
  std::map<std::string, std::string> listing;
  for (const fs::directory_entry& entry : fs::directory_iterator(kDirectory)) {
    const std::string name = entry.path().filename();
    listing[name] = entry.is_symlink()     ? Cat("-> ", fs::read_symlink(entry.path()).string())
                    : entry.is_directory() ? "directory"
                                           : Content(name);
  }
  return listing;
}

// What Nomad's fingerprint asks.
inline std::string About(const std::string& name) {
  return Execute(Command{.argv = {Path(name)}, .variables = {{"CNI_COMMAND", std::nullopt}}}).err;
}

inline void ExpectInstalled() {
  EXPECT_THAT(About("nomad-bridge"), StartsWith("CNI nomad-bridge plugin v"));
  for (const char* const name : kLinks) {
    EXPECT_EQ(fs::read_symlink(Path(name)), "nomad-bridge") << name;
    EXPECT_THAT(About(name), StartsWith("CNI ")) << name;
  }
}

}  // namespace nomad_bridge::test
