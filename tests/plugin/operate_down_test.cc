// nomad-bridge down: the node as it was before the first allocation, for whatever comes after us.
#include <thread>

#include "tests/plugin/cli_world.h"
#include "tests/support/mounted.h"
#include "tests/support/rules_lock.h"

namespace nomad_bridge::test {
namespace {

class Down : public CliWorld {
 protected:
  [[nodiscard]] static json Web() { return Publish({Port(8080, 80)}, DualStack()); }
  [[nodiscard]] static json Lan() {
    return Config({{"name", "lan"}, {"bridge", "lan"}, {"ipam", {{"subnet", "10.8.0.0/24"}}}});
  }
};

TEST_F(Down, LeavesNothingOfOursInTheKernel) {
  host().Must(Words("ip link add lan up type bridge"));
  Attach(Publish({Port(9090, 80)}, Lan()), {{"CNI_IFNAME", "eth1"}});
  Attach(Web());
  ASSERT_THAT(host().Must(Words("tc filter show dev lan ingress")), HasSubstr("bpf"));
  Detach(Web());
  Detach(Lan(), {{"CNI_IFNAME", "eth1"}});

  EXPECT_THAT(Output("down"),
              AllOf(HasSubstr("table inet nomad-bridge: removed\n"),
                    HasSubstr("table bridge nomad-bridge: removed\n"),
                    HasSubstr("bridge nomad: removed\n")));

  EXPECT_THAT(host().Must(Words("nft list ruleset")), Not(HasSubstr("nomad-bridge")));
  EXPECT_NE(host().Run(Words("ip link show nomad")).exit_code, 0);
  EXPECT_EQ(host().Run(Words("ip link show lan")).exit_code, 0);
  EXPECT_THAT(host().Must(Words("tc filter show dev lan ingress")), Not(HasSubstr("bpf")));
  EXPECT_EQ(Output("down"), "nothing to remove\n");
}

TEST_F(Down, IsRefusedWhereThereIsAnAttachment) {
  Attach(Web());
  const Snapshot before = TakeSnapshot();
  EXPECT_THAT(RunLine("down"), Exits(1, Err(HasSubstr("this node still has 1 attachment: "))));
  EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
}

// It decides under the rules' lock, which an ADD takes after its record is written.
TEST_F(Down, IsRefusedWhereAnAddHasBegunMeanwhile) {
  Attach(Web());
  json record = ReadRecord("alloc-1");
  for (json& phase : record.at("parts")) {
    phase = "making";
  }
  Detach(Web());
  UniqueFd rules = TryRulesLock();
  ASSERT_TRUE(rules);
  Process down = Process::Start(Line({"down"}));
  // Time for `down` to look for attachments too early, before it has the lock. It shows nowhere.
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  fs::create_directories(fs::path(RecordOf("alloc-1")).parent_path());
  WriteRecord("alloc-1", record);
  rules = UniqueFd();

  EXPECT_THAT(down.Wait(), Exits(1, Err(HasSubstr("this node still has 1 attachment: "))));
  EXPECT_THAT(ListTable(), HasSubstr("chain forward"));
}

TEST_F(Down, SaysInADryRunWhatItWouldRemove) {
  Attach(Web());
  Detach(Web());
  const Snapshot before = TakeSnapshot();
  EXPECT_THAT(Output("down -n"),
              AllOf(HasSubstr("table inet nomad-bridge: would be removed\n"),
                    HasSubstr("bridge nomad: would be removed\n")));
  EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
}

TEST_F(Down, RemovesOneNetworkAndLeavesTheOthers) {
  fs::create_directories("/run/lists");
  for (const json& config : {Web(), Lan()}) {
    std::ofstream(Cat("/run/lists/", config.at("name").get<std::string>(), ".conflist"))
        << json{{"cniVersion", "1.1.0"}, {"name", config.at("name")}, {"plugins", {config}}};
  }
  fs::create_directories("/run/etc/nomad.d");
  std::ofstream("/run/etc/nomad.d/client.hcl") << R"(client { cni_config_dir = "/run/lists" })";
  const Mounted etc({"--bind", "/run/etc"}, "/etc");
  Attach(Web());
  Attach(Lan(), {{"CNI_IFNAME", "eth1"}});
  EXPECT_THAT(RunLine("down lan"),
              Exits(1, Err(HasSubstr("network 'lan' still has 1 attachment: "))));
  EXPECT_THAT(RunLine("down lna"), Exits(1, Err(HasSubstr("no network config names"))));
  Detach(Lan(), {{"CNI_IFNAME", "eth1"}});

  EXPECT_EQ(Output("down -n lan"), "bridge lan: would be removed\n");
  EXPECT_EQ(Output("down lan"), "bridge lan: removed\n");

  EXPECT_NE(host().Run(Words("ip link show lan")).exit_code, 0);
  EXPECT_EQ(host().Run(Words("ip link show nomad")).exit_code, 0);
  EXPECT_EQ(Output("reconcile -dry-run"), "1 attachment; nothing to repair\n");
  std::ofstream("/run/lists/broken.conflist") << "{";
  EXPECT_THAT(RunLine("down lan"),
              Exits(0, Out("nothing to remove\n"), Err(HasSubstr("ignoring the file"))));
  // up reads the same configs.
  EXPECT_THAT(RunLine("up"),
              Exits(1,
                    AllOf(Out(HasSubstr("network 'lan' is up: lan")),
                          Err(HasSubstr("cannot bring up what '/run/lists/broken.conflist'")))));
}

// The bridges have other names than their networks.
TEST_F(Down, RemovesANetworkWhoseConfigIsGone) {
  json lan = Lan();
  lan["bridge"] = "br-lan";
  const json six =
      Config({{"name", "six"}, {"bridge", "br-six"}, {"ipam", {{"subnet", "fd00:6::/64"}}}});
  Attach(Web());
  Attach(lan, {{"CNI_IFNAME", "eth1"}});
  std::ofstream("/run/six.conflist")
      << json{{"cniVersion", "1.1.0"}, {"name", "six"}, {"plugins", {six}}};
  ASSERT_THAT(RunLine("up /run/six.conflist"), Exits(0));
  fs::remove("/run/six.conflist");
  EXPECT_THAT(RunLine("down lan"),
              Exits(1, Err(HasSubstr("network 'lan' still has 1 attachment: "))));
  Detach(lan, {{"CNI_IFNAME", "eth1"}});

  EXPECT_EQ(Output("down -n lan"), "bridge br-lan: would be removed\n");
  EXPECT_EQ(Output("down lan"), "bridge br-lan: removed\n");
  EXPECT_EQ(Output("down six"), "bridge br-six: removed\n");

  for (const char* const gone : {"br-lan", "br-six"}) {
    EXPECT_NE(host().Run({"ip", "link", "show", gone}).exit_code, 0) << gone;
  }
  EXPECT_EQ(host().Run(Words("ip link show nomad")).exit_code, 0);
  EXPECT_EQ(Output("down lan"), "nothing to remove\n");
  EXPECT_THAT(RunLine("down lna"), Exits(1, Err(HasSubstr("no network config names"))));
}

// docs/moving.md, "From the reference plugins, and back", to the letter.
TEST_F(Down, IsTheWayBackToTheReferencePlugins) {
  Node& doomed = AddContainer("doomed");
  Attach(Web(), As("doomed", doomed));
  KillContainer(doomed);  // its DEL was the reference plugins'

  EXPECT_THAT(RunLine("gc"), Exits(0));
  EXPECT_THAT(RunLine("down"), Exits(0));

  const json bridge = {{"type", "bridge"},
                       {"bridge", "nomad"},
                       {"isGateway", true},
                       {"ipMasq", true},
                       {"ipam",
                        {{"type", "host-local"},
                         {"subnet", "172.26.64.0/20"},
                         {"routes", {{{"dst", "0.0.0.0/0"}}}},
                         {"dataDir", "/var/run/cni"}}}};
  const Network theirs{.list = ListOf({bridge, {{"type", "firewall"}}, PortmapEntry()}, "nomad"),
                       .path = kReferenceDirectory};
  MustAdd(theirs, WithPorts("next", container(), {Port(8080, 80)}));
  Serve(container(), Protocol::kTcp, {"0.0.0.0"}, 80, "next");
  EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "next");
  EXPECT_TRUE(Ping(container(), kOutsideIp4));
}

// docs/moving.md, "Removing it", to the letter.
TEST_F(Down, WorksInTheDocumentedRemoval) {
  const Mounted lib({"-t", "tmpfs", "tmpfs"}, "/var/lib");
  fs::create_directories("/var/lib/node_exporter");
  ReplaceFile("/var/lib/node_exporter/nomad-bridge.prom", "");
  const std::string plugins = "/run/opt/cni/bin";
  ASSERT_THAT(RunLine(Cat("install ", plugins)), Exits(0));
  Attach(Web());
  Detach(Web());
  std::string document = ReadFixture("../docs/moving.md");
  document.erase(0, document.find("The rest:\n"));
  const std::size_t begin = document.find("```sh\n") + 6;
  std::string commands = document.substr(begin, document.find("```", begin) - begin);
  commands.insert(commands.find("/opt/cni/bin"), "/run");

  EXPECT_THAT(host().Run({"sh", "-euc", Cat("PATH=", plugins, ":$PATH\n", commands)}), Exits(0));

  EXPECT_THAT(Entries(plugins), IsEmpty());
  EXPECT_THAT(Entries("/var/lib/node_exporter"), IsEmpty());
  EXPECT_FALSE(fs::exists("/run/nomad-bridge"));
  EXPECT_FALSE(fs::exists("/var/run/cni/nomad"));
  const std::string left = host().Must(Words("nft list ruleset"));
  for (const char* const word : {"nomad", "NOMAD", "CNI"}) {
    EXPECT_THAT(left, Not(HasSubstr(word)));
  }
  EXPECT_NE(host().Run(Words("ip link show nomad")).exit_code, 0);
}

}  // namespace
}  // namespace nomad_bridge::test
