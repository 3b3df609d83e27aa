// Where the traffic goes, in the world of each contender:
//
//      outside                      host                     containers
//      198.51.100.2 ── uplink ── 198.51.100.1 ── bridge ──┬── server, a port of it published
//                                                         └── client, its neighbour
#include "tests/bench/data_path.h"

#include <array>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "base/text.h"
#include "tests/bench/contender.h"
#include "tests/bench/path_traffic.h"
#include "tests/bench/report.h"

namespace nomad_bridge::bench {
namespace {

constexpr const char* kOutside = "198.51.100.2";
constexpr const char* kNode = "198.51.100.1";
constexpr std::uint16_t kServerPort = 80;

struct NamedLoad {
  Load load;
  const char* name;
};
constexpr std::array<NamedLoad, 4> kLoads = {
    NamedLoad{.load = Load::kRoundTrips, .name = "round trips"},
    NamedLoad{.load = Load::kConnections, .name = "connections"},
    NamedLoad{.load = Load::kDatagrams, .name = "64-byte datagrams"},
    NamedLoad{.load = Load::kStream, .name = "bits"}};

struct Way {
  const char* name;
  std::string client;  // the path of its network namespace
  std::string address;
  std::uint16_t port = kServerPort;
};

// A contender with servers and ways to them.
class Course {
 public:
  explicit Course(std::unique_ptr<Contender> contender) : contender_(std::move(contender)) {
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

  // Two of the attachments are those that traffic goes through.
  void GrowTo(int alive) {
    contender_->GrowTo(alive);
    if (servers_.empty()) {
      const test::Attached server = contender_->Attach();
      const test::Attached client = contender_->Attach();
      for (const std::string& netns : {outside_->path(), server.netns}) {
        servers_.push_back(std::make_unique<PathServer>(netns, kServerPort));
      }
      ways_ = {
          {.name = "out", .client = client.netns, .address = kOutside},
          {.name = "published",
           .client = outside_->path(),
           .address = kNode,
           .port = server.port_mappings.at(0).at("HostPort").get<std::uint16_t>()},
          {.name = "neighbour", .client = client.netns, .address = test::AddressOf(server.result)}};
    }
  }

  [[nodiscard]] const std::string& name() const { return contender_->name(); }
  [[nodiscard]] const std::vector<Way>& ways() const { return ways_; }
  [[nodiscard]] double Run(Load load, const Way& way) const {
    contender_->world().Enter();
    return Measure(load, way.client, way.address, way.port);
  }

 private:
  std::unique_ptr<Contender> contender_;
  std::unique_ptr<test::Node> outside_;
  std::vector<std::unique_ptr<PathServer>> servers_;
  std::vector<Way> ways_;
};

std::vector<std::unique_ptr<Course>> MakeCourses(const Options& options) {
  std::vector<std::unique_ptr<Course>> courses;
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
      : courses_(courses), alive_(alive), rows_{{Cat("per second, ", alive, " alive")}} {
    for (const std::unique_ptr<Course>& course : courses) {
      rows_.front().push_back(course->name());
    }
    for (std::size_t i = 1; i < courses.size(); ++i) {
      rows_.front().push_back(Cat(courses[i]->name(), " : ", courses.front()->name()));
    }
  }

  // In turns, so that what else the machine does is shared.
  void AddRow(const NamedLoad& load, std::size_t way, int rounds, nlohmann::ordered_json& figures) {
    std::vector<Samples> rates(courses_.size());
    for (int round = 0; round < rounds; ++round) {
      for (std::size_t i = 0; i < courses_.size(); ++i) {
        rates[i].Add(courses_[i]->Run(load.load, courses_[i]->ways()[way]));
      }
    }
    const char* const way_name = courses_.front()->ways()[way].name;
    Row row{Format("{}, {}", load.name, way_name)};
    for (std::size_t i = 0; i < courses_.size(); ++i) {
      const double median = rates[i].Median();
      row.push_back(Number(median));
      figures.push_back({{"alive", alive_},
                         {"contender", courses_[i]->name()},
                         {"load", load.name},
                         {"way", way_name},
                         {"median", median}});
    }
    for (std::size_t i = 1; i < courses_.size(); ++i) {
      row.push_back(Cat(Number(rates[i].Median() / rates.front().Median()), " x"));
    }
    rows_.push_back(std::move(row));
  }

  void Print(std::ostream& out) const {
    out << '\n';
    PrintTable(out, rows_);
  }

 private:
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
    Table table(courses, alive);
    for (const NamedLoad& load : kLoads) {
      for (std::size_t way = 0; way < courses.front()->ways().size(); ++way) {
        table.AddRow(load, way, rounds, figures);
      }
    }
    table.Print(out);
  }
  return figures;
}

}  // namespace nomad_bridge::bench
