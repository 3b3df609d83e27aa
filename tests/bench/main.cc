// How long an attachment takes: nomad-bridge against the reference plugins, verb by verb,
// alternating in one run.
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iomanip>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/ip.h"
#include "base/text.h"
#include "tests/bench/options.h"
#include "tests/bench/runtime.h"
#include "tests/bench/table.h"
#include "tests/bench/world.h"

namespace nomad_bridge::bench {
namespace {

constexpr const char* kLeaseFolder = "/var/run/cni/nomad";
constexpr const char* kNamesFolder = "/run/names";
constexpr const char* kFirstAddress = "172.26.64.2";

std::string ReadFixture(const std::string& name) {
  const std::string path = Cat(NOMAD_BRIDGE_FIXTURES, "/", name);
  const std::optional<std::string> content = FindFile(path);
  if (!content) {
    throw std::runtime_error(Cat("there is no ", path));
  }
  return *content;
}

// One side in a world of its own.
class Contender {
 public:
  Contender(std::string name, Runtime runtime)
      : name_(std::move(name)), runtime_(std::move(runtime)) {}

  [[nodiscard]] const std::string& name() const { return name_; }

  // `link` to `file`, in this side's world alone.
  void Link(const std::filesystem::path& link, const std::filesystem::path& file) const {
    world_.Enter();
    EnsureFolder(link.parent_path());
    std::filesystem::create_symlink(file, link);
  }

  // One more attachment that stays.
  void Attach() {
    world_.Enter();
    AttachmentId attachment = Next();
    runtime_.Add(attachment);
  }

  // ADD, CHECK and DEL of one attachment, in a namespace made beforehand.
  void Round() {
    world_.Enter();
    AttachmentId attachment = Next();
    Time(add_, [&] { runtime_.Add(attachment); });
    Time(check_, [&] { complaint_ = runtime_.Check(attachment); });
    Time(del_, [&] { runtime_.Del(attachment); });
  }

  // What makes the first round different (the bridge, the tables, the page cache) is not what we
  // measure.
  void WarmUp() {
    Round();
    add_ = {};
    check_ = {};
    del_ = {};
  }

  [[nodiscard]] Cost CostOfAdd() {
    world_.Enter();
    AttachmentId attachment = Next();
    Cost cost;
    runtime_.AddTraced(attachment, cost);
    runtime_.Del(attachment);
    return cost;
  }

  // As if `count` other attachments had addresses: the first ones, without a gap.
  void WriteLeases(int count) const {
    world_.Enter();
    EnsureFolder(kLeaseFolder);
    const Ip first = Ip::Parse(kFirstAddress).value();
    for (int i = 0; i < count; ++i) {
      const Ip address = first.Plus(static_cast<std::uint64_t>(i));
      ReplaceFile(Cat(kLeaseFolder, '/', address), Cat("other-", i, "\r\neth0"));
    }
  }
  // So that the next search starts at the first address: with leases, the worst case there is.
  void ForgetLastReserved() const {
    world_.Enter();
    EnsureFileGone(Cat(kLeaseFolder, "/last_reserved_ip.0"));
  }

  // What the last CHECK said if it failed.
  [[nodiscard]] const std::string& complaint() const { return complaint_; }
  [[nodiscard]] Samples& add() { return add_; }
  [[nodiscard]] Samples& check() { return check_; }
  [[nodiscard]] Samples& del() { return del_; }

 private:
  [[nodiscard]] AttachmentId Next() {
    ++count_;
    std::ostringstream id;
    id << "5f3c1a2b-7d4e-4c55-9a52-" << std::setfill('0') << std::setw(12) << count_;
    constexpr int kFirstPort = 20000;
    return {.container_id = id.str(),
            .netns_path = world_.MakeGuest(),
            .host_port = kFirstPort + count_,
            .result = nullptr};
  }

  static void Time(Samples& samples, const std::function<void()>& act) {
    const auto start = std::chrono::steady_clock::now();
    act();
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    samples.Add(took.count());
  }

  std::string name_;
  Runtime runtime_;
  World world_;
  int count_ = 0;
  std::string complaint_;
  Samples add_;
  Samples check_;
  Samples del_;
};

std::unique_ptr<Contender> MakeOurs(const Options& options) {
  nlohmann::json list = nlohmann::json::parse(ReadFixture("conf/nomad_bridge.conflist"));
  list["plugins"][0]["type"] = options.plugin.filename();
  return std::make_unique<Contender>(
      "nomad-bridge",
      Runtime(list, options.plugin.parent_path(), ReadFixture("args/nomad_add.txt")));
}

// The same binary under the reference plugins' names, as Nomad's own list runs it.
std::unique_ptr<Contender> MakeNames(const Options& options) {
  const nlohmann::json list =
      nlohmann::json::parse(ReadFixture("conf/nomad_builtin_bridge.conflist"));
  auto names = std::make_unique<Contender>(
      "five names", Runtime(list, kNamesFolder, ReadFixture("args/nomad_add.txt")));
  for (const nlohmann::json& plugin : list.at("plugins")) {
    names->Link(Cat(kNamesFolder, '/', plugin.at("type").get<std::string>()), options.plugin);
  }
  return names;
}

std::unique_ptr<Contender> MakeReference(const Options& options) {
  return std::make_unique<Contender>(
      "reference",
      Runtime(nlohmann::json::parse(ReadFixture("conf/nomad_builtin_bridge.conflist")),
              options.reference,
              ReadFixture("args/nomad_add.txt")));
}

// The reference first, where both are there.
std::vector<std::unique_ptr<Contender>> MakeContenders(const Options& options) {
  std::vector<std::unique_ptr<Contender>> contenders;
  if (options.with_reference) {
    contenders.push_back(MakeReference(options));
  }
  if (options.with_ours) {
    contenders.push_back(MakeOurs(options));
    contenders.push_back(MakeNames(options));
  }
  return contenders;
}

std::string Spread(Samples& samples) {
  return Cat(Number(samples.Median()), " / ", Number(samples.P90()));
}

using Verb = Samples& (Contender::*)();

// It stands first, and others to be compared with it behind.
bool HasReference(const std::vector<std::unique_ptr<Contender>>& contenders) {
  return contenders.size() > 1 && contenders.front()->name() == "reference";
}

Row MakeRow(const std::string& verb,
            int alive,
            const std::vector<std::unique_ptr<Contender>>& contenders,
            Verb samples) {
  Row row{Cat(verb, ", ", alive, " alive")};
  for (const std::unique_ptr<Contender>& contender : contenders) {
    row.push_back(Spread((*contender.*samples)()));
  }
  if (HasReference(contenders)) {
    const double reference = (*contenders.front().*samples)().Median();
    for (std::size_t i = 1; i < contenders.size(); ++i) {
      row.push_back(Cat(Number(reference / (*contenders[i].*samples)().Median()), " x"));
    }
  }
  return row;
}

Row MakeHead(const std::string& first, const std::vector<std::unique_ptr<Contender>>& contenders) {
  Row head{first};
  for (const std::unique_ptr<Contender>& contender : contenders) {
    head.push_back(contender->name());
  }
  if (HasReference(contenders)) {
    for (std::size_t i = 1; i < contenders.size(); ++i) {
      head.push_back(Cat("ratio, ", contenders[i]->name()));
    }
  }
  return head;
}

// The worlds of one number of living attachments, filled, measured in turns.
std::vector<std::unique_ptr<Contender>> MeasureVerbs(const Options& options, int alive) {
  std::vector<std::unique_ptr<Contender>> contenders = MakeContenders(options);
  for (const std::unique_ptr<Contender>& contender : contenders) {
    std::cerr << "preparing " << alive << " attachments of " << contender->name() << " ...\n";
    for (int i = 0; i < alive; ++i) {
      contender->Attach();
    }
    contender->WarmUp();
  }
  std::cerr << "measuring " << options.rounds << " rounds with " << alive << " alive ...\n";
  for (int i = 0; i < options.rounds; ++i) {
    for (const std::unique_ptr<Contender>& contender : contenders) {
      contender->Round();
    }
  }
  return contenders;
}

// One column per contender: what one ADD costs, and what its CHECK has to say.
struct Costs {
  std::vector<Row> rows{{"one ADD"}, {"processes started"}, {"peak memory of one, MiB"}};
  std::string notes;
};

Costs MeasureCosts(const std::vector<std::unique_ptr<Contender>>& contenders) {
  Costs costs;
  for (const std::unique_ptr<Contender>& contender : contenders) {
    const Cost cost = contender->CostOfAdd();
    costs.rows[0].push_back(contender->name());
    costs.rows[1].push_back(Cat(cost.processes));
    costs.rows[2].push_back(Number(static_cast<double>(cost.peak_kib) / 1024));
    if (!contender->complaint().empty()) {
      costs.notes += Cat("CHECK of ", contender->name(), " fails: ", contender->complaint(), '\n');
    }
  }
  return costs;
}

void CompareVerbs(const Options& options) {
  std::vector<Row> times;
  Costs costs;
  for (const int alive : options.alive) {
    const std::vector<std::unique_ptr<Contender>> contenders = MeasureVerbs(options, alive);
    if (times.empty()) {
      times.push_back(MakeHead("ms, median / p90", contenders));
      costs = MeasureCosts(contenders);
    }
    times.push_back(MakeRow("ADD", alive, contenders, &Contender::add));
    times.push_back(MakeRow("CHECK", alive, contenders, &Contender::check));
    times.push_back(MakeRow("DEL", alive, contenders, &Contender::del));
  }
  std::cout << '\n';
  PrintTable(std::cout, times);
  std::cout << '\n';
  PrintTable(std::cout, costs.rows);
  std::cout << '\n' << costs.notes;
}

// ADD with nothing in the data dir, and with leases: once where the search for a free address
// begins behind them, as after as many ADDs, and once where it begins before them, which is the
// worst there is.
Row CompareLeasesOf(const Options& options,
                    const std::function<std::unique_ptr<Contender>(const Options&)>& make) {
  const std::unique_ptr<Contender> empty = make(options);
  const std::unique_ptr<Contender> behind = make(options);
  const std::unique_ptr<Contender> before = make(options);
  behind->WriteLeases(options.leases);
  before->WriteLeases(options.leases);
  for (Contender* const contender : {empty.get(), behind.get(), before.get()}) {
    contender->WarmUp();
  }
  for (int round = 0; round < options.rounds; ++round) {
    empty->Round();
    behind->Round();
    before->ForgetLastReserved();
    before->Round();
  }
  const double base = empty->add().Median();
  Row row{empty->name(), Number(base)};
  for (Contender* const contender : {behind.get(), before.get()}) {
    const double median = contender->add().Median();
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
    rows.push_back(CompareLeasesOf(options, MakeReference));
  }
  if (options.with_ours) {
    rows.push_back(CompareLeasesOf(options, MakeOurs));
  }
  std::cout << '\n';
  PrintTable(std::cout, rows);
}

void Compare(const Options& options) {
  if (options.leases > 0) {
    CompareLeases(options);
  } else {
    CompareVerbs(options);
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
