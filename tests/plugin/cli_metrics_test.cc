// nomad-bridge metrics: what Prometheus reads.
#include "tests/plugin/metrics_world.h"
#include "tests/support/mounted.h"
#include "tests/support/soon.h"

namespace nomad_bridge::test {
namespace {

TEST_F(Metrics, CountInTheAllocationsDirection) {
  const std::string veth = HostVethOf(AttachBilling());
  container().Must({"ping", "-c", "3", "-i", "0.2", "-s", "1000", "-W", "3", kBridgeIp4});
  const std::map<std::string, std::uint64_t> traffic = TrafficOf(veth);
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
  AttachDead("other", DualStack());
  const std::map<std::string, std::uint64_t> samples = Samples();
  EXPECT_EQ(samples.at(R"(nomad_bridge_addresses{network="nomad",state="used"})"), 2U);
  EXPECT_EQ(samples.at(R"(nomad_bridge_addresses{network="nomad",state="free"})"), 4091U);
  EXPECT_EQ(samples.at(R"(nomad_bridge_bridge_ports{network="nomad",state="free"})"), 1022U);
  EXPECT_EQ(samples.at(R"(nomad_bridge_attachments{network="nomad",state="ok"})"), 1U);
  EXPECT_EQ(samples.at(R"(nomad_bridge_attachments{network="nomad",state="dead"})"), 1U);
  EXPECT_EQ(samples.at(R"(nomad_bridge_faults{check="dead",verdict="warn"})"), 1U);
}

TEST_F(Metrics, HaveNomadsLabelsAndTheDevice) {
  const std::string veth = HostVethOf(AttachBilling());
  const std::string labels =
      Cat(R"({namespace="default",job="billing",task_group="api",alloc_id=")",
          kAllocation,
          "\",device=\"",
          veth,
          "\"}");
  EXPECT_THAT(Labels(), ElementsAre(labels));
  EXPECT_THAT(Execute(LineWithoutRoot({"metrics"})),
              Exits(0,
                    Out(HasSubstr(Cat("nomad_bridge_network_receive_bytes_total", labels))),
                    Err(HasSubstr("without root, addresses, ports and states are unknown"))));
}

TEST_F(Metrics, HaveASeriesForAsLongAsTheLinkIsThere) {
  AttachBilling();
  const std::string second = "7b1e0c44-0000-4000-8000-000000000002";
  const Variables variables = As(second, AddContainer("second"), NomadArgs("billing", second));
  Attach(DualStack(), variables);
  EXPECT_EQ(Labels().size(), 2U) << "of one group";
  DetachBilling();
  EXPECT_THAT(Labels(), ElementsAre(HasSubstr(second)));
  Detach(DualStack(), variables);
  EXPECT_THAT(Labels(), IsEmpty());
}

// Nomad makes these jobs from a periodic or parameterized one: each runs once, under its own name.
TEST_F(Metrics, NameTheParentOfAPeriodicOrDispatchedJob) {
  int number = 0;
  for (const char* const job :
       {"batch/dispatch-1700000001-8f2a7c1d", "batch/periodic-1700000000"}) {
    const std::string id = Cat("5f3c1a2b-", ++number);
    Attach(DualStack(), As(id, AddContainer(Cat("run-", number)), NomadArgs(job, id)));
    EXPECT_THAT(
        Labels(),
        Contains(AllOf(HasSubstr(R"(job="batch")"), HasSubstr(Cat("job_id=\"", job, '"')))));
  }
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

  EXPECT_THAT(RunLine("metrics -output /run/absent/x.prom"),
              Exits(1, Err(HasSubstr("/run/absent"))));
  EXPECT_EQ(RunLine("metrics -output").exit_code, 2);
}

// Where Debian's node_exporter looks, where others do, and where the operator says.
TEST_F(Metrics, FindTheDirectoryOfTextfiles) {
  const Mounted lib({"-t", "tmpfs", "tmpfs"}, "/var/lib");
  EXPECT_EQ(Output("metrics -textfile"), "") << "there is none";
  for (const char* const usual : {"/var/lib/node_exporter",
                                  "/var/lib/node_exporter/textfile_collector",
                                  "/var/lib/prometheus/node-exporter"}) {
    fs::create_directories(usual);
    const std::string file = Cat(usual, "/nomad-bridge.prom");
    EXPECT_EQ(Output("metrics -textfile"), Cat(file, '\n'));
    EXPECT_THAT(FindFile(file).value_or(""), HasSubstr("nomad_bridge_build_info{"));
    EXPECT_EQ(fs::status(file).permissions(), fs::perms(0644));
  }

  const NodeConfig node(R"({"metricsDirectory": "/run/textfiles"})");
  EXPECT_THAT(RunLine("metrics -textfile"), Exits(1, Err(HasSubstr("/run/textfiles"))));
  fs::create_directories("/run/textfiles");
  EXPECT_EQ(Output("metrics -textfile"), "/run/textfiles/nomad-bridge.prom\n");
  EXPECT_THAT(Entries("/run/textfiles"), ElementsAre("nomad-bridge.prom"));
}

TEST_F(Metrics, HaveNoRelativeDirectory) {
  const NodeConfig node(R"({"metricsDirectory": "textfiles"})");
  EXPECT_THAT(RunLine("doctor config"), Exits(0, Out(HasSubstr("an absolute path"))));
}

// Only Nomad's user may read them on some nodes.
TEST_F(Metrics, ContinueWithoutRootIfNomadsConfigIsUnreadable) {
  AttachBilling();
  fs::create_directories("/run/etc/nomad.d");
  fs::permissions("/run/etc/nomad.d", fs::perms(0700));
  const Command command = LineWithoutRoot({"metrics"});
  const Mounted etc({"-t", "overlay", "-olowerdir=/run/etc:/etc", "overlay"}, "/etc");
  EXPECT_THAT(
      Execute(command),
      Exits(0, Out(HasSubstr(R"(nomad_bridge_faults{check="plugins.missing",verdict="warn"} 1)"))));
}

TEST_F(Metrics, PassPromtool) {
  AttachBilling(Publish({Port(8080, 80)}, DualStack()));
  const std::string weird = R"(IgnoreUnknown=1;NOMAD_JOB_ID=a"b\c;NOMAD_GROUP_NAME={x="y"})";
  Attach(DualStack(), As("weird", AddContainer("weird"), weird));
  const std::string text = Output("metrics");
  const Outcome outcome = host().Run({"promtool", "check", "metrics"}, text);
  EXPECT_EQ(outcome.exit_code, 0) << outcome << text;
  EXPECT_EQ(Cat(outcome.out, outcome.err), "");
}

TEST_F(Metrics, AreReadByNodeExporter) {
  AttachBilling();
  fs::create_directory("/run/textfile");
  ASSERT_EQ(Output("metrics -output /run/textfile/nomad-bridge.prom"), "");
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
      // node_exporter leaves out empty braces.
      EXPECT_THAT(page, AnyOf(HasSubstr(Cat("\n", name, '{')), HasSubstr(Cat("\n", name, ' '))));
    }
  }
}

}  // namespace
}  // namespace nomad_bridge::test
