// Types the commands of a document as an operator does, in the host of a World.
//
// Shapes    A block is the text between ```sh and ```. It is typed into its own shell, in the
//           directory that Here() names. Its output is compared with the next ```text block. In
//           that block "..." matches any text, and so does the "…" of a cell that a terminal cuts;
//           a number matches any number. A text block that begins with "$ COMMAND" has its own
//           command.
// Programs  /opt has only what a page installs. nomad, systemctl, dpkg and go are stand-ins in
//           /run/bin; this file and tests/plugin/nomad define them.
#pragma once

#include <regex>

#include "tests/support/mounted.h"
#include "tests/support/world.h"

namespace nomad_bridge::test {

// Starts what nomad-bridge.service starts, and no other unit.
constexpr const char* kSystemctl = R"(#!/bin/sh
echo "$*" >>/run/systemctl.log
[ "$*" != "enable --now nomad-bridge" ] || { nomad-bridge up && nomad-bridge reconcile; }
)";

// The package has the program, a link and the examples, which a test mounts.
constexpr const char* kDpkg = R"(#!/bin/sh
set -e
case $1 in
  -i)
    [ -e "$2" ]
    mkdir -p /opt/cni/bin
    cp "$NOMAD_BRIDGE_BUILT" /opt/cni/bin/nomad-bridge
    ln -s /opt/cni/bin/nomad-bridge /run/bin/nomad-bridge ;;
  --purge) rm /opt/cni/bin/nomad-bridge /run/bin/nomad-bridge ;;
esac
)";

struct Block {
  std::string commands;
  std::string shown;  // "" if the page shows nothing
};

class TypedPage : public World {
 protected:
  // `heading` as it stands behind "## ".
  TypedPage(const std::string& page, const std::string& heading)
      : opt_({"-t", "tmpfs", "tmpfs"}, "/opt") {
    EnsureDirectory("/run/bin");
    fs::create_symlink(ProjectPath("tests/plugin/nomad"), "/run/bin/nomad");
    WriteProgram("/run/bin/systemctl", kSystemctl);
    WriteProgram("/run/bin/dpkg", kDpkg);
    host().Must(Words("ip link set lo up"));
    Turn(page, heading);
  }
  // Ends what the allocations run.
  void TearDown() override {
    for (const std::string& file : Entries("/run/nomad")) {
      if (file.ends_with(".json")) {
        const std::string job = file.substr(0, file.find(".json"));
        static_cast<void>(Execute(InShell(Cat("nomad job stop -purge ", job))));
      }
    }
  }

  void ExpectAllTyped() const {
    EXPECT_EQ(typed_, blocks_.size()) << "the section has more commands";
  }
  // The blocks of this section are typed next.
  void Turn(const std::string& page, const std::string& heading) {
    const std::string text = ReadFixture(Cat("../", page));
    const std::size_t begin = text.find(Cat("\n## ", heading, '\n'));
    if (begin == std::string::npos) {
      throw std::runtime_error(Cat(page, " has no section '", heading, '\''));
    }
    const std::string section = text.substr(begin, text.find("\n## ", begin + 1) - begin);
    const std::regex fence("```(\\w+)\n([^]*?)\n```");
    blocks_.clear();
    files_.clear();
    typed_ = 0;
    for (std::sregex_iterator at(section.begin(), section.end(), fence), end; at != end; ++at) {
      if ((*at)[1] == "sh") {
        blocks_.push_back({.commands = (*at)[2], .shown = {}});
      } else if ((*at)[1] == "text") {
        ReadShown((*at)[2]);
      } else {
        files_[(*at)[1]] += (*at)[2].str() + '\n';
      }
    }
  }

  // What the page calls `name` has another name here.
  void Call(const std::string& name, const std::string& here) {
    for (Block& block : blocks_) {
      block.commands = std::regex_replace(block.commands, std::regex(name), here);
      block.shown = std::regex_replace(block.shown, std::regex(name), here);
    }
  }

  // The section's blocks in another language than sh: "toml".
  [[nodiscard]] const std::string& FileIn(const std::string& language) const {
    return files_.at(language);
  }

  // The next block, each command of which must succeed; and one whose last command must fail.
  Outcome Type() { return TypeBlock("set -e\n", 0); }
  Outcome TypeInVain() { return TypeBlock("", 1); }

  [[nodiscard]] virtual std::string Here() { return ProjectPath(""); }

  [[nodiscard]] Command InShell(const std::string& commands) {
    return {.argv = {"sh", "-uc", Cat("cd '", Here(), "'\n", commands)},
            .variables = {{"PATH", "/run/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
                          {"NOMAD_BRIDGE_BUILT", BinaryUnderTest()},
                          {"LC_ALL", "C.UTF-8"}},
            .inherits_environment = false};
  }
  // As its package does.
  void InstallPlugin() { Must(InShell("touch /run/package; dpkg -i /run/package")); }

 private:
  Outcome TypeBlock(const std::string& mode, int code) {
    if (typed_ == blocks_.size()) {
      throw std::runtime_error("the section has no more commands");
    }
    const Block& block = blocks_[typed_++];
    Outcome outcome = Execute(InShell(Cat(mode, block.commands)));
    EXPECT_EQ(outcome.exit_code, code) << block.commands << "\n" << outcome;
    const std::string printed = outcome.out + outcome.err;
    for (const std::string& line : Lines(block.shown)) {
      EXPECT_TRUE(std::regex_search(printed, std::regex(PatternOf(line))))
          << "the page shows: " << line << "\nprinted was:\n"
          << printed;
    }
    return outcome;
  }

  void ReadShown(const std::string& text) {
    if (text.starts_with("$ ")) {
      const std::size_t end = text.find('\n');
      blocks_.push_back({.commands = text.substr(2, end - 2), .shown = text.substr(end + 1)});
    } else {
      blocks_.at(blocks_.size() - 1).shown = text;
    }
  }

  // Columns are as wide as what is in them.
  [[nodiscard]] static std::string PatternOf(const std::string& line) {
    std::string pattern = std::regex_replace(line, std::regex("[.^$|()\\[\\]{}*+?\\\\]"), "\\$&");
    pattern = std::regex_replace(pattern, std::regex("\\\\\\.\\\\\\.\\\\\\."), ".*");
    pattern = std::regex_replace(pattern, std::regex("…"), ".*");
    pattern = std::regex_replace(pattern, std::regex("\\b[0-9a-f]{8}\\b"), "[0-9a-f]{8}");
    pattern =
        std::regex_replace(pattern, std::regex("\\b[0-9-]{10}T[0-9:]{8}Z"), "[0-9-]+T[0-9:]+Z");
    pattern =
        std::regex_replace(pattern, std::regex("\\b[0-9]+\\\\.[0-9]+ [kM]B"), "[0-9.]+ [kM]?B");
    pattern = std::regex_replace(pattern, std::regex("\\b[0-9]+ [kM]B"), "[0-9.]+ [kM]?B");
    pattern = std::regex_replace(pattern, std::regex("handle [0-9]+"), "handle [0-9]+");
    pattern = std::regex_replace(pattern, std::regex("\\b[0-9]+[smhd] "), "[0-9]+[smhd] ");
    pattern = std::regex_replace(pattern, std::regex("\\b[0-9]+( |s |$)"), "[0-9]+$1");
    return std::regex_replace(pattern, std::regex(" +"), " +");
  }

  Mounted opt_;
  std::vector<Block> blocks_;
  std::map<std::string, std::string> files_;
  std::size_t typed_ = 0;
};

}  // namespace nomad_bridge::test
