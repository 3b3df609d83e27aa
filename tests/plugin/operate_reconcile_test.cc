// nomad-bridge reconcile: what is wrong on the host's side of any network is found and repaired,
// without an ADD or a CHECK.
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/plugin/cli_world.h"
#include "tests/support/soon.h"

namespace nomad_bridge::test {
namespace {

class Reconcile : public CliWorld {
 protected:
  // Two networks, so that neither hides the other: "nomad" with a published port in both families,
  // and a second one.
  void AttachAll() {
    web_ = Attach(Publish({Port(8080, 80), Port(8053, 53, "udp")}, DualStack()));
    other_ = Attach(kOther, As("other", AddContainer("other")));
    Serve(container(), Protocol::kTcp, {"::"}, 80, "page");
  }

  void ExpectServes() {
    EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "page");
    EXPECT_EQ(TcpText(outside(), kHostIp6, 8080), "page");
    EXPECT_EQ(TcpText(host(), "127.0.0.1", 8080), "page");
  }

  json web_;
  json other_;
};

TEST_F(Reconcile, DoesNothingOnABareMachine) {
  const Snapshot before = TakeSnapshot();
  EXPECT_THAT(Output("reconcile -dry-run"), HasSubstr("0 attachments; nothing to repair\n"));
  EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
  EXPECT_THAT(Output("reconcile"), HasSubstr("0 attachments; nothing to repair\n"));
}

TEST_F(Reconcile, FindsNothingOnAHealthyNode) {
  AttachAll();
  const Snapshot before = TakeHostSnapshot();
  EXPECT_THAT(Output("reconcile -dry-run"), HasSubstr("2 attachments; nothing to repair\n"));
  const json document = json::parse(Output("reconcile -json"));
  EXPECT_EQ(document.at("version"), 1);
  EXPECT_EQ(document.at("attachments"), 2);
  EXPECT_TRUE(document.at("found").empty());
  EXPECT_TRUE(Unchanged(before, TakeHostSnapshot()));
}

TEST_F(Reconcile, NamesOnceWhatSeveralNetworksNeed) {
  AttachAll();
  host().Must(Words("sysctl -w net.ipv4.ip_forward=0"));
  EXPECT_THAT(RunLine("reconcile -dry-run"),
              Exits(1, Out(MatchesRegex("[^\n]* is 0: [^\n]*\n2 attachments; 1 to repair\n"))));
  EXPECT_THAT(RunLine("reconcile"), Exits(0, Out("2 attachments; 1 repaired\n")));
}

// ---- each thing that CHECK repairs: fixtures/damages.txt

// Whose comment is missing, as somebody has added it by hand.
TEST_F(Reconcile, ReplacesAnElementThatNamesNoOwner) {
  AttachAll();
  const std::string before = ListTable();
  host().Shell(
      "nft 'delete element inet nomad-bridge port4 { tcp . 8080 }'; "
      "nft 'add element inet nomad-bridge port4 { tcp . 8080 : 172.26.64.77 . 80 }'");
  EXPECT_THAT(RunLine("reconcile -dry-run"), Exits(1, Out(HasSubstr("tcp . 8080 in port4"))));
  EXPECT_THAT(RunLine("reconcile"), Exits(0));
  ExpectServes();
  EXPECT_EQ(ListTable(), before);
}

TEST_F(Reconcile, RestoresTheFilterOfLocalhost) {
  AttachAll();
  const std::string before = host().Must(Words("tc filter show dev nomad ingress"));
  ASSERT_THAT(before, HasSubstr("direct-action"));
  host().Must(Words("tc filter delete dev nomad ingress"));

  ASSERT_EQ(RunLine("reconcile").exit_code, 0);
  // Without the number that the kernel counts on.
  const auto head = [](const std::string& text) { return text.substr(0, text.find(" jited")); };
  EXPECT_EQ(head(host().Must(Words("tc filter show dev nomad ingress"))), head(before));
}

TEST_F(Reconcile, RestoresLocalhostBesideAllocationsWithIpv6PortsOnly) {
  const auto publish = [](int host_port, const std::string& host_ip) {
    return Publish({Port(host_port, 80, "tcp", host_ip)}, DualStack());
  };
  Attach(publish(8080, kHostIp6), As("before", AddContainer("before")));
  Attach(publish(8081, ""));
  Attach(publish(8082, kHostIp6), As("after", AddContainer("after")));
  host().SetSysctl("net/ipv4/conf/nomad/route_localnet", "0");

  EXPECT_EQ(RunLine("reconcile").exit_code, 0);

  EXPECT_EQ(host().Sysctl("net/ipv4/conf/nomad/route_localnet"), "1");
}

// ---- a reader who does not read (`2>&1 | less`)

// A pipe that takes nothing more.
std::array<UniqueFd, 2> FullPipe() {
  std::array<int, 2> ends{};
  EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK), 0);
  const std::string page(4096, 'x');
  while (::write(ends[1], page.data(), page.size()) > 0) {
  }
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_EQ(::fcntl(ends[1], F_SETFL, 0), 0);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

// Starts a command that writes to `pipe` by `fd`, and waits until it is in write(2).
Process StartBlocked(Command command, int fd, const std::array<UniqueFd, 2>& pipe) {
  command.in_child = [&] { ::dup2(pipe[1].get(), fd); };
  Process blocked = Process::Start(command);
  const std::string call = Cat("/proc/", blocked.pid(), "/syscall");
  EXPECT_TRUE(Soon([&] {
    return FindFile(call).value_or("").starts_with(Format("{} 0x{} ", SYS_write, fd));
  })) << command.argv.back();
  return blocked;
}

// reconcile repairs the rules, the ADD takes back what a dead one has: each has something to say of
// what it does under a lock, and nobody reads that.
TEST_F(Reconcile, HoldsNoLockWhileItsLogIsNotRead) {
  AttachAll();
  AttachDead("dead", Publish({Port(9191, 80)}));
  const std::array<UniqueFd, 2> pipe = FullPipe();
  host().Shell("nft flush table inet nomad-bridge; ip link set nomad down");
  const Process reconcile = StartBlocked(Line({"reconcile"}), STDERR_FILENO, pipe);
  const Process add = StartBlocked(
      PluginCommand("ADD", Publish({Port(9191, 80)}).dump(), As("waits", AddContainer("waits"))),
      STDERR_FILENO,
      pipe);

  const auto start = std::chrono::steady_clock::now();
  Attach(DualStack(), As("later", AddContainer("later")));
  Detach(DualStack());
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

// Its lock is free by then for the DEL of a runtime that has given up.
using UnreadResult = Reconcile;
TEST_F(UnreadResult, DoesNotDelayADel) {
  UseOnce(Config());
  const Snapshot before = TakeHostSnapshot();
  const std::array<UniqueFd, 2> pipe = FullPipe();
  const Process add = StartBlocked(PluginCommand("ADD", Config().dump()), STDOUT_FILENO, pipe);

  const auto start = std::chrono::steady_clock::now();
  Detach(Config());
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  EXPECT_TRUE(Unchanged(before, TakeHostSnapshot()));
}

// ---- a lost bridge is made as its config said

TEST_F(Reconcile, MakesABridgeWithTheMtuAndModeOfItsConfig) {
  json config = kOther;
  config["mtu"] = 1400;
  config["promiscMode"] = true;
  Attach(config);
  host().Must({"ip", "link", "delete", "br-other"});

  EXPECT_EQ(RunLine("reconcile").exit_code, 0);
  const json bridge = host().Json(Words("ip -j -d link show br-other")).at(0);
  EXPECT_EQ(bridge.at("mtu"), 1400);
  EXPECT_THAT(bridge.at("flags"), Contains("PROMISC"));

  host().Must(Words("ip link set br-other promisc off"));
  EXPECT_THAT(RunLine("reconcile").err,
              HasSubstr("repaired: bridge 'br-other' is not promiscuous"));
  EXPECT_THAT(LinkOn(host(), "br-other").at("flags"), Contains("PROMISC"));
}

TEST_F(Reconcile, RemovesAConflictingAddressOnlyWithForceAddress) {
  for (const bool is_forced : {false, true}) {
    json config = kOther;
    config["forceAddress"] = is_forced;
    Attach(config);
    host().Must(Words("ip address replace 10.9.0.1/24 dev br-other"));
    host().Must(Words("ip address delete 10.8.0.1/24 dev br-other"));

    EXPECT_THAT(RunLine("reconcile"), Exits(is_forced ? 0 : 1));
    EXPECT_THAT(AddressesOn(host(), "br-other"),
                ElementsAre(is_forced ? "10.8.0.1/24" : "10.9.0.1/24"));
    host().Must(Words("ip address flush dev br-other"));
    Detach(config);
  }
}

// An element is its owner's CHECK's alone: that of another attachment goes past it.
TEST_F(Reconcile, FindsAMissingElementAfterACheckOfAnotherAttachment) {
  AttachAll();
  EXPECT_THAT(RunLine("reconcile"), Exits(0));  // the first comparison is of everything
  host().Must(Words("nft delete element inet nomad-bridge alloc4 { 10.8.0.2 }"));
  MustCheck(Publish({Port(8080, 80), Port(8053, 53, "udp")}, DualStack()), web_);

  EXPECT_THAT(Output("metrics"),
              HasSubstr(R"(nomad_bridge_faults{check="table.intact",verdict="fail"} 1)"));
  EXPECT_THAT(RunLine("reconcile"), Exits(0, Err(HasSubstr("repaired: 10.8.0.2 in alloc4 of "))));
}

// Neither a record nor a link says any more whose elements they were.
TEST_F(Reconcile, LeavesElementsWithoutRecordAndLinkToGc) {
  AttachAll();
  host().Must({"ip", "link", "delete", HostVethOf(other_)});
  fs::remove("/run/nomad-bridge/other/other@eth0.json");

  EXPECT_THAT(RunLine("reconcile"), Exits(0, Out("1 attachment; nothing to repair\n")));
  EXPECT_THAT(RunLine("gc"), Exits(0, Err(HasSubstr("removed: 10.8.0.2 in alloc4 of "))));
}

// What the lock of a port consists of besides its flag.
TEST_F(Reconcile, RepairsAChangedEntryOfALockedPort) {
  const json config = Config(R"({"macspoofchk": true})");
  const Outcome add = RunPlugin("ADD", config);
  if (add.exit_code != 0) {
    EXPECT_THAT(Details(add), HasSubstr("which Linux has since 5.18"));
    return;
  }
  const std::string port = HostVethOf(add.json);
  const std::string mac = At(add.json, "/interfaces/2/mac");
  for (const char* const damage : {"bridge fdb delete $mac dev $port master",
                                   "bridge fdb add 02:00:00:00:00:0f dev $port master dynamic"}) {
    Must({.argv = {"sh", "-e", "-c", damage}, .variables = {{"mac", mac}, {"port", port}}});

    EXPECT_THAT(RunLine("reconcile"),
                Exits(0, Err(HasSubstr(Format("the MAC check of {} was changed", port)))))
        << damage;
    EXPECT_TRUE(Ping(container(), "172.26.64.1")) << damage;
  }
}

// ---- what cannot be repaired, and who is at work

TEST_F(Reconcile, ContinuesAfterAFailedRepair) {
  // Not Nomad's: it has neither Nomad's labels nor an allocation's id.
  constexpr const char* kRestart = "restart container 'alloc-1' by the program that runs it";
  AttachAll();
  host().Must({"ip", "link", "delete", HostVethOf(web_)});
  host().Must({"ip", "link", "set", HostVethOf(other_), "nomaster"});

  const Outcome outcome = RunLine("reconcile -json");

  EXPECT_EQ(outcome.exit_code, 1) << outcome;
  ASSERT_EQ(outcome.json.at("failed").size(), 1);
  EXPECT_THAT(outcome.json.at("failed").at(0),
              AllOf(HasSubstr("container 'alloc-1'"),
                    HasSubstr("is missing"),
                    EndsWith(Cat("; advice: ", kRestart))));
  std::map<bool, std::string> fixes;
  for (const json& mismatch : outcome.json.at("mismatches")) {
    EXPECT_EQ(mismatch.at("fix"), "");
    fixes[mismatch.at("repairable")] = mismatch.at("advice");
  }
  EXPECT_EQ(fixes, (std::map<bool, std::string>{{true, ""}, {false, kRestart}}));
  EXPECT_THAT(RunLine("reconcile -dry-run"),
              Exits(1, Out(HasSubstr(Cat("; advice: ", kRestart, "\n")))));
  ExpectColumns(80, "reconcile -dry-run");
  EXPECT_EQ(LinkOn(host(), HostVethOf(other_)).at("master"), "br-other");
}

TEST_F(Reconcile, NamesADamagedRecordOnce) {
  AttachAll();
  ReplaceFile("/run/nomad-bridge/nomad/alloc-1@eth0.json", "{");
  const std::string err = RunLine("reconcile").err;
  const std::size_t first = err.find("ignoring it");
  EXPECT_NE(first, std::string::npos) << err;
  EXPECT_EQ(err.find("ignoring it", first + 1), std::string::npos) << err;
}

TEST_F(Reconcile, ContinuesIfAForeignLinkTookABridgesName) {
  AttachAll();
  const json third =
      Config({{"name", "third"}, {"bridge", "br-third"}, {"ipam", {{"subnet", "10.7.0.0/24"}}}});
  Attach(third, As("third", AddContainer("third")));
  host().Shell(
      "ip link delete br-other; ip link add br-other type veth peer name other-end; "
      "nft flush ruleset; ip link set br-third down");

  EXPECT_THAT(RunLine("reconcile"),
              Exits(1, Err(HasSubstr("network 'other': cannot create the bridge 'br-other'"))));

  EXPECT_EQ(LinkOn(host(), "br-third").at("operstate"), "UP");
  ExpectServes();
}

TEST_F(Reconcile, LeavesStaleAttachmentsAlone) {
  AttachAll();
  Node& doomed = AddContainer("doomed");
  Attach(Config(), As("doomed", doomed));
  KillContainer(doomed);
  const Snapshot before = TakeHostSnapshot();
  EXPECT_THAT(Output("reconcile"), HasSubstr("2 attachments; nothing to repair\n"));
  EXPECT_TRUE(Unchanged(before, TakeHostSnapshot()));
}

TEST_F(Reconcile, SkipsAttachmentsLockedByAnotherCommand) {
  AttachAll();
  json document;
  const Killing add = RunObserved(
      PluginCommand("ADD", Publish({Port(9090, 90)}).dump(), As("busy", AddContainer("busy"))),
      [&] {
        if (document.is_null() && PortsOf("nomad").size() == 2) {
          host().Must({"nft", "flush", "ruleset"});
          document = json::parse(RunLine("reconcile -json").out);
        }
      });
  EXPECT_EQ(add.outcome.exit_code, 0) << add.outcome;
  EXPECT_EQ(document.at("attachments"), 2);
  EXPECT_EQ(document.at("failed"), json::array());
  EXPECT_EQ(At(document, "/busy/0/containerId"), "busy");
  ExpectServes();
}

TEST_F(Reconcile, ExitsTwoWithoutRoot) {
  for (const char* const name : {"reconcile", "gc"}) {
    EXPECT_THAT(Execute(LineWithoutRoot({name})), Exits(2, Err(HasSubstr("needs root"))));
  }
}

}  // namespace
}  // namespace nomad_bridge::test
