// nomad-bridge policy check, policy test: files alone, without root's rights or a node.
#include "tests/plugin/policy_world.h"
#include "tests/support/mounted.h"

namespace nomad_bridge::test {
namespace {

const std::string kExamples = ProjectPath("examples/policy");

class PolicyFilesCommand : public CliWorld {
 protected:
  Outcome Ask(const std::string& from,
              const std::string& to,
              const std::string& port = "tcp/8080") {
    return Run({"policy", "test", "-dir", kExamples, "-from", from, "-to", to, "-port", port});
  }
};

TEST_F(PolicyFilesCommand, FindsTheExamplesValid) {
  EXPECT_THAT(RunLine(Cat("policy check ", kExamples)),
              Exits(0,
                    Out(Cat(kExamples, ": ok, 4 policies, 1 of them in audit\n")),
                    Err(HasSubstr("/apply.nomad.hcl: left out"))));
}

// The script of the job that keeps the files of every node the same, as Nomad renders it.
TEST_F(PolicyFilesCommand, ExampleJobChecksBeforeItInstalls) {
  const std::string job = ReadFixture("../examples/policy/apply.nomad.hcl");
  EXPECT_EQ(std::ranges::count(job, '{'), std::ranges::count(job, '}'));
  const std::size_t begin = job.find("#!/bin/sh");
  const std::string script = job.substr(begin, job.find("        EOT", begin) - begin);
  for (const std::string directory : {"/run/up", "/run/work", "/run/task", "/run/task/policy.d"}) {
    EnsureDirectory(directory);
  }
  const Mounted etc(
      {"-t", "overlay", "-olowerdir=/etc,upperdir=/run/up,workdir=/run/work", "overlay"}, "/etc");
  ASSERT_THAT(RunLine("install /run/shared"), Exits(0));
  const auto run = [&](const std::string& policies) {
    ReplaceFile("/run/task/policy.d/cluster.json", policies);
    return Execute({.argv = {"sh", "-c", script},
                    .variables = {{"NOMAD_TASK_DIR", "/run/task"},
                                  {"PATH", "/run/shared:/usr/sbin:/usr/bin:/sbin:/bin"}}});
  };
  EXPECT_THAT(run(R"({"version": 1, "policies": []})"), Exits(0, Err(HasSubstr("in force"))));
  const auto installed = FindFile("/etc/nomad-bridge/policy.d/cluster.json");
  EXPECT_TRUE(installed);
  EXPECT_THAT(run("{"), Exits(1, Err(HasSubstr("cluster.json:1:"))));
  EXPECT_EQ(FindFile("/etc/nomad-bridge/policy.d/cluster.json"), installed);
}

TEST_F(PolicyFilesCommand, NamesThePlaceOfAMistake) {
  fs::create_directory("/run/policy.d");
  std::ofstream("/run/policy.d/a.json") << "{\"version\": 1,\n \"polices\": []}";
  EXPECT_THAT(RunLine("policy check /run/policy.d"),
              Exits(1,
                    Out(""),
                    Err(HasSubstr("/run/policy.d/a.json:2:2: unknown key 'polices'; did you mean "
                                  "'policies'?: allowed: "))));
  EXPECT_THAT(RunLine("policy test -dir /run/policy.d -from node -to ns=a -port icmp"),
              Exits(2, Out(""), Err(HasSubstr("a.json:2:2"))));
  EXPECT_THAT(RunLine("policy check /run/policy.d/a.json"),
              Exits(2, Out(""), Err(HasSubstr("no directory"))));
}

// Case counts, as it does for Nomad.
TEST_F(PolicyFilesCommand, DistinguishesNamespacesByLetterCase) {
  fs::create_directory("/run/policy.d");
  std::ofstream("/run/policy.d/a.json")
      << R"({"version": 1, "policies": [{"name": "a", "to": {"namespace": "Prod"}, "allow": []}]})";
  const std::string line = "policy test -dir /run/policy.d -from outside -port tcp/80 -to ns=";
  EXPECT_THAT(RunLine(Cat(line, "Prod")), Exits(1, Out("refused by a at the target, Prod\n")));
  EXPECT_THAT(RunLine(Cat(line, "prod")), Exits(0));
}

TEST_F(PolicyFilesCommand, SaysWhichRuleDecides) {
  const std::string api = "ns=prod,job=api";
  EXPECT_THAT(Ask("ns=prod,job=lb", api),
              Exits(0, Out("allowed by api#0 at the target, prod/api\n")));
  EXPECT_THAT(Ask("10.20.0.1", api), Exits(1, Out("refused by api at the target, prod/api\n")));
  EXPECT_THAT(Ask("outside", api), Exits(1, Out(StartsWith("refused by api at the target"))));
  EXPECT_THAT(Ask("node", api), Exits(0, Out("allowed: no policy refuses it\n")));
  EXPECT_THAT(Ask("ns=batch,job=etl", "ns=batch,job=db", "tcp/443"),
              Exits(1, Out("refused by batch at the source, batch/etl\n")));
  EXPECT_THAT(Ask("ns=prod,job=etl", "169.254.169.254", "tcp/80"),
              Exits(1, Out("refused by metadata#deny0 at the source, prod/etl\n")));
  EXPECT_THAT(Ask("ns=batch,job=etl", "node", "udp/53"),
              Exits(0, Out("allowed by batch#0 at the source, batch/etl\n")));
  EXPECT_THAT(Ask("ns=dev,job=etl", "ns=prod,job=db"),
              Exits(0,
                    Out("allowed: no policy refuses it; in audit, would be refused by namespaces "
                        "at the target, prod/db\n")));
}

TEST_F(PolicyFilesCommand, AnswersInJson) {
  const Outcome refused = RunLine(Format(
      "policy test -json -dir {} -from outside -to ns=prod,job=api -port tcp/80", kExamples));
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_EQ(At(refused.json, "/target/by"), "api");
  ExpectValid(refused.out, "policy-test.json");
}

TEST_F(PolicyFilesCommand, RefusesInvalidEnds) {
  EXPECT_THAT(Ask("prod", "node"), Exits(2, Out(""), Err(HasSubstr("allowed: ns=NAMESPACE"))));
  EXPECT_THAT(Ask("job=lb", "node"), Exits(2, Out(""), Err(HasSubstr("lacks ns="))));
  EXPECT_THAT(Ask("ns=a", "node", "tcp"), Exits(2, Out(""), Err(HasSubstr("tcp/8080"))));
  EXPECT_THAT(Ask("10.0.0.1", "fd00::1"),
              Exits(2, Out(""), Err(HasSubstr("no address family in common"))));
  EXPECT_THAT(RunLine("policy test -from node -to ns=a"),
              Exits(2, Out(""), Err(HasSubstr("needs -port"))));
}

TEST_F(PolicyFilesCommand, WarnsOfWhatMatchesNoAllocation) {
  Attach(Config(), As("5f3c1a2b", container(), NomadArgs("billing", "5f3c1a2b")));
  Attach(Config(), As("podman", AddContainer("podman")));
  fs::create_directory("/run/policy.d");
  std::ofstream("/run/policy.d/a.json")
      << R"({"version": 1, "policies": [{"name": "a", "to": {"namespace": "*", "job": "biling"},
             "allow": []}, {"name": "b", "to": {"namespace": "*", "job": "bill*"}, "allow": []},
             {"name": "c", "to": {"namespace": "*", "job": "bling*"}, "allow": []},
             {"name": "d", "to": {"namespace": "x"}, "allow": []},
             {"name": "e", "to": {"namespace": "zz-*"}, "allow": []}]})";
  EXPECT_THAT(
      RunLine("policy check /run/policy.d"),
      Exits(0,
            _,
            Err(AllOf(
                HasSubstr(
                    "policy 'a': 'namespace=* job=biling' matches no allocation on this node; did "
                    "you mean 'namespace=* job=billing'?"),
                Not(HasSubstr("policy 'b'")),
                HasSubstr("'namespace=* job=bling*' matches no allocation on this node; did you "
                          "mean 'namespace=* job=billing'?"),
                HasSubstr("'namespace=x' matches no allocation on this node\n"),
                HasSubstr("'namespace=zz-*' matches no allocation on this node\n")))));
}

}  // namespace
}  // namespace nomad_bridge::test
