// docs/commands.md: what its commands print.
#include <sys/utsname.h>

#include "tests/plugin/pages_world.h"

namespace nomad_bridge::test {
namespace {

constexpr const char* kCommandsPage = "docs/commands.md";
constexpr const char* kBilling = "5f3c1a2b-0000-4000-8000-000000000001";
constexpr const char* kSearch = "9d01c7e4-0000-4000-8000-000000000002";

std::string ProdArgs(const std::string& job, const std::string& group, const std::string& id) {
  return Cat("IgnoreUnknown=true;NOMAD_NAMESPACE=prod;NOMAD_JOB_ID=",
             job,
             ";NOMAD_GROUP_NAME=",
             group,
             ";NOMAD_ALLOC_ID=",
             id);
}

class CommandsPage : public TypedPage {
 protected:
  CommandsPage() : TypedPage(kCommandsPage, "list") { InstallPlugin(); }

  void AttachBilling(const json& config = Publish({Port(8080, 80)})) {
    Node& node = AddContainer("5f3c1a2b");
    veth_ = HostVethOf(Attach(config,
                              {{"CNI_CONTAINERID", kBilling},
                               {"CNI_NETNS", "/var" + node.path()},
                               {"CNI_ARGS", ProdArgs("billing", "api", kBilling)}}));
    Serve(node, Protocol::kTcp, {"0.0.0.0"}, 80, "hello");
  }
  // Job search, whose container has ended.
  void AttachSearch(const json& config) {
    Node& node = AddContainer("9d01c7e4");
    Attach(config, As(kSearch, node, ProdArgs("search", "web", kSearch)));
    KillContainer(node);
  }
  void TurnTo(const std::string& heading) {
    Turn(kCommandsPage, heading);
    Call("eth0 ✓", "uplink ✓");
    Call("198.51.100.7", kOutsideIp4);
    Call("vetha73d3304771", veth_);
    Call("6.1.0-38-amd64", KernelRelease());
  }
  [[nodiscard]] static std::string KernelRelease() {
    utsname name{};
    ::uname(&name);
    return name.release;
  }

  std::string veth_;
};

TEST_F(CommandsPage, ShowsWhatListPrints) {
  AttachBilling(Publish({Port(8080, 80), Port(8080, 80, "udp")}));
  AttachSearch(Config());

  Type();
  ExpectAllTyped();
}

TEST_F(CommandsPage, ShowsWhatInspectPrints) {
  AttachBilling();
  TurnTo("inspect");

  host().Nft(
      "table inet filter { chain forward { type filter hook forward priority 5;"
      " tcp dport 80 drop; }; }");
  TypeInVain();

  host().Shell(
      "nft delete table inet filter; iptables -P INPUT DROP; iptables -N ufw-user-input;"
      "iptables -A INPUT -j ufw-user-input");
  Serve(host(), Protocol::kTcp, {"0.0.0.0"}, 4646, "nomad");
  TypeInVain();

  host().Shell("iptables -P INPUT ACCEPT");
  host().Nft(
      "table ip mine { chain f { type filter hook forward priority 5;"
      " tcp dport 80 drop; }; }");
  Process client = Process::Start(
      {.argv = {"sh",
                "-c",
                Format("while :; do busybox nc -w 1 {} 8080; sleep 0.1; done", kHostIp4)},
       .in_child = [&] { outside().Enter(); }});
  TypeInVain();
  ExpectAllTyped();
}

TEST_F(CommandsPage, ShowsWhatDoctorPrints) {
  AttachSearch(Config());
  Node& other = AddContainer("other");
  Attach(Config(), As("other", other));
  KillContainer(other);
  AttachBilling(Config());
  host().Nft(
      "table inet mine { chain forward { type filter hook forward priority 5;"
      " policy drop; }; }");
  TurnTo("doctor");

  TypeInVain();
  ExpectAllTyped();
}

TEST_F(CommandsPage, ShowsWhatTestPrints) {
  ReplaceFile("/run/resolv.conf", "nameserver 203.0.113.53\n");
  const Mounted resolv({"--bind", "/run/resolv.conf"}, "/etc/resolv.conf");
  EnsureDirectory("/opt/cni/config");
  fs::copy_file(ProjectPath("examples/nomad.conflist"), "/opt/cni/config/nomad.conflist");
  host().Nft(
      "table inet mine { chain f { type filter hook forward priority 5; iifname uplink"
      " tcp dport 8080 drop; }; }");
  TurnTo("test");
  Call("eth0", "uplink");
  TypeInVain();
  ExpectAllTyped();
}

TEST_F(CommandsPage, ShowsWhatReconcilePrints) {
  DropForwarded();
  AttachBilling();
  Node& other = AddContainer("other");
  Attach(Config(), As("other", other));
  host().Shell(Cat("ip link set ", veth_, " nomaster; iptables -F CNI-FORWARD"));
  TurnTo("reconcile");

  TypeInVain();
  ExpectAllTyped();
}

TEST_F(CommandsPage, ShowsWhatGcPrints) {
  AttachBilling();
  AttachSearch(Publish({Port(9090, 80)}));
  TurnTo("gc");

  TypeInVain();
}

}  // namespace
}  // namespace nomad_bridge::test
