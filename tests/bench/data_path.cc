// Where the traffic goes, in the world of each contender:
//
//      outside                      host                     containers
//      198.51.100.2 ── uplink ── 198.51.100.1 ── bridge ──┬── server, a port of it published
//                                                         └── client, its neighbour
#include "tests/bench/data_path.h"

#include <exception>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "tests/bench/contender.h"
#include "tests/bench/path_traffic.h"
#include "tests/bench/report.h"

namespace nomad_bridge::bench {
namespace {

constexpr const char* kOutside = "198.51.100.2";
constexpr const char* kNode = "198.51.100.1";

// Whether established connections pass a flow table instead of the rules, which devices it knows.
enum class FlowTable { kNone, kOfBridge, kOfPorts };

struct Way {
  const char* name;
  PathLine line;
};

// A contender with servers and ways to them.
class Course {
 public:
  explicit Course(std::unique_ptr<Contender> contender, FlowTable flow_table = FlowTable::kNone)
      : contender_(std::move(contender)), flow_table_(flow_table) {
    contender_->world().Enter();
    outside_ = std::make_unique<test::Node>("outside");
    test::Must({.argv = {"ip", "-batch", "-"},
                .input = Format("link add uplink type veth peer name uplink netns outside\n"
                                "address add {}/24 dev uplink\n"
                                "link set uplink up\n",
                                kNode)});
    outside_->Must({"ip", "-batch", "-"},
                   Format("address add {}/24 dev uplink\nlink set uplink up\n", kOutside));
  }

  // The traffic goes through the two newest, whose rules come last where they are in a row.
  void GrowTo(int alive) {
    ways_.clear();
    contender_->GrowTo(alive);
    const test::Attached server = contender_->Attach();
    const test::Attached client = contender_->Attach();
    const PathLine::End inside{.netns = server.netns};
    const PathLine::End other_port{.netns = server.netns, .port = 81};
    const PathLine::End outside{.netns = outside_->path()};
    const auto host_port = server.port_mappings.at(0).at("HostPort").get<std::uint16_t>();
    const std::string address = test::AddressOf(server.result);
    ways_.push_back({"out", PathLine(client.netns, outside, kOutside, outside.port)});
    ways_.push_back({"published", PathLine(outside_->path(), inside, kNode, host_port)});
    ways_.push_back({"neighbour", PathLine(client.netns, other_port, address, other_port.port)});
    if (flow_table_ != FlowTable::kNone) {
      AddFlowTable(
          flow_table_ == FlowTable::kOfBridge
              ? ""
              : Cat(", ", test::HostVethOf(server.result), ", ", test::HostVethOf(client.result)));
    }
  }

  [[nodiscard]] const std::string& name() const { return contender_->name(); }
  [[nodiscard]] const std::vector<Way>& ways() const { return ways_; }

 private:
  void AddFlowTable(const std::string& ports) const {
    test::Must({.argv = {"nft", "-f", "-"},
                .input = Format(R"(
      table inet flows
      delete table inet flows
      table inet flows {
        flowtable established { hook ingress priority 0; devices = { uplink, nomad{} }; }
        chain forward {
          type filter hook forward priority 400;
          iifname uplink ct state established flow add @established
          oifname uplink ct state established flow add @established
        }
      })",
                                ports)});
  }

  std::unique_ptr<Contender> contender_;
  FlowTable flow_table_;
  std::unique_ptr<test::Node> outside_;
  std::vector<Way> ways_;
};

std::vector<std::unique_ptr<Course>> MakeCourses(const Options& options) {
  std::vector<std::unique_ptr<Course>> courses;
  if (options.subject == Options::Subject::kFlowTables) {
    courses.push_back(std::make_unique<Course>(MakeOurs("nomad-bridge", options.binary)));
    courses.push_back(
        std::make_unique<Course>(MakeOurs("flow table", options.binary), FlowTable::kOfBridge));
    courses.push_back(
        std::make_unique<Course>(MakeOurs("with ports", options.binary), FlowTable::kOfPorts));
    return courses;
  }
  courses.push_back(std::make_unique<Course>(MakeOneRule(options.reference)));
  courses.push_back(std::make_unique<Course>(MakeOurs("nomad-bridge", options.binary)));
  if (options.with_reference) {
    courses.push_back(std::make_unique<Course>(MakeReference(options.reference)));
  }
  return courses;
}

class Table {
 public:
  Table(const std::vector<std::unique_ptr<Course>>& courses, int alive)
      : courses_(courses), alive_(alive), rows_{{Cat("us, ", alive, " alive")}} {
    for (const std::unique_ptr<Course>& course : courses) {
      rows_.front().push_back(course->name());
    }
    for (std::size_t i = 1; i < courses.size(); ++i) {
      rows_.front().push_back(Cat(courses.front()->name(), " : ", courses[i]->name()));
    }
  }

  // In turns, so that what else the machine does is shared.
  void AddRow(const PathLoad& load, std::size_t way, int rounds, nlohmann::ordered_json& figures) {
    std::vector<Samples> times(courses_.size());
    for (int round = 0; round < rounds; ++round) {
      for (std::size_t i = 0; i < courses_.size(); ++i) {
        times[i].Add(Measure(load, *courses_[i], way));
      }
    }
    const char* const way_name = courses_.front()->ways()[way].name;
    Row row{Format("{}, {}", load.name, way_name)};
    for (std::size_t i = 0; i < courses_.size(); ++i) {
      const double median = times[i].Median();
      row.push_back(Number(median));
      figures.push_back({{"alive", alive_},
                         {"contender", courses_[i]->name()},
                         {"load", load.name},
                         {"way", way_name},
                         {"median_us", median}});
    }
    for (std::size_t i = 1; i < courses_.size(); ++i) {
      row.push_back(Cat(Number(times.front().Median() / times[i].Median()), " x"));
    }
    rows_.push_back(std::move(row));
  }

  void Print(std::ostream& out) const { PrintTable(out, rows_); }

 private:
  // Again where a packet was lost: what bridges flood to hundreds of ports can fill the backlog of
  // a processor, which all namespaces share, and nobody sends a datagram twice.
  [[nodiscard]] double Measure(const PathLoad& load, const Course& course, std::size_t way) const {
    constexpr int kTries = 3;
    const Way& taken = course.ways()[way];
    for (int left = kTries;;) {
      try {
        return (taken.line.*load.measure)();
      } catch (const std::exception& error) {
        const std::string what = Format(
            "{}, {}, {}, {} alive: {}", course.name(), load.name, taken.name, alive_, error.what());
        if (--left == 0) {
          throw std::runtime_error(what);
        }
        std::cerr << what << "; measured again\n";
      }
    }
  }

  const std::vector<std::unique_ptr<Course>>& courses_;
  int alive_;
  std::vector<Row> rows_;
};

}  // namespace

nlohmann::ordered_json MeasureDataPath(const Options& options, std::ostream& out) {
  constexpr int kRounds = 7;
  const int rounds = options.rounds == 0 ? kRounds : options.rounds;
  const std::vector<std::unique_ptr<Course>> courses = MakeCourses(options);
  nlohmann::ordered_json figures = nlohmann::ordered_json::array();
  for (const int alive : options.alive) {
    std::cerr << alive << " attachments ...\n";
    for (const std::unique_ptr<Course>& course : courses) {
      course->GrowTo(alive);
    }
    AwaitQuiet();
    Table table(courses, alive);
    for (const PathLoad& load : kPathLoads) {
      for (std::size_t way = 0; way < courses.front()->ways().size(); ++way) {
        table.AddRow(load, way, rounds, figures);
      }
    }
    table.Print(out);
  }
  return {{"machine", Machine()}, {"data_path", std::move(figures)}};
}

}  // namespace nomad_bridge::bench
