#include "tests/bench/policies.h"

#include <array>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/text.h"
#include "tests/bench/contender.h"
#include "tests/bench/path_traffic.h"
#include "tests/bench/report.h"

namespace nomad_bridge::bench {
namespace {

using nlohmann::json;

constexpr std::array kPolicies = {0, 20, 200};
constexpr int kNamespaces = 20;
// A kind of allocation each; those behind them have policies, too, and are not alive.
constexpr int kJobs = 180;

// ---- policies

// The first 20 are about a namespace each, the others about one of its jobs besides. What is
// measured is allowed by the last entry.
json PolicyOf(int index, int turn) {
  json to = {{"namespace", Cat("ns", index % kNamespaces)}};
  if (index >= kNamespaces) {
    to["job"] = Cat("job", index);
  }
  return {{"name", Cat("p", index)},
          {"to", to},
          {"allow",
           {{{"from", {{{"namespace", "infra"}, {"job", Cat("scraper", index)}}}},
             {"ports", {Cat("tcp/", 9090 + turn)}}},
            {{"from", {Cat("10.", index, ".0.0/16")}}, {"ports", {"tcp/443"}}},
            {{"from", {"same-namespace"}}}}}};
}

test::Command ApplyCommand(const std::filesystem::path& binary, int count, int turn) {
  constexpr const char* kDirectory = "/run/policy.d";
  json policies = json::array();
  for (int i = 0; i < count; ++i) {
    policies.push_back(PolicyOf(i, turn));
  }
  EnsureDirectory(kDirectory);
  ReplaceFile(Cat(kDirectory, "/policies.json"),
              json({{"version", 1}, {"policies", policies}}).dump());
  return {.argv = {binary.string(), "policy", "apply", kDirectory},
          .variables = {{"CNI_COMMAND", std::nullopt}}};
}

// ---- one number of policies

class Governed : public Contender {
 public:
  Governed(int policies, const std::filesystem::path& binary)
      : Contender(policies == 0 ? "no policies" : Cat(policies, " policies"), NetworkOf(binary)),
        policies_(policies),
        binary_(binary) {}

  // With the pair whose traffic is measured, of one namespace.
  void Prepare(int alive) {
    GrowTo(alive);
    world().Enter();
    const test::Attached client = test::MustAdd(network(), NextOf(kNamespaces));
    const test::Attached server = test::MustAdd(network(), NextOf(2 * kNamespaces));
    line_.emplace(client.netns,
                  PathLine::End{.netns = server.netns},
                  test::AddressOf(server.result),
                  PathLine::End().port);
    Apply();
  }

  // What one turn adds to each of the samples.
  void Measure() {
    Round();
    world().Enter();
    TimeNewKind();
    round_trip.Add(line_->RoundTrip());
    connection.Add(line_->NewConnection());
  }
  // The sysctl that hands over what passes a bridge whatever policies want, turned off: what the
  // first policy on such a node costs.
  void MeasureBridgedOnly() {
    world().Enter();
    for (const char* const setting : {"0", "1"}) {
      test::Must({.argv = {"sysctl", "-qw", Cat("net.bridge.bridge-nf-call-iptables=", setting)}});
      if (*setting == '0') {
        bridged_only.Add(line_->RoundTrip());
      }
    }
  }
  void Apply() {
    if (policies_ != 0) {
      world().Enter();
      const test::Command command = ApplyCommand(binary_, policies_, ++turn_);
      apply.Time([&] { test::Must(command); });
    }
  }

  Samples new_kind;
  Samples round_trip;
  Samples connection;
  Samples bridged_only;
  Samples apply;

 protected:
  [[nodiscard]] test::Attached Next() override { return NextOf(count()); }

 private:
  // The first of a job that a policy is about, as far as there are such jobs.
  void TimeNewKind() {
    test::Attached attached = NextOf(kJobs + new_kinds_++ % kNamespaces, kJobs + kNamespaces);
    new_kind.Time([&] { attached = test::MustAdd(network(), std::move(attached)); });
    test::MustDelFrom(network(), attached);
  }

  test::Attached NextOf(int index, int jobs = kJobs) {
    test::Attached attached = Contender::Next();
    attached.args = Format(
        "IgnoreUnknown=true;NOMAD_NAMESPACE=ns{};NOMAD_JOB_ID=job{};NOMAD_GROUP_NAME=main;"
        "NOMAD_ALLOC_ID={}",
        index % kNamespaces,
        index % jobs,
        attached.container_id);
    return attached;
  }

  int policies_;
  std::filesystem::path binary_;
  int turn_ = 0;
  int new_kinds_ = 0;
  std::optional<PathLine> line_;
};

Row RowOf(const std::string& what,
          const std::vector<std::unique_ptr<Governed>>& all,
          const std::function<const Samples&(const Governed&)>& samples,
          const std::string& target) {
  Row row{what};
  const double base = samples(*all.front()).Median();
  for (const std::unique_ptr<Governed>& each : all) {
    const double median = samples(*each).Median();
    row.push_back(each == all.front() ? Number(median)
                                      : Format("{} ({}x)", Number(median), Number(median / base)));
  }
  row.push_back(target);
  return row;
}

}  // namespace

void MeasurePolicies(const Options& options, std::ostream& out) {
  const int alive = options.alive.back();
  std::vector<std::unique_ptr<Governed>> all;
  Row head{Cat("median, ", alive, " alive")};
  for (const int policies : kPolicies) {
    all.push_back(std::make_unique<Governed>(policies, options.binary));
    std::cerr << all.back()->name() << ": " << alive << " attachments ...\n";
    all.back()->Prepare(alive);
    head.push_back(all.back()->name());
  }
  head.emplace_back("at most");
  AwaitQuiet();
  const int rounds = options.RoundsWith(alive);
  std::cerr << "measuring " << rounds << " rounds ...\n";
  for (int i = 0; i < rounds; ++i) {
    for (const std::unique_ptr<Governed>& each : all) {
      each->Measure();
    }
    all.front()->MeasureBridgedOnly();
  }
  constexpr int kApplies = 5;
  for (int i = 0; i < kApplies; ++i) {
    all.back()->Apply();
  }
  const auto add = [](const Governed& each) -> const Samples& { return each.times().add; };
  std::vector<Row> rows{head};
  rows.push_back(RowOf("ADD, ms", all, add, "1.2x"));
  rows.push_back(RowOf("ADD of a new kind, ms", all, std::mem_fn(&Governed::new_kind), "1.2x"));
  rows.push_back(RowOf("round trip, us", all, std::mem_fn(&Governed::round_trip), "1.05x"));
  rows.push_back(RowOf("new connection, us", all, std::mem_fn(&Governed::connection), "1.15x"));
  rows.push_back({"policy apply, ms", "-", "-", Number(all.back()->apply.Median()), "1000"});
  rows.push_back({"round trip without bridge-nf-call-iptables, us",
                  Number(all.front()->bridged_only.Median()),
                  "-",
                  "-",
                  "-"});
  PrintTable(out, rows);
}

}  // namespace nomad_bridge::bench
