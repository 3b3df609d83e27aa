// nomad-bridge list: what the records say, joined with what the kernel has.
#include <unistd.h>

#include "tests/plugin/cli_world.h"
#include "tests/support/refusal.h"

namespace nomad_bridge::test {
namespace {

constexpr const char* kSearch = "9d01c7e4-0000-4000-8000-000000000002";

class List : public CliWorld {
 protected:
  // billing/api with port 8080 on TCP and UDP, and search/api without.
  void AttachTwo() {
    Attach(Publish({Port(8080, 80), Port(8080, 80, "udp")}, DualStack()),
           As(kAllocation, container(), NomadArgs("billing", kAllocation)));
    other_ = &AddContainer("other");
    Attach(DualStack(), As(kSearch, *other_, NomadArgs("search", kSearch)));
  }
  [[nodiscard]] json ListJson(const std::string& filters = "") {
    return json::parse(Output(Cat("list -json ", filters)));
  }
  // By allocation.
  [[nodiscard]] std::map<std::string, std::string> States() {
    std::map<std::string, std::string> states;
    const json list = RunLine("list -json").json;
    for (const json& each : list.at("attachments")) {
      states[each.at("allocation")] = each.at("state");
    }
    return states;
  }

  Node* other_ = nullptr;
};

TEST_F(List, IsEmptyOnANodeWithoutAttachments) {
  EXPECT_THAT(RunLine("list"),
              Exits(0,
                    Out("ALLOC  NS  JOB  GROUP  ADDRESS  PORTS  NET  AGE  STATE\n"),
                    Err("0 attachments\n")));
  EXPECT_EQ(ListJson(),
            json::parse(R"({"version": 1, "attachments": [], "networks": [], "complete": true})"));
}

TEST_F(List, ShowsJobAddressPortsAndState) {
  AttachTwo();
  json record = ReadRecord(kAllocation);
  record["created"] = record.at("created").get<std::int64_t>() - 7200;
  WriteRecord(kAllocation, record);
  record = ReadRecord(kSearch);
  record["created"] = 0;
  WriteRecord(kSearch, record);
  EXPECT_THAT(
      RunLine("list"),
      Exits(0,
            Out("ALLOC     NS       JOB      GROUP  ADDRESS      PORTS             NET    AGE  "
                "STATE\n"
                "5f3c1a2b  default  billing  api    172.26.64.2  8080->80/tcp,udp  nomad  2h   "
                "ok\n"
                "9d01c7e4  default  search   api    172.26.64.3  -                 nomad  -    "
                "ok\n"),
            Err("2 attachments; 4091 of 4093 addresses and 1021 of 1023 bridge ports free\n")));
  EXPECT_EQ(Output("list -q"), Cat(kAllocation, '\n', kSearch, '\n'));
}

TEST_F(List, PrintsJsonThatAgreesWithTheKernelAndOtherTools) {
  AttachTwo();
  ASSERT_TRUE(Ping(container(), kBridgeIp4));
  const json first = ListJson("alloc=5f3c1a2b").at("attachments").at(0);

  EXPECT_EQ(first.at("addresses"), (json{"172.26.64.2/20", "fd00:26::2/64"}));
  EXPECT_EQ(first.at("containerId"), kAllocation);
  EXPECT_EQ(first.at("bridge"), "nomad");
  EXPECT_THAT(first.at("ports"),
              Contains(json{{"protocol", "udp"},
                            {"hostIp", nullptr},
                            {"hostPort", 8080},
                            {"containerIp", "fd00:26::2"},
                            {"containerPort", 80}}));
  const json link = host().Json({"ip", "-s", "-j", "link", "show", first.at("hostVeth")}).at(0);
  EXPECT_EQ(link.at("master"), "nomad");
  EXPECT_GT(first.at("sent").at("packets"), 0) << "the allocation's direction";
  EXPECT_LE(first.at("sent").at("bytes"), link.at("stats64").at("rx").at("bytes"));
  EXPECT_LE(first.at("received").at("bytes"), link.at("stats64").at("tx").at("bytes"));
}

TEST_F(List, CountsFreeAddressesAndBridgePorts) {
  const json small = Config(R"({"ipam": {"ranges": [[{"subnet": "10.9.0.0/29"}],
                                                    [{"subnet": "fd00:9::/64"}]]}})");
  Attach(small);
  const json network = ListJson().at("networks").at(0);
  EXPECT_EQ(network.at("name"), "nomad");
  EXPECT_EQ(network.at("addresses"), (json{{"used", 1}, {"free", 4}, {"total", 5}}))
      << "of the family that ends first";
  EXPECT_EQ(network.at("bridgePorts"), (json{{"used", 1}, {"free", 1022}, {"total", 1023}}));
}

TEST_F(List, ReportsMoreThanAMillionAddressesForIpv6) {
  Attach(Config(R"({"ipam": {"ranges": [[{"subnet": "fd00:9::/64"}]]}})"));
  EXPECT_THAT(
      RunLine("list"),
      Err("1 attachment; more than a million addresses and 1022 of 1023 bridge ports free\n"));
}

TEST_F(List, HasALineForEachOfSeveralNetworks) {
  Attach(DualStack());
  Attach(kOther, {{"CNI_IFNAME", "eth1"}});
  EXPECT_THAT(RunLine("list"),
              Err("2 attachments\n"
                  "nomad: 4092 of 4093 addresses and 1022 of 1023 bridge ports free\n"
                  "other: 252 of 253 addresses and 1022 of 1023 bridge ports free\n"));
}

TEST_F(List, LeavesOutTheAddressesOfAnotherIpamPlugin) {
  const json config =
      Config({{"cniVersion", "1.0.0"},
              {"ipam", {{"type", "static"}, {"addresses", {{{"address", "10.7.0.9/24"}}}}}}});
  Attach(config, {{"CNI_PATH", "/usr/lib/cni"}});
  EXPECT_THAT(RunLine("list"), Err("1 attachment; 1022 of 1023 bridge ports free\n"));
  EXPECT_EQ(ListJson().at("networks").at(0).at("addresses"), nullptr);
  host().Must(Words("ip link delete nomad"));
  EXPECT_THAT(RunLine("list"), Err("1 attachment\n"));
}

TEST_F(List, IsFilteredByGlobs) {
  AttachTwo();
  const std::string veth = ListJson("job=billing").at("attachments").at(0).at("hostVeth");
  const std::string filters =
      "job=bill*; billing; alloc=5f3c*; port=8080; addr=172.26.64.2; addr=172.26.64.2/32; "
      "addr=fd00:26::2/128; addr=fd00:26::2; job=billing job=nothing; billing job=nothing; "
      "ns=default,job=bill*; job=nothing,job=billing; "
      "ns=def* group=a?i net=nomad state=ok port=*; veth=";
  for (const std::string& filter : SplitFields(Cat(filters, veth), ";")) {
    const json found = ListJson(filter).at("attachments");
    ASSERT_EQ(found.size(), 1U) << filter;
    EXPECT_EQ(found.at(0).at("allocation"), kAllocation) << filter;
  }
  EXPECT_EQ(ListJson("addr=172.26.64.0/24").at("attachments").size(), 2U);
  EXPECT_EQ(ListJson("job=billing job=search").at("attachments").size(), 2U);
}

TEST_F(List, TakesTheNamesOfOtherCommands) {
  AttachTwo();
  const std::string veth = ListJson("job=billing").at("attachments").at(0).at("hostVeth");
  for (const std::string& name :
       Words(Cat("8080 172.26.64.2 fd00:26:0::2 billing/api bill 5f3c ", veth))) {
    EXPECT_EQ(Output(Cat("list -q ", name)), Cat(kAllocation, '\n')) << name;
  }
  EXPECT_EQ(ListJson("api").at("attachments").size(), 2U) << "their group";
  EXPECT_EQ(ListJson("search 8080").at("attachments").size(), 2U);
  Attach(Config(), As("third", AddContainer("api"), NomadArgs("api", "third")));
  EXPECT_EQ(Output("list -q api"), "third\n") << "a job comes first";
  EXPECT_THAT(Execute(LineWithoutRoot({"list", "8080"})), Exits(2, Out("")));
}

TEST_F(List, FindsTheJobsThatNomadCreatedFromAPeriodicJob) {
  Attach(Config(), As("child", container(), NomadArgs("batch/periodic-1700000000", "child")));
  Attach(Config(), As("other", AddContainer("other"), NomadArgs("batch2", "other")));
  EXPECT_EQ(Output("list -q batch"), "child\n");
}

TEST_F(List, ExitsOneIfAFilterMatchesNothing) {
  AttachTwo();
  EXPECT_THAT(RunLine("list job=billing state=dead"),
              Exits(1, Out(EndsWith("STATE\n")), Err("0 attachments\n")));
  EXPECT_EQ(RunLine("list -json job=none").json.at("attachments"), json::array());
}

TEST_F(List, RefusesAnUnknownFilter) {
  for (const char* const word : {"jobs=api", "=x"}) {
    EXPECT_THAT(
        Run({"list", word}),
        Exits(2, Err(StartsWith(Cat("nomad-bridge: there is no filter '", word, "'; allowed: ")))));
  }
}

TEST_F(List, TellsStatesApart) {
  AttachTwo();
  EXPECT_EQ(States()[kAllocation], "ok");
  const std::string veth = ListJson("job=billing").at("attachments").at(0).at("hostVeth");
  host().Must({"ip", "link", "set", veth, "nomaster"});
  EXPECT_EQ(States()[kAllocation], "unplugged");
  host().Must({"ip", "link", "set", veth, "master", "nomad"});
  EXPECT_EQ(States()[kAllocation], "ok");

  KillContainer(*other_);
  EXPECT_EQ(States()[kSearch], "dead");
  EXPECT_EQ(States()[kAllocation], "ok");

  const std::string record = RecordOf(kAllocation);
  const std::string text = FindFile(record).value();
  json changed = json::parse(text);
  for (const char* const phase : {"making", "leaving"}) {
    for (json& part : changed.at("parts")) {
      part = phase;
    }
    std::ofstream(record) << changed;
    EXPECT_EQ(States()[kAllocation], phase);
  }
  fs::remove(record);
  EXPECT_EQ(States()[kAllocation], "unrecorded");
}

TEST_F(List, MarksAttachmentsWhoseRulesAreMissing) {
  AttachTwo();
  const Snapshot before = TakeHostSnapshot();
  for (const char* const damage : {"flush ruleset",
                                   "flush table inet nomad-bridge",
                                   "flush chain inet nomad-bridge forward",
                                   "delete table bridge nomad-bridge"}) {
    host().Must(Words(Cat("nft ", damage)));
    EXPECT_EQ(States(),
              (std::map<std::string, std::string>{{kAllocation, "rules-wrong"},
                                                  {kSearch, "rules-wrong"}}))
        << damage;
    EXPECT_EQ(ListJson("state=rules-*").at("attachments").size(), 2U);
    EXPECT_EQ(RunLine("reconcile").exit_code, 0);
    EXPECT_EQ(States()[kAllocation], "ok");
  }
  EXPECT_TRUE(Unchanged(before, TakeHostSnapshot()));
}

TEST_F(List, MarksAttachmentsWhoseElementsAreMissing) {
  AttachTwo();
  host().Must(Words("nft flush map inet nomad-bridge port4"));
  EXPECT_EQ(States(),
            (std::map<std::string, std::string>{{kAllocation, "rules-wrong"}, {kSearch, "ok"}}));
}

TEST_F(List, ShowsRecordsAndLinksWhereNoRuleCanBeRead) {
  AttachTwo();
  const Command list = Line({"list", "job=billing"});
  for (const auto& [command, why] :
       {std::pair{WithoutNfTables(list), "seccomp"},
        std::pair{WithoutNetAdmin(list), "CAP_NET_ADMIN is missing"}}) {
    EXPECT_THAT(
        Execute(command),
        Exits(0,
              Out(AllOf(HasSubstr("172.26.64.2  8080->80/tcp,udp"), EndsWith("  rules-unknown\n"))),
              Err(AllOf(StartsWith("nomad-bridge: the rules cannot be read: "),
                        HasSubstr("nf_tables"),
                        HasSubstr(why)))));
  }
}

TEST_F(List, NamesADamagedRecordAndShowsTheOthers) {
  AttachTwo();
  std::ofstream(RecordOf(kSearch)) << "{half";

  EXPECT_THAT(
      RunLine("list"),
      Exits(0,
            Err(AllOf(
                StartsWith(Cat("nomad-bridge: cannot read the record '", RecordOf(kSearch), "': ")),
                HasSubstr("\n2 attachments;"))),
            Out(HasSubstr("5f3c1a2b  default  billing  api    172.26.64.2")),
            Out(HasSubstr("9d01c7e4  default  search   api    ?")),
            Out(EndsWith("unreadable\n"))))
      << "by its alias";
}

TEST_F(List, LeavesOutRecordsOfAnotherHost) {
  AttachTwo();
  json record = ReadRecord(kSearch);
  record["origin"]["netns"] = {{"device", 4}, {"inode", 4}};
  WriteRecord(kSearch, record);
  host().Must({"ip", "link", "delete", record.at("host_veth")});
  EXPECT_EQ(ListJson().at("attachments").size(), 1U);
}

TEST_F(List, IsWatchedUntilAKeyIsPressed) {
  AttachTwo();
  const std::string binary = Line({}).argv.front();
  EXPECT_THAT(
      host().Must({"script", "-qec", Cat(binary, " list -watch"), "/dev/null"}, "x"),
      AllOf(HasSubstr("\x1b[H\x1b[JALLOC "), HasSubstr("\n9d01c7e4 "), HasSubstr("any key ends")));
  EXPECT_THAT(Execute(Line({"list", "-watch"})),
              Exits(2, Out(""), Err("nomad-bridge: -watch needs a terminal\n")));
}

TEST_F(List, RefusesFilterValuesThatCannotMatch) {
  for (const auto& [filter, allowed] :
       {std::pair{"addr=nonsense", "an address, a subnet, or a glob of addresses"},
        std::pair{"addr=10.0.0.0/99", "an address, a subnet, or a glob of addresses"},
        std::pair{"port=http", "a number, or a glob of numbers"},
        std::pair{"state=foo",
                  "ok unplugged making leaving dead unrecorded unreadable rules-wrong "
                  "rules-unknown reference ?, or a "
                  "glob"}}) {
    EXPECT_THAT(
        RunLine(Cat("list ", filter)),
        Exits(2,
              Err(Cat("nomad-bridge: invalid filter '", filter, "'; allowed: ", allowed, "\n"))));
  }
}

TEST_F(List, ExitsTwoWithoutRootForFiltersThatNeedIt) {
  AttachTwo();
  for (const char* const filter : {"port=8080", "addr=172.26.64.2", "state=ok"}) {
    EXPECT_THAT(Execute(LineWithoutRoot({"list", filter})), Exits(2, Out(""))) << filter;
  }
  EXPECT_EQ(Execute(LineWithoutRoot({"list", "job=billing"})).exit_code, 0);
}

TEST_F(List, ShowsWhatTheAliasesHoldWithoutRoot) {
  AttachTwo();
  const Command command = LineWithoutRoot({"list"});

  EXPECT_THAT(Execute(command),
              Exits(0,
                    Err("nomad-bridge: without root, addresses, ports and states are unknown\n"
                        "2 attachments; ? addresses and 1021 of 1023 bridge ports free\n"),
                    Out("ALLOC     NS       JOB      GROUP  ADDRESS  PORTS  NET    AGE  STATE\n"
                        "5f3c1a2b  default  billing  api    ?        ?      nomad  -    ?\n"
                        "9d01c7e4  default  search   api    ?        ?      nomad  -    ?\n")));
}

TEST_F(List, WideHasWholeIdsLinksAndTraffic) {
  AttachTwo();
  const std::vector<std::string> lines = Lines(RunLine("list -wide job=billing").out);
  EXPECT_EQ(Words(lines.at(0)),
            Words("ALLOC NS JOB GROUP ADDRESS PORTS NET INTERFACE VETH BRIDGE IN OUT "
                  "AGE STATE"));
  EXPECT_THAT(lines.at(1), HasSubstr(kAllocation));
  EXPECT_THAT(lines.at(1), HasSubstr("172.26.64.2 fd00:26::2"));
}

TEST_F(List, ShowsAnAllocationOnceAfterItsHostVethWasRenamed) {
  AttachTwo();
  const std::string veth = At(ListJson("job=billing"), "/attachments/0/hostVeth");
  host().Must(Words(Cat("ip link set ", veth, " down")));  // Linux 6.1 renames no link that is up
  host().Must(Words(Cat("ip link set ", veth, " name web0")));
  host().Must(Words("ip link set web0 up"));

  const json attachments = ListJson().at("attachments");
  ASSERT_EQ(attachments.size(), 2U);
  EXPECT_EQ(At(attachments, "/0/state"), "ok");
  EXPECT_EQ(At(attachments, "/0/hostVeth"), "web0");
  for (const std::string& name : {veth, std::string("web0")}) {
    EXPECT_THAT(RunLine(Cat("inspect ", name)), Out(HasSubstr(kAllocation))) << name;
  }
}

TEST_F(List, CutsOtherLabelsBeforeTheJobOnANarrowTerminal) {
  const std::string job = "a-job-with-a-name-of-forty-characters-...";
  Attach(Publish({Port(8080, 80), Port(8080, 80, "udp"), Port(9090, 90)}, Config()),
         As(kAllocation, container(), NomadArgs(job, kAllocation)));
  EXPECT_EQ(OnTerminal(120, "list").at(1).substr(0, 61), Cat("5f3c1a2b  default  ", job, " "));
  EXPECT_THAT(OnTerminal(100, "list").at(1),
              StartsWith("5f3c1a2b  defa…  a-job-with-a-name-of-forty-character…  api    "
                         "172.26.64.2  8080…  nomad  "));
  EXPECT_THAT(OnTerminal(80, "list").at(1), StartsWith("5f3c1a2b  defa…  a-job-with-a-nam…  "));
  for (const int columns : {80, 100}) {
    ExpectColumns(columns, "list");
  }
  EXPECT_THAT(OnTerminal(80, "list", "TERM=xterm").at(1), EndsWith("\x1b[32mok\x1b[0m"));
  EXPECT_THAT(OnTerminal(80, "list", "TERM=dumb").at(1), EndsWith("  ok"));
  EXPECT_THAT(OnTerminal(80, "list -wide", "NOMAD_CLI_NO_COLOR=1").at(1),
              AllOf(Not(HasSubstr("\x1b")), HasSubstr(job), HasSubstr("9090->90/tcp")));
}

}  // namespace
}  // namespace nomad_bridge::test
