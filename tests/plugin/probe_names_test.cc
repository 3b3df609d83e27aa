// nomad-bridge inspect -to NAME:PORT: the name is looked up as the allocation's own tasks do it.
#include "tests/plugin/cli_world.h"
#include "tests/support/soon.h"

namespace nomad_bridge::test {
namespace {

// Answers A and AAAA of db.service.consul with the addresses of the server, others with NXDOMAIN.
constexpr const char* kNameServer = R"(
import socket, sys
s = socket.socket(socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET, socket.SOCK_DGRAM)
s.bind((sys.argv[1], 53))
while True:
  query, client = s.recvfrom(4096)
  question = query[12:]
  known = question.startswith(b'\x02db\x07service\x06consul\x00')
  v6 = question[-4:-2] == b'\x00\x1c'
  data = socket.inet_pton(socket.AF_INET6, 'fd00:26::3') if v6 else socket.inet_aton('172.26.64.3')
  kind = b'\x00\x1c' if v6 else b'\x00\x01'
  record = b'\xc0\x0c' + kind + b'\x00\x01\x00\x00\x00\x3c' + bytes([0, len(data)]) + data
  head = query[:2] + (b'\x81\x80' if known else b'\x81\x83') + b'\x00\x01' + (b'\x00\x01' if known else b'\x00\x00')
  s.sendto(head + b'\x00' * 4 + question + (record if known else b''), client)
)";

class InspectName : public CliWorld {
 protected:
  void SetUp() override {
    Attach(DualStack(), As(kAllocation, container(), NomadArgs("billing", kAllocation)));
    Attach(DualStack(), As("server", server_));
    Serve(server_, Protocol::kTcp, {"::"}, 5432, "rows");
  }

  // A task whose root has these files.
  void RunTask(const std::string& resolv_conf, const std::string& hosts = "") {
    fs::create_directories("/run/task-etc");
    ReplaceFile("/run/task-etc/resolv.conf", resolv_conf);
    ReplaceFile("/run/task-etc/hosts", hosts);
    task_.emplace(Process::Start({.argv = {"nsenter",
                                           Cat("--net=", container().path()),
                                           "unshare",
                                           "-m",
                                           "sh",
                                           "-c",
                                           "mount --bind /run/task-etc /etc; exec sleep 60"}}));
    ASSERT_TRUE(Soon(
        [&] { return FindFile(Format("/proc/{}/comm", task_->pid())).value_or("") == "sleep\n"; }));
  }
  void ServeNames(const std::string& address) {
    names_.emplace(Process::Start({.argv = {"python3", "-c", kNameServer, address}}));
    ASSERT_TRUE(Soon([&] { return !host().Must(Words("ss -Hlnu sport = 53")).empty(); }));
  }

  Node& server_ = AddContainer("server");
  std::optional<Process> task_;
  std::optional<Process> names_;
};

TEST_F(InspectName, AsksTheNameServersOfItsTask) {
  ServeNames(kBridgeIp4);
  RunTask(Cat("search nowhere.example service.consul\nnameserver ", kBridgeIp4, "\n"));
  EXPECT_THAT(RunLine("inspect billing -to db:5432"),
              Exits(0,
                    Out(AllOf(HasSubstr("Way          tcp 172.26.64.3:5432"),
                              HasSubstr("'db' is 172.26.64.3, by name server 172.26.64.1")))));
  EXPECT_THAT(RunLine("inspect billing -to db.service.consul:5433"),
              Exits(1, Out(HasSubstr("in container 'server': no listener on tcp/5433"))));
  EXPECT_THAT(RunLine("inspect billing -to dbb:5432"),
              Exits(1,
                    Out(HasSubstr("'dbb' has no address: name server 172.26.64.1 knows no such "
                                  "name"))));
}

TEST_F(InspectName, AsksAServerOfIpv6) {
  ServeNames(kBridgeIp6);
  RunTask(Cat("nameserver ", kBridgeIp6, "\n"));
  EXPECT_THAT(RunLine("inspect billing -to db.service.consul:5432"),
              Exits(0, Out(HasSubstr("'db.service.consul' is 172.26.64.3, by name server fd00"))));
}

TEST_F(InspectName, ReadsTheHostsOfItsTask) {
  RunTask("", "172.26.64.3 db.internal db\n");
  EXPECT_THAT(RunLine("inspect billing -to db:5432"),
              Exits(0, Out(HasSubstr("'db' is 172.26.64.3, by /etc/hosts of process"))));
}

// systemd-resolved's file, as a runtime copies it.
TEST_F(InspectName, SaysThatItsResolverIsOnItsOwnLoopback) {
  RunTask("nameserver 127.0.0.53\n");
  EXPECT_THAT(
      RunLine("inspect billing -to db.service.consul:5432"),
      Exits(1,
            Out(AllOf(HasSubstr(Format("in container '{}': no listener on udp/53", kAllocation)),
                      HasSubstr("name server 127.0.0.53 is not reached")))));
}

// The second server is asked then.
TEST_F(InspectName, SaysWhatKeepsItFromItsNameServer) {
  ServeNames(kBridgeIp4);
  RunTask(Cat("nameserver ", kBridgeIp4, "\n"));
  host().Shell("iptables -A INPUT -p udp --dport 53 -j DROP");
  const std::string line = "inspect billing -to db.service.consul:5432";
  EXPECT_THAT(RunLine(line),
              Exits(1,
                    Out(AllOf(HasSubstr("chain INPUT of table ip filter"),
                              HasSubstr("name server 172.26.64.1 does not answer")))));
  ServeNames(kBridgeIp6);
  RunTask(Cat("nameserver ", kBridgeIp4, "\nnameserver ", kBridgeIp6, "\n"));
  EXPECT_THAT(RunLine(line), Exits(0, Out(HasSubstr("by name server fd00:26::1"))));
}

// A root in which the file leads to one of the node.
TEST_F(InspectName, ReadsNoFileBeyondTheRootOfItsTask) {
  ServeNames(kBridgeIp4);
  fs::create_directories("/run/root/etc");
  fs::create_symlink("/run/conf", "/run/root/etc/resolv.conf");
  ReplaceFile("/run/conf", Cat("nameserver ", kOutsideIp4, "\n"));
  fs::create_directories("/run/root/run");
  ReplaceFile("/run/root/run/conf", Cat("nameserver ", kBridgeIp4, "\n"));
  task_.emplace(Process::Start({.argv = {"nsenter",
                                         Cat("--net=", container().path()),
                                         "python3",
                                         "-c",
                                         R"(import os, time
os.chroot('/run/root')
open('/ready', 'w')
time.sleep(60))"}}));
  ASSERT_TRUE(Soon([&] { return fs::exists("/run/root/ready"); }));
  EXPECT_THAT(RunLine("inspect billing -to db.service.consul:5432"),
              Exits(0, Out(HasSubstr("by name server 172.26.64.1"))));
}

}  // namespace
}  // namespace nomad_bridge::test
