// nomad-bridge metrics: what Prometheus reads, and that its counters never fall.
#include <algorithm>
#include <filesystem>
#include <fstream>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "tests/plugin/cli_world.h"
#include "tests/support/soon.h"

namespace nomad_bridge::test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kAllocation = "5f3c1a2b-0000-4000-8000-000000000001";
constexpr const char* kGroup = R"({namespace="default",job="billing",task_group="api"})";

// Locked as long as it lives.
class LockedFile {
 public:
  explicit LockedFile(const std::string& path) : fd_(::open(path.c_str(), O_RDWR | O_CLOEXEC)) {
    EXPECT_EQ(::flock(fd_.get(), LOCK_EX), 0) << path;
    struct stat status {};
    EXPECT_EQ(::fstat(fd_.get(), &status), 0);
    inode_ = status.st_ino;
  }
  // Whether another process waits for it, according to proc(5).
  [[nodiscard]] bool IsAwaited() const {
    const std::vector<std::string> locks = Lines(FindFile("/proc/locks").value_or(""));
    return std::ranges::any_of(locks, [&](const std::string& line) {
      return line.find("-> FLOCK") != std::string::npos &&
             line.find(Cat(':', inode_, ' ')) != std::string::npos;
    });
  }

 private:
  UniqueFd fd_;
  std::uint64_t inode_ = 0;
};

class Metrics : public CliWorld {
 protected:
  [[nodiscard]] Variables Billing() {
    return As(kAllocation, container(), NomadArgs("billing", kAllocation));
  }
  json AttachBilling(const json& config = DualStack()) { return Attach(config, Billing()); }
  void DetachBilling(const json& config = DualStack()) { Detach(config, Billing()); }
  // Of the only group.
  [[nodiscard]] static std::string TrafficFile() {
    const std::string directory = "/run/nomad-bridge/.traffic";
    return Cat(directory, '/', Entries(directory).at(0));
  }
  // By name and labels.
  [[nodiscard]] std::map<std::string, std::uint64_t> Samples(const std::string& flags = "") {
    std::map<std::string, std::uint64_t> samples;
    for (const std::string& line : Lines(Output(Cat("metrics ", flags)))) {
      if (!line.starts_with("#")) {
        const std::size_t space = line.rfind(' ');
        samples[line.substr(0, space)] = std::stoull(line.substr(space + 1));
      }
    }
    return samples;
  }
  // What the group received and sent.
  [[nodiscard]] std::map<std::string, std::uint64_t> Traffic() {
    std::map<std::string, std::uint64_t> counters;
    for (const auto& [name, value] : Samples()) {
      if (name.ends_with(kGroup)) {
        counters[name.substr(0, name.find('{'))] = value;
      }
    }
    return counters;
  }
  // Every counter is as large as before; and again, `after` becomes `before`.
  void ExpectNoFall(std::map<std::string, std::uint64_t>& before, const std::string& when) {
    const std::map<std::string, std::uint64_t> after = Traffic();
    for (const auto& [name, value] : before) {
      ASSERT_TRUE(after.contains(name)) << name << ' ' << when;
      EXPECT_GE(after.at(name), value) << name << ' ' << when;
    }
    before = after;
  }
  void MakeTraffic() { ASSERT_TRUE(Ping(container(), kBridgeIp4)); }
};

TEST_F(Metrics, AreOfTheAllocationsDirection) {
  const std::string veth = HostVethOf(AttachBilling());
  container().Must({"ping", "-c", "3", "-i", "0.2", "-s", "1000", "-W", "3", kBridgeIp4});
  const std::map<std::string, std::uint64_t> traffic = Traffic();
  const json stats = host().Json({"ip", "-s", "-j", "link", "show", veth}).at(0).at("stats64");

  EXPECT_GE(traffic.at("nomad_bridge_network_transmit_bytes_total"), 3000U);
  EXPECT_LE(traffic.at("nomad_bridge_network_transmit_bytes_total"), stats.at("rx").at("bytes"));
  EXPECT_GE(traffic.at("nomad_bridge_network_receive_packets_total"), 3U);
  EXPECT_LE(traffic.at("nomad_bridge_network_receive_packets_total"), stats.at("tx").at("packets"));
  EXPECT_TRUE(traffic.contains("nomad_bridge_network_receive_dropped_total"));
  EXPECT_TRUE(traffic.contains("nomad_bridge_network_transmit_dropped_total"));
}

TEST_F(Metrics, CountAddressesPortsAndStates) {
  AttachBilling();
  Node& other = AddContainer("other");
  Attach(DualStack(), As("other", other));
  KillContainer(other);
  const std::map<std::string, std::uint64_t> samples = Samples();
  EXPECT_EQ(samples.at(R"(nomad_bridge_addresses{network="nomad",state="used"})"), 2U);
  EXPECT_EQ(samples.at(R"(nomad_bridge_addresses{network="nomad",state="free"})"), 4091U);
  EXPECT_EQ(samples.at(R"(nomad_bridge_bridge_ports{network="nomad",state="free"})"), 1022U);
  EXPECT_EQ(samples.at(R"(nomad_bridge_attachments{network="nomad",state="ok"})"), 1U);
  EXPECT_EQ(samples.at(R"(nomad_bridge_attachments{network="nomad",state="dead"})"), 1U);
  EXPECT_EQ(samples.at(R"(nomad_bridge_faults{check="dead"})"), 1U);
}

TEST_F(Metrics, NameAllocationsOnlyIfAsked) {
  const std::string veth = HostVethOf(AttachBilling());
  const std::string info = Cat("nomad_bridge_allocation_info{device=\"",
                               veth,
                               R"(",namespace="default",job="billing",task_group="api",alloc_id=")",
                               kAllocation,
                               "\"}");
  EXPECT_EQ(Samples("-per-allocation").at(info), 1U);
  EXPECT_FALSE(Samples().contains(info));
}

TEST_F(Metrics, NeverFall) {
  AttachBilling();
  MakeTraffic();
  auto before = Traffic();
  EXPECT_GT(before.at("nomad_bridge_network_receive_bytes_total"), 0U);

  DetachBilling();
  ExpectNoFall(before, "after DEL");
  AttachBilling();
  MakeTraffic();
  ExpectNoFall(before, "after another ADD");
  AttachBilling();
  ExpectNoFall(before, "after an ADD that replaced the pair");
  MakeTraffic();
  ExpectNoFall(before, "after traffic");
  fs::remove(RecordOf(kAllocation));
  DetachBilling();
  ExpectNoFall(before, "after a DEL without a record");
  AttachBilling();
  MakeTraffic();
  ExpectNoFall(before, "after another ADD");
  MustRun("GC", WithValid({}, DualStack()), kNoContainer);
  ExpectNoFall(before, "after GC");
  AttachBilling();
  MakeTraffic();
  ExpectNoFall(before, "after another ADD");
  KillContainer(container());
  ExpectNoFall(before, "after its namespace took the link along");
}

// What was counted is added exactly once.
TEST_F(Metrics, KeepWhatADeletedInterfaceCounted) {
  AttachBilling();
  container().Must({"ping", "-c", "5", "-i", "0.2", "-s", "1400", "-W", "3", kBridgeIp4});
  const std::uint64_t before = Traffic().at("nomad_bridge_network_transmit_bytes_total");
  DetachBilling();
  const std::uint64_t after = Traffic().at("nomad_bridge_network_transmit_bytes_total");
  EXPECT_GE(after, before);
  EXPECT_LT(after, before + 3000) << "neighbour discovery, but not the pings again";
  EXPECT_EQ(Traffic().at("nomad_bridge_network_transmit_bytes_total"), after);
}

// `metrics` forgets a group's file, and its lock with it, just when a DEL has opened that.
TEST_F(Metrics, KeepWhatADelCountedThatWaitedForAForgottenFile) {
  AttachBilling();
  MakeTraffic();
  const std::uint64_t before = Traffic().at("nomad_bridge_network_transmit_bytes_total");
  std::optional<LockedFile> file(std::in_place, TrafficFile());
  Process del = StartPlugin("DEL", DualStack(), Billing());
  ASSERT_TRUE(Soon([&] { return file->IsAwaited(); }));
  fs::remove(TrafficFile());
  file.reset();

  EXPECT_EQ(del.Wait().exit_code, 0);
  EXPECT_GE(Traffic().at("nomad_bridge_network_transmit_bytes_total"), before);
}

TEST_F(Metrics, DoNotForgetAGroupThatADelIsCounting) {
  AttachBilling();
  MakeTraffic();
  auto before = Traffic();
  DetachBilling();
  fs::last_write_time(TrafficFile(), fs::file_time_type::clock::now() - std::chrono::hours(25));
  std::optional<LockedFile> file(std::in_place, TrafficFile());
  Process metrics = Process::Start(Line({"metrics"}));
  ASSERT_TRUE(Soon([&] { return file->IsAwaited(); }));
  fs::last_write_time(TrafficFile(), fs::file_time_type::clock::now());
  file.reset();

  EXPECT_EQ(metrics.Wait().exit_code, 0);
  ExpectNoFall(before, "after a day, and another DEL");
}

TEST_F(Metrics, KeepADelWorkingIfNothingCanBeWrittenDown) {
  AttachBilling();
  MakeTraffic();
  std::ofstream("/run/nomad-bridge/.traffic") << "in the way";
  const Outcome outcome = MustRun("DEL", DualStack(), Billing());
  EXPECT_THAT(outcome.err, HasSubstr("the metrics will lack the traffic of this interface"));
  EXPECT_FALSE(HasRecord(kAllocation));
}

TEST_F(Metrics, AreWrittenByRenameAndReadableByAll) {
  AttachBilling();
  fs::create_directory("/run/textfile");
  ASSERT_EQ(Output("metrics -output /run/textfile/nomad-bridge.prom"), "");
  EXPECT_EQ(fs::status("/run/textfile/nomad-bridge.prom").permissions(), fs::perms(0644));
  EXPECT_THAT(FindFile("/run/textfile/nomad-bridge.prom").value(), StartsWith("# HELP "));
  std::ofstream("/run/textfile/nomad-bridge.prom.new") << "of one that was killed";
  ASSERT_EQ(Output("metrics --output=/run/textfile/nomad-bridge.prom"), "");
  EXPECT_THAT(Entries("/run/textfile"), ElementsAre("nomad-bridge.prom"));

  const Outcome outcome = RunLine("metrics -output /run/absent/x.prom");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("/run/absent"));
  EXPECT_EQ(RunLine("metrics -output").exit_code, 2);
}

TEST_F(Metrics, LetListSaySinceWhenAnAttachmentIsDead) {
  AttachBilling();
  KillContainer(container());
  EXPECT_THAT(Output("list"), HasSubstr(" dead\n")) << "nobody knows";
  static_cast<void>(Samples());
  EXPECT_THAT(Output("list"), ::testing::ContainsRegex(" dead [0-9]+s\n"));
  const std::string mark =
      Cat("/run/nomad-bridge/.dead/", Entries("/run/nomad-bridge/.dead").at(0));
  fs::last_write_time(mark, fs::file_time_type::clock::now() - std::chrono::minutes(3));
  static_cast<void>(Samples());
  EXPECT_THAT(Output("list"), HasSubstr(" dead 3m\n"));
  DetachBilling();
  static_cast<void>(Samples());
  EXPECT_THAT(Entries("/run/nomad-bridge/.dead"), IsEmpty());
}

TEST_F(Metrics, WithoutRootSayWhatIsMissing) {
  AttachBilling();
  const Command command = LineWithoutRoot({"metrics"});
  const Outcome outcome = Execute(command);
  EXPECT_EQ(outcome.exit_code, 0) << outcome;
  EXPECT_THAT(outcome.err, HasSubstr("without root the traffic of interfaces that were deleted"));
  EXPECT_THAT(outcome.out, HasSubstr(Cat("nomad_bridge_network_receive_bytes_total", kGroup)));
}

TEST_F(Metrics, AreCleanForPromtool) {
  AttachBilling(Publish({Port(8080, 80)}, DualStack()));
  const std::string weird = R"(IgnoreUnknown=1;NOMAD_JOB_ID=a"b\c;NOMAD_GROUP_NAME={x="y"})";
  Attach(DualStack(), As("weird", AddContainer("weird"), weird));
  const std::string text = Output("metrics -per-allocation");
  const Outcome outcome = host().Run({"promtool", "check", "metrics"}, text);
  EXPECT_EQ(outcome.exit_code, 0) << outcome << text;
  EXPECT_EQ(Cat(outcome.out, outcome.err), "");
}

TEST_F(Metrics, AreReadByNodeExporter) {
  AttachBilling();
  fs::create_directory("/run/textfile");
  ASSERT_EQ(Output("metrics -per-allocation -output /run/textfile/nomad-bridge.prom"), "");
  host().Must({"ip", "link", "set", "lo", "up"});
  Process exporter = Process::Start(Command{.argv = {"prometheus-node-exporter",
                                                     "--collector.disable-defaults",
                                                     "--collector.textfile",
                                                     "--collector.textfile.directory=/run/textfile",
                                                     "--web.listen-address=127.0.0.1:9100"}});
  std::string page;
  ASSERT_TRUE(Soon([&] {
    page = host()
               .Run({"python3",
                     "-c",
                     "import urllib.request as u; print(u.urlopen('http://127.0.0.1:9100/metrics')"
                     ".read().decode())"})
               .out;
    return page.find("nomad_bridge") != page.npos;
  })) << page;
  EXPECT_THAT(page, HasSubstr("node_textfile_scrape_error 0"));
  EXPECT_THAT(page,
              HasSubstr(R"(node_textfile_mtime_seconds{file="/run/textfile/nomad-bridge.prom"})"));
  for (const std::string& line : Lines(Output("metrics"))) {
    const std::string name = line.substr(0, line.find('{'));
    if (!line.starts_with("#")) {
      EXPECT_THAT(page, HasSubstr(Cat("\n", name, '{')));
    }
  }
}

}  // namespace
}  // namespace nomad_bridge::test
