// What docs/metrics.md and examples/ give to people who watch nodes, with the real Prometheus: the
// rule against the collision of the label `job`, the alerts, the expressions of the dashboard.
#include "tests/plugin/monitoring_world.h"
#include "tests/support/soon.h"

namespace nomad_bridge::test {
namespace {

constexpr const char* kServer = "http://127.0.0.1:9090";

std::string Replaced(std::string text, const std::string& word, const std::string& by) {
  for (std::size_t at = text.find(word); at != text.npos; at = text.find(word, at + by.size())) {
    text.replace(at, word.size(), by);
  }
  return text;
}

TEST_F(Monitoring, NamesAgreeWithTheDocument) {
  AttachBilling();
  ApplyAPolicy();
  std::set<std::string> documented;
  for (const std::string& name : AllIn(ReadFixture("../docs/metrics.md"), "\n\\| `([^`]+)`")) {
    // "a_{b,c}_d" as a shell expands it.
    const std::vector<std::string> all = Words(Must({.argv = {"bash", "-c", Cat("echo ", name)}}));
    documented.insert(all.begin(), all.end());
  }
  EXPECT_EQ(Names(), documented);
}

TEST_F(Monitoring, AlertsFireOnFaultsOnly) {
  EXPECT_THAT(
      host().Run({"promtool", "test", "rules", ProjectPath("tests/plugin/alerts_test.yml")}),
      Exits(0));
  AttachBilling();
  ApplyAPolicy();
  const std::string alerts = ReadFixture("../examples/prometheus/alerts.yml");
  const std::string by_job = ReadFixture("../examples/prometheus/by-job.yml");
  const std::string tried = ReadFixture("../tests/plugin/alerts_test.yml");
  for (const std::string& alert : AllIn(alerts, "alert: (\\w+)")) {
    EXPECT_THAT(tried, HasSubstr(Cat("alertname: ", alert, "\n"))) << "fires in no test";
  }
  for (const std::string& rule : AllIn(by_job, "record: (\\S+)")) {
    EXPECT_THAT(tried, HasSubstr(Cat("expr: ", rule, "\n"))) << "is tried in no test";
  }
  const std::set<std::string> names = Names();
  // Behind a colon they are parts of recording rules' names.
  for (const std::string& name : AllIn(Cat(alerts, by_job, tried), "[^:](nomad_bridge_\\w+)")) {
    EXPECT_THAT(names, Contains(name));
  }
}

// The real server, which scrapes a real node_exporter each second.
class PrometheusServer : public Monitoring {
 protected:
  void StartWatching() {
    host().Must({"ip", "link", "set", "lo", "up"});
    fs::create_directory("/run/textfile");
    WriteMetrics();
    exporter_.emplace(Process::Start({.argv = {"prometheus-node-exporter",
                                               "--collector.disable-defaults",
                                               "--collector.textfile",
                                               "--collector.textfile.directory=/run/textfile",
                                               "--web.listen-address=127.0.0.1:9100"}}));
    std::ofstream("/run/prometheus.yml") << ScrapeConfig();
    server_.emplace(Process::Start({.argv = {"prometheus",
                                             "--config.file=/run/prometheus.yml",
                                             "--storage.tsdb.path=/run/prometheus",
                                             "--web.listen-address=127.0.0.1:9090"}}));
  }
  // The samples of an expression, which must be one.
  [[nodiscard]] json Query(const std::string& expression) {
    const Outcome outcome =
        host().Run({"promtool", "query", "instant", "-o", "json", kServer, expression});
    EXPECT_THAT(outcome.err, Not(HasSubstr("parse error"))) << expression;
    return outcome.exit_code == 0 && outcome.json.is_array() ? outcome.json : json::array();
  }
  [[nodiscard]] bool HasSamples(const std::string& expression) {
    return Soon([&] { return !Query(expression).empty(); });
  }

 private:
  // The one of docs/metrics.md, and the same target as it is, and with honor_labels.
  [[nodiscard]] static std::string ScrapeConfig() {
    const std::string document = ReadFixture("../docs/metrics.md");
    const std::size_t begin = document.find("scrape_configs:");
    const std::string target = "    static_configs: [{targets: [\"127.0.0.1:9100\"]}]\n";
    return Cat("global: {scrape_interval: 1s}\n",
               document.substr(begin, document.find("```", begin) - begin),
               "  - job_name: plain\n",
               target,
               "  - job_name: honored\n    honor_labels: true\n",
               target);
  }

  std::optional<Process> exporter_;
  std::optional<Process> server_;
};

TEST_F(PrometheusServer, HasTheJobUnderTheDocumentedLabelNames) {
  AttachBilling();
  StartWatching();
  const std::map<std::string, std::string> labels = {
      {"nomad_job", R"({job="node",nomad_job="billing",exported_job=""})"},
      {"exported_job", R"({job="plain",exported_job="billing"})"},
      {"job", R"({job="billing",exported_job=""})"}};
  for (const auto& [name, selector] : labels) {
    EXPECT_TRUE(HasSamples(Cat("nomad_bridge_network_receive_bytes_total", selector))) << name;
  }
  // What is not ours keeps its labels.
  EXPECT_TRUE(HasSamples(R"(node_textfile_mtime_seconds{job="node",nomad_job=""})"));
  const std::string document = ReadFixture("../docs/metrics.md");
  const std::size_t begin = document.find("sum by (namespace, nomad_job)");
  ASSERT_NE(begin, std::string::npos);
  EXPECT_TRUE(HasSamples(document.substr(begin, document.find("\n```", begin) - begin)));
}

TEST_F(PrometheusServer, HasSomethingForEachPanelOfTheDashboard) {
  AttachBilling();
  AttachDead("other", DualStack());
  ApplyAPolicy();
  StartWatching();
  const json dashboard = json::parse(ReadFixture("../examples/grafana/nomad-bridge.json"));
  const std::set<std::string> names = Names();
  std::set<int> ids;
  std::set<std::string> unused = names;
  for (const json& panel : dashboard.at("panels")) {
    EXPECT_TRUE(ids.insert(panel.at("id").get<int>()).second) << panel.at("title");
    for (const json& target : panel.at("targets")) {
      std::string expression = target.at("expr");
      for (const auto& [variable, value] :
           std::map<std::string, std::string>{{"$instance", ".*"},
                                              {"$job_label", "exported_job"},
                                              {"$__rate_interval", "1m"},
                                              {"$__range", "1h"}}) {
        expression = Replaced(expression, variable, value);
      }
      EXPECT_THAT(expression, Not(HasSubstr("$"))) << "a variable that the dashboard lacks";
      EXPECT_TRUE(HasSamples(expression)) << panel.at("title") << ": " << expression;
      if (target.value("legendFormat", "").find("{{instance}}") != std::string::npos) {
        EXPECT_THAT(expression, StartsWith("topk(")) << "a line for each node";
      }
      for (const std::string& name : AllIn(expression, "(nomad_bridge_\\w+)")) {
        EXPECT_THAT(names, Contains(name));
        unused.erase(name);
      }
    }
  }
  EXPECT_THAT(unused, IsEmpty()) << "shown by no panel";
}

}  // namespace
}  // namespace nomad_bridge::test
