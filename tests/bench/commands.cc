#include "tests/bench/commands.h"

#include <array>
#include <iostream>
#include <stdexcept>
#include <string_view>

#include <fcntl.h>
#include <unistd.h>

#include "base/text.h"
#include "tests/bench/contender.h"
#include "tests/bench/report.h"
#include "tests/support/config.h"

namespace nomad_bridge::bench {
namespace {

enum class Before { kNothing, kFlush };

struct Measured {
  const char* line;
  Before before = Before::kNothing;
  const char* target = "";  // with 1,000 alive
};

constexpr std::array<Measured, 6> kMeasured = {
    Measured{.line = "list", .target = "100"},
    Measured{.line = "list -json", .target = "100"},
    Measured{.line = "doctor", .target = "1,000"},
    Measured{.line = "metrics", .target = "500"},
    Measured{.line = "reconcile", .target = "500"},
    Measured{.line = "reconcile", .before = Before::kFlush, .target = "500"}};

double MedianOf(const Measured& measured, const std::filesystem::path& binary, int rounds) {
  test::Command command{.argv = test::Words(Cat(binary.string(), ' ', measured.line)),
                        .variables = {{"CNI_COMMAND", std::nullopt}},
                        // A megabyte of JSON would be parsed by us, as part of what is timed.
                        .in_child = [] { ::dup2(::open("/dev/null", O_WRONLY), STDOUT_FILENO); }};
  Samples samples;
  for (int i = 0; i < rounds; ++i) {
    if (measured.before == Before::kFlush) {
      test::Must({.argv = {"nft", "flush", "ruleset"}});
    }
    test::Outcome outcome;
    samples.Time([&] { outcome = test::Execute(command); });
    if (outcome.exit_code > 1) {  // 1: doctor has found something in this world
      throw std::runtime_error(Cat(measured.line, ": ", outcome.Text()));
    }
  }
  return samples.Median();
}

}  // namespace

void MeasureCommands(const Options& options, std::ostream& out) {
  const std::unique_ptr<Contender> ours = MakeOurs("nomad-bridge", options.binary);
  std::vector<Row> rows{{"ms, median"}};
  for (const Measured& measured : kMeasured) {
    rows.push_back(
        {Cat(measured.line, measured.before == Before::kFlush ? ", after a flush" : "")});
  }
  for (const int alive : options.alive) {
    std::cerr << alive << " attachments ...\n";
    ours->GrowTo(alive);
    ours->world().Enter();
    AwaitQuiet();
    rows.front().push_back(Cat(alive, " alive"));
    for (std::size_t i = 0; i < kMeasured.size(); ++i) {
      rows[i + 1].push_back(
          Number(MedianOf(kMeasured[i], options.binary, options.RoundsWith(alive))));
    }
  }
  rows.front().emplace_back("target with 1,000");
  for (std::size_t i = 0; i < kMeasured.size(); ++i) {
    rows[i + 1].emplace_back(kMeasured[i].target);
  }
  PrintTable(out, rows);
}

}  // namespace nomad_bridge::bench
