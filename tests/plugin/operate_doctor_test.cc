// nomad-bridge doctor: what it prints and how it exits, and that it finds nothing where all is
// well.
#include "tests/plugin/doctor_world.h"
#include "tests/support/refusal.h"

namespace nomad_bridge::test {
namespace {

TEST_F(Doctor, FindsNothingOnAHealthyNode) {
  const Snapshot before = TakeHostSnapshot();
  EXPECT_THAT(
      Examine("-strict -verbose"),
      Exits(0,
            Out(StartsWith("ok    kernel.nf_tables      ")),
            Out(EndsWith("\n0 failures, 0 warnings, 39 ok; ports and name servers were not probed "
                         "(-probe)\n")),
            Out(AllOf(Not(HasSubstr("fix:")), Not(HasSubstr(" \n"))))));
  EXPECT_EQ(Examine("-probe").out,
            "0 failures, 0 warnings, 41 ok; ports and name servers were probed\n");
  EXPECT_TRUE(Unchanged(before, TakeHostSnapshot()));
}

TEST_F(Doctor, FindsNothingOnABareMachine) {
  Detach(kOther, {{"CNI_IFNAME", "eth1"}});
  Detach(Config());
  host().Shell(
      "nft flush ruleset; ip link delete nomad; ip link delete br-other; "
      "rm -r /run/nomad-bridge");
  EXPECT_THAT(Examine().out, HasSubstr("0 failures, 0 warnings, "));
}

TEST_F(Doctor, PrintsAFindingInOneLineWithItsFix) {
  host().Must({"sysctl", "-qw", "net.ipv4.ip_forward=0"});
  EXPECT_THAT(
      Examine(),
      Exits(1,
            Out(HasSubstr("FAIL  sysctl.ip_forward     net/ipv4/ip_forward is 0")),
            Out(HasSubstr("\n      fix: nomad-bridge reconcile\n")),
            Out(HasSubstr("\n1 failure, 0 warnings, 38 ok; ports and name servers were not"))));
}

// Of two networks, and of a published port whose bridge has no gateway address.
TEST_F(Doctor, SaysASettingOfTheNodeOnce) {
  host().Must(Words("ip link add br-lan type bridge"));
  Attach(Publish({Port(9090, 90)},
                 Config({{"name", "lan"},
                         {"bridge", "br-lan"},
                         {"isGateway", false},
                         {"ipam", {{"subnet", "10.9.0.0/24"}}}})),
         As("lan", AddContainer("lan")));
  host().Must({"sysctl", "-qw", "net.ipv4.ip_forward=0"});
  const std::vector<json> found = FindingsOf("sysctl.ip_forward");
  ASSERT_EQ(found.size(), 1U) << json(found);
  EXPECT_THAT(found.at(0).at("all").get<std::vector<std::string>>(),
              ElementsAre("net/ipv4/ip_forward is 0: packets for containers are not forwarded"));
}

// With the job and the group of each, and the list in JSON.
TEST_F(Doctor, SaysOneCauseOfSeveralAllocationsOnce) {
  Node& other = AddContainer("other");
  Attach(
      Config({{"name", "third"}, {"bridge", "br-third"}, {"ipam", {{"subnet", "10.11.0.0/24"}}}}),
      As("alloc-2", other, NomadArgs("search", "alloc-2")));
  for (Node* const node : {&container(), &other}) {
    node->Must(Words("ip link set eth0 down"));
  }
  const std::vector<json> found = FindingsOf("containers");
  ASSERT_EQ(found.size(), 1U) << json(found);
  const std::string first = "allocation 'alloc-2' (search/api): interface 'eth0' is down";
  EXPECT_EQ(found.at(0).at("what"), Cat(first, " (and 1 more)"));
  EXPECT_THAT(found.at(0).at("all").get<std::vector<std::string>>(),
              ElementsAre(first,
                          HasSubstr("allocation 'alloc-1' (web/api): interface 'eth0' is down; "
                                    "fix: nsenter")));
}

// Times 100, what is free of 2^60 addresses is few.
TEST_F(Doctor, IsContentWithALargeRange) {
  Attach(Config({{"name", "large"}, {"bridge", "br-large"}, {"ipam", {{"subnet", "fd00:6::/68"}}}}),
         As("large", AddContainer("large")));
  EXPECT_EQ(FindingsOf("leases.exhausted").at(0).at("verdict"), "ok");
}

TEST_F(Doctor, FailsOnWarningsIfStrict) {
  AttachDead("doomed");
  EXPECT_EQ(Examine().exit_code, 0);
  EXPECT_EQ(Examine("-strict").exit_code, 1);
}

// Of links that have learnt nothing from router advertisements none is to begin to believe them.
TEST_F(Doctor, WarnsOfIgnoredAdvertisementsOnlyIfRoutesWereLearnt) {
  host().Shell(
      "ip link add ifb0 type ifb; ip link set ifb0 up; "
      "ip link add vx0 type vxlan id 7 dstport 4789 local 198.51.100.1; ip link set vx0 up; "
      "ip link add card type veth peer name far; ip link set far up; ip link set card up; "
      "ip -6 route delete default; sysctl -qw net.ipv6.conf.all.forwarding=1; "
      "for link in ifb0 vx0 card uplink; do sysctl -qw net.ipv6.conf.$link.accept_ra=1; done");
  EXPECT_EQ(FindingsOf("sysctl.accept_ra").at(0).at("verdict"), "ok");
  host().Must(Words("ip -6 route add default via fe80::1 dev card proto ra"));
  const std::vector<json> found = FindingsOf("sysctl.accept_ra");
  ASSERT_EQ(found.size(), 1U) << json(found);
  EXPECT_EQ(found.at(0).at("fix"), "sysctl -w net/ipv6/conf/card/accept_ra=2");
}

// What it leaves out is no reason for an ADD or the metrics to fail.
TEST_F(Doctor, NamesErrorsInTheListOfIgnoredChecks) {
  Node& more = AddContainer("more");
  for (const auto& [text, what] :
       {std::pair{R"({"ignore": "dead"})", "config.json:1:12: invalid 'ignore': 'dead'"},
        std::pair{"{\n  \"ignore\": [\"dead\"],\n}", "config.json:3:1: no JSON"},
        std::pair{R"({"ignored": ["dead"]})",
                  "config.json:1:2: unknown key 'ignored'; did you mean 'ignore'?"},
        std::pair{R"({"ignore": ["dead", "wrld"]})",
                  "ignores 'wrld', and there is no such check"}}) {
    const NodeConfig config(text);
    const json found = FindingsOf("config").at(0);
    EXPECT_EQ(found.at("verdict"), "warn");
    EXPECT_THAT(found.at("what").get<std::string>(), HasSubstr(what));
    EXPECT_THAT(found.at("advice").get<std::string>(), Not(HasSubstr("required")));
    EXPECT_EQ(RunLine("metrics").exit_code, 0);
    UseOnce(Config(), As("more", more));
  }
}

TEST_F(Doctor, ReadsCommentsInTheNodesConfig) {
  AttachDead("doomed");
  ASSERT_THAT(Examine("-strict").out, HasSubstr("WARN  dead"));
  const NodeConfig config("{\n  // known\n  \"ignore\": [\"dead\"]  /* for now */\n}\n");
  EXPECT_EQ(FindingsOf("config").at(0).at("verdict"), "ok");
  EXPECT_THAT(Examine("-strict").out, Not(HasSubstr("WARN  dead")));
  UseOnce(Config(), As("more", AddContainer("more")));
}

// Policies may be required there.
TEST_F(Doctor, NamesThePlaceInTheNodesConfigThatMakesAddsFail) {
  Node& more = AddContainer("more");
  for (const auto& [text, what] :
       {std::pair{R"({"policy": {"requird": true}})",
                  "config.json:1:13: unknown key 'requird'; did you mean 'required'?"},
        std::pair{R"({"polcy": {"required": true}})",
                  "config.json:1:2: unknown key 'polcy'; did you mean 'policy'?"},
        std::pair{R"({"policy": {"required": 1}})", "config.json:1:25: invalid 'required': 1"},
        std::pair{R"({"policy": {}, "policy": {"required": true}})",
                  "config.json:1:16: 'policy' stands twice"},
        std::pair{"{\"policy\": {\"required\": true}\n  \"ignore\": []}",
                  "config.json:2:10: no JSON"}}) {
    const NodeConfig config(text);
    EXPECT_THAT(RunPlugin("ADD", Config(), As("more", more)),
                Fails(7, MsgAndDetails(AllOf(HasSubstr(what), HasSubstr("correct it there")))));
    const json found = FindingsOf("config").at(0);
    EXPECT_EQ(found.at("verdict"), "fail");
    EXPECT_THAT(found.at("what").get<std::string>(), HasSubstr(what));
    EXPECT_EQ(found.at("advice"), "correct the file there");
    EXPECT_THAT(
        Examine("policy"),
        Exits(0, Out(HasSubstr(std::string(what).substr(std::string(what).find(": ") + 2)))));
  }
}

TEST_F(Doctor, NamesAnObstacleToOurFilesOnce) {
  const Mounted elsewhere({"-t", "tmpfs", "tmpfs"}, "/var/tmp");
  for (const std::string path :
       {"/run/nomad-bridge/.lock", "/run/nomad-bridge/nomad/lost@eth0.json"}) {
    fs::remove(path);
    fs::create_directory(path);
    const std::string move = Format("mv --backup=numbered {} /var/tmp/", path);
    EXPECT_THAT(Examine(),
                Exits(1, Out(AllOf(HasSubstr(move), HasSubstr("\n1 failure, 0 warnings, ")))));
    host().Shell(move);
  }
  EXPECT_THAT(Examine(), Out(HasSubstr("0 failures, 0 warnings, ")));
}

TEST_F(Doctor, NamesThePlaceWhereTheNodesConfigIsNoJson) {
  const NodeConfig config("{\n\"ignore\": [\"dead\",],\n\"policy\": {}}");
  const json found = FindingsOf("config").at(0);
  EXPECT_EQ(found.at("verdict"), "fail");
  EXPECT_THAT(found.at("what").get<std::string>(), HasSubstr("config.json:2:19: no JSON"));
  EXPECT_THAT(Examine(), Out(HasSubstr("\n1 failure, 0 warnings, ")));
  EXPECT_THAT(Examine("policy.in_force"), Out(HasSubstr("not checked: ")));
  // People are told once; an alert on either check has something to go by.
  EXPECT_EQ(FindingsOf("policy.in_force").at(0).at("verdict"), "warn");
  EXPECT_THAT(
      RunLine("metrics"),
      Exits(0,
            Out(AllOf(
                HasSubstr(R"(nomad_bridge_faults{check="config",verdict="fail"} 1)"),
                HasSubstr(R"(nomad_bridge_faults{check="policy.in_force",verdict="warn"} 1)")))));
}

// Seccomp, or a kernel without it.
TEST_F(Doctor, NamesMissingNfTablesOnceAndTheChecksNotTried) {
  const Command doctor = Line({"doctor", "-verbose"}, {{"CNI_PATH", std::nullopt}});
  const std::string not_tried =
      "-     table.intact          not tried, see kernel.nf_tables\n"
      "-     static_rules          not tried, see kernel.nf_tables\n"
      "-     forward.foreign       not tried, see kernel.nf_tables\n"
      "-     firewalld.zone        not tried, see kernel.nf_tables\n"
      "-     ports.orphan          not tried, see kernel.nf_tables\n";
  for (const auto& [command, cause] :
       {std::pair{WithoutNfTables(doctor), "cannot open a socket for nf_tables"},
        std::pair{WithoutNetAdmin(doctor), "(EPERM): CAP_NET_ADMIN is missing"}}) {
    const Outcome outcome = Execute(command);
    EXPECT_THAT(outcome,
                Exits(1,
                      Out(AllOf(StartsWith("FAIL  kernel.nf_tables      cannot "),
                                HasSubstr(not_tried),
                                HasSubstr("ok    bridge.intact\n"),
                                HasSubstr("\n1 failure, 0 warnings, "),
                                Not(HasSubstr("fix: modprobe")))),
                      Err("")));
    const std::size_t first = outcome.out.find(cause);
    EXPECT_NE(first, std::string::npos) << outcome;
    EXPECT_EQ(outcome.out.find(cause, first + 1), std::string::npos) << outcome;
  }
}

TEST_F(Doctor, NamesACheckNotTriedInSeveralNetworksOnce) {
  fs::create_directories("/run/policies");
  std::ofstream("/run/policies/closed.json")
      << R"({"version": 1, "policies": [{"name": "closed", "to": {"namespace": "*"}, "allow": []}]})";
  ASSERT_THAT(RunLine("policy apply /run/policies"), Exits(0));
  fs::resize_file("/run/nomad-bridge/.policy", fs::file_size("/run/nomad-bridge/.policy") / 2);
  const Outcome outcome = Examine("-verbose");
  const std::string line = "-     bridge.intact         not tried, see policy.in_force\n";
  const std::size_t first = outcome.out.find(line);
  ASSERT_NE(first, std::string::npos) << outcome;
  EXPECT_EQ(outcome.out.find(line, first + 1), std::string::npos) << outcome;
}

TEST_F(Doctor, OtherCommandsNameNfTablesWithoutIt) {
  for (const char* const line : {"reconcile", "gc", "up", "down", "policy status"}) {
    EXPECT_THAT(Execute(WithoutNfTables(Line(Words(line)))),
                Exits(1, Out(""), Err(HasSubstr("cannot open a socket for nf_tables: "))))
        << line;
  }
  EXPECT_THAT(Execute(WithoutNfTables(Line(Words("inspect 8080")))),
              Exits(1,
                    Out(AllOf(HasSubstr("\nContainer    no listener on tcp/80      <- why "),
                              HasSubstr("\nUnknown      cannot open a socket for nf_tables: ")))));
  EXPECT_THAT(Execute(WithoutNetAdmin(Line({"reconcile"}))),
              Exits(1, Err(HasSubstr("CAP_NET_ADMIN is missing"))));
  EXPECT_EQ(RunLine("reconcile -dry-run").exit_code, 0) << "nothing was changed";
}

TEST_F(Doctor, ExitsTwoWithoutRoot) {
  EXPECT_EQ(Execute(LineWithoutRoot({"doctor"})).exit_code, 2);
}

// ---- what is not broken by a command on the host, as in fixtures/damages.txt

TEST_F(Doctor, NamesPortsThatThePublicCanReach) {
  Attach(Publish({Port(9090, 90)}), As("open", AddContainer("open")));
  const json found = FindingsOf("ports.world").at(0);
  EXPECT_EQ(found.at("verdict"), "warn");
  EXPECT_THAT(found.at("what").get<std::string>(),
              HasSubstr("tcp 9090 of 'open' answers on the public address 198.51.100.1"));
}

TEST_F(Doctor, DoesNotReportAPortThatTheOperatorsChainCloses) {
  Node& open = AddContainer("open");
  Attach(Publish({Port(9090, 90)}), As("open", open));
  Serve(open, Protocol::kTcp, {"0.0.0.0"}, 90, "page");
  host().Shell(
      "iptables -N SHUT; iptables -A NOMAD-ADMIN -p tcp -j SHUT; iptables -A SHUT -i "
      "uplink -p tcp --dport 90 -j DROP");
  EXPECT_EQ(FindingsOf("ports.blocked").at(0).at("verdict"), "ok");
  EXPECT_THAT(RunLine("inspect 9090"), Out(HasSubstr("chain SHUT of table ip filter")));
}

TEST_F(Doctor, AllowsRoutesThatTakeNothingOfASubnet) {
  for (const char* const route :
       {"0.0.0.0/1", "128.0.0.0/1", "172.16.0.0/12", "172.26.0.0/16", "172.26.64.1/32"}) {
    host().Must({"ip", "route", "add", route, "dev", "uplink"});
  }
  EXPECT_EQ(FindingsOf("bridge.subnet_overlap").at(0).at("verdict"), "ok");
  host().Must(Words("ip route add 172.26.64.0/20 dev uplink metric 9"));
  EXPECT_EQ(FindingsOf("bridge.subnet_overlap").at(0).at("verdict"), "fail");
}

TEST_F(Doctor, NamesAPortThatANodeProcessAlsoUses) {
  Serve(host(), Protocol::kTcp, {"127.0.0.1"}, 8080, "shadowed");
  const json found = FindingsOf("ports.shadowed").at(0);
  EXPECT_EQ(found.at("verdict"), "warn");
  EXPECT_THAT(found.at("what").get<std::string>(),
              AllOf(HasSubstr("8080"), HasSubstr("is also used by the node")));
}

TEST_F(Doctor, CountsStaleAttachments) {
  AttachDead("doomed");
  const json found = FindingsOf("dead").at(0);
  EXPECT_EQ(found.at("what"), "1 attachment holds 1 address");
  EXPECT_EQ(found.at("fix"), "nomad-bridge gc");
}

TEST_F(Doctor, FindsAnExhaustedRange) {
  const json tiny =
      Config({{"name", "tiny"}, {"bridge", "br-tiny"}, {"ipam", {{"subnet", "10.7.0.0/30"}}}});
  Attach(tiny, As("last", AddContainer("last")));
  const json found = FindingsOf("leases.exhausted").at(0);
  EXPECT_EQ(found.at("verdict"), "fail");
  EXPECT_EQ(found.at("what"), "addresses of network 'tiny': 1 of 1 in use");
}

TEST_F(Doctor, FindsAPluginThatIsShadowedByAnother) {
  fs::create_directories("/opt/other");
  fs::copy_file("/bin/true", "/opt/other/nomad-bridge");
  EXPECT_THAT(Run({"doctor", "-json"}, {{"CNI_PATH", "/opt/cni/bin:/opt/other"}}),
              Out(AllOf(HasSubstr("/opt/other/nomad-bridge' differ"), HasSubstr("rm /opt/other"))));
}

TEST_F(Doctor, DoesNotSuggestRemovingAPackagedPlugin) {
  const Mounted libexec({"-t", "tmpfs", "tmpfs"}, "/usr/libexec");
  fs::create_directories("/usr/libexec/cni");
  fs::copy_file("/bin/true", "/usr/libexec/cni/nomad-bridge");
  EXPECT_THAT(Run({"doctor", "plugins.shadowed"}, {{"CNI_PATH", "/opt/cni/bin:/usr/libexec/cni"}}),
              Out(AllOf(HasSubstr("/usr/libexec/cni/nomad-bridge' differ"),
                        HasSubstr("advice: leave one of the two directories"),
                        Not(HasSubstr("rm /usr")))));
}

}  // namespace
}  // namespace nomad_bridge::test
