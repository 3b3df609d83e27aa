// How long an attachment takes: nomad-bridge against the reference plugins, or one build of it
// against another, verb by verb, in turns.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <stdexcept>

#include "base/text.h"
#include "tests/bench/commands.h"
#include "tests/bench/data_path.h"
#include "tests/bench/options.h"
#include "tests/bench/policies.h"
#include "tests/bench/report.h"
#include "tests/support/isolation.h"
#include "tests/support/scratch_directory.h"

namespace nomad_bridge::bench {
namespace {

// Adds what is measured of one build of ours. `with_foreign`: also beside changing foreign rules.
void AddBuild(Contenders& contenders,
              const std::string& prefix,
              const std::filesystem::path& binary,
              bool with_foreign) {
  contenders.push_back(MakeOurs(prefix.empty() ? "nomad-bridge" : prefix, binary));
  const std::string before = prefix.empty() ? "" : prefix + ' ';
  contenders.push_back(MakeByName(before + "by name", binary));
  if (with_foreign) {
    contenders.push_back(MakeOurs(before + "foreign rules", binary));
    contenders.back()->ChangeForeignRules();
  }
}

// The reference first, else the other build. What they are compared with comes before them, but for
// the floor, which is compared with us.
Contenders MakeContenders(const Options& options) {
  Contenders contenders;
  const bool with_other = !options.with_reference && !options.other.empty();
  if (options.with_reference) {
    contenders.push_back(MakeReference(options.reference));
  } else if (with_other) {
    AddBuild(contenders, "other", options.other, true);
  }
  const std::size_t baselines = contenders.size();
  if (options.with_ours) {
    AddBuild(contenders, "", options.binary, options.with_floor || with_other);
  }
  const std::size_t compared = options.with_floor ? baselines + 2 : contenders.size();
  for (std::size_t i = baselines; baselines > 0 && i < compared; ++i) {
    contenders[i]->CompareWith(*contenders[std::min(i - baselines, baselines - 1)]);
  }
  if (options.with_floor) {
    contenders.push_back(MakeFloor(options.binary));
    contenders.back()->CompareWith(*contenders[baselines]);
  }
  for (const std::unique_ptr<Contender>& contender : contenders) {
    if (options.both_families) {
      contender->UseBothFamilies();
    }
  }
  return contenders;
}

void CompareVerbs(const Options& options, std::ofstream& json) {
  const Contenders contenders = MakeContenders(options);
  Report report(contenders);
  for (const int alive : options.alive) {
    for (const std::unique_ptr<Contender>& contender : contenders) {
      std::cerr << contender->name() << ": " << alive << " attachments ...\n";
      contender->GrowTo(alive);
    }
    const int rounds = options.RoundsWith(alive);
    std::cerr << "measuring " << rounds << " rounds with " << alive << " alive ...\n";
    for (int i = 0; i < rounds; ++i) {
      for (const std::unique_ptr<Contender>& contender : contenders) {
        contender->Round();
      }
    }
    report.AddTimes(alive);
    if (alive == options.alive.front()) {
      report.AddCosts();
    }
  }
  report.Print(std::cout);
  json << report.json().dump(1) << '\n';
}

// ADD with nothing in the data dir, and with leases: once where the search for a free address
// begins behind them, as after as many ADDs, and once where it begins before them, which is the
// worst there is.
Row CompareLeasesOf(const Options& options,
                    const std::function<std::unique_ptr<Contender>()>& make) {
  const std::unique_ptr<Contender> empty = make();
  const std::unique_ptr<Contender> behind = make();
  const std::unique_ptr<Contender> before = make();
  behind->WriteLeases(options.leases);
  before->WriteLeases(options.leases);
  for (Contender* const contender : {empty.get(), behind.get(), before.get()}) {
    contender->GrowTo(0);
  }
  for (int round = 0; round < options.RoundsWith(0); ++round) {
    empty->Round();
    behind->Round();
    before->ForgetLastReserved();
    before->Round();
  }
  const double base = empty->times().add.Median();
  Row row{empty->name(), Number(base)};
  for (Contender* const contender : {behind.get(), before.get()}) {
    const double median = contender->times().add.Median();
    row.push_back(Cat(Number(median), median < base ? " (" : " (+", Number(median - base), ')'));
  }
  return row;
}

void CompareLeases(const Options& options) {
  std::vector<Row> rows{{"ADD, ms, median",
                         "no lease",
                         Cat(options.leases, ", begins behind"),
                         Cat(options.leases, ", begins before")}};
  if (options.with_reference) {
    rows.push_back(CompareLeasesOf(options, [&] { return MakeReference(options.reference); }));
  }
  if (options.with_ours) {
    rows.push_back(
        CompareLeasesOf(options, [&] { return MakeOurs("nomad-bridge", options.binary); }));
  }
  PrintTable(std::cout, rows);
}

// In turns, so that what else the machine does is shared.
void CompareParallel(const Options& options) {
  constexpr int kTurns = 5;
  const Contenders contenders = MakeContenders(options);
  std::vector<Row> rows{{Cat("per s, ", options.parallel, " at once"), "ADD", "DEL"}};
  std::vector<std::pair<Samples, Samples>> rates(contenders.size());
  for (int turn = 0; turn < kTurns; ++turn) {
    for (std::size_t i = 0; i < contenders.size(); ++i) {
      contenders[i]->GrowTo(0);
      const Rates measured =
          contenders[i]->RunParallel(options.parallel, options.RoundsWith(0) / kTurns + 1);
      rates[i].first.Add(measured.add);
      rates[i].second.Add(measured.del);
    }
  }
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    const auto& [add, del] = rates[i];
    rows.push_back({contenders[i]->name(), Number(add.Median()), Number(del.Median())});
  }
  PrintTable(std::cout, rows);
}

// Both as a package puts a binary there, in one piece: the kernel maps what a linker wrote in
// smaller pieces, and an ADD takes 8 % longer.
Options WithCopies(Options options, const std::filesystem::path& directory) {
  for (std::filesystem::path* const binary : {&options.binary, &options.other}) {
    if (!binary->empty()) {
      const std::filesystem::path copy =
          directory / (binary == &options.binary ? "ours" : "other") / binary->filename();
      std::filesystem::create_directory(copy.parent_path());
      std::filesystem::copy_file(*binary, copy);
      *binary = copy;
    }
  }
  return options;
}

void Compare(const Options& given) {
  const test::ScratchDirectory copies(std::filesystem::temp_directory_path());
  const Options options = WithCopies(given, copies.path());
  std::ofstream json;
  if (!options.json.empty()) {
    json.open(options.json);  // now: behind the isolation its path may be another file's
    if (!json) {
      throw std::runtime_error(Cat("cannot write ", options.json.string()));
    }
  }
  test::EnterIsolation();
  if (options.leases > 0) {
    CompareLeases(options);
  } else if (options.parallel > 0) {
    CompareParallel(options);
  } else if (options.subject == Options::Subject::kPolicies) {
    MeasurePolicies(options, std::cout);
  } else if (options.subject == Options::Subject::kCommands) {
    MeasureCommands(options, std::cout);
  } else if (options.subject == Options::Subject::kDataPath ||
             options.subject == Options::Subject::kFlowTables) {
    json << MeasureDataPath(options, std::cout).dump(1) << '\n';
  } else {
    CompareVerbs(options, json);
  }
  json.flush();
  if (!options.json.empty() && !json) {
    throw std::runtime_error(Cat("cannot write ", options.json.string()));
  }
}

}  // namespace
}  // namespace nomad_bridge::bench

int main(int argc, char** argv) {
  using namespace nomad_bridge::bench;
  try {
    const std::optional<Options> options = ParseOptions({argv + 1, argv + argc});
    if (!options) {
      std::cout << kUsage;
      return EXIT_SUCCESS;
    }
    Compare(*options);
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    std::cerr << "nb_bench: " << error.what() << '\n';
    return EXIT_FAILURE;
  }
}
