// Addresses that another IPAM plugin gives: the reference's dhcp with its daemon, and a DHCP server
// on the LAN; the reference's static; one that is not the reference's.
#include "tests/plugin/cli_world.h"

namespace nomad_bridge::test {
namespace {

const Variables kReferencePlugins = {{"CNI_PATH", "/usr/lib/cni"}};

using IpamPlugin = CliWorld;

class Dhcp : public CliWorld {
 protected:
  // The host's uplink becomes a port of "lan"; the server is outside.
  Dhcp() {
    for (const char* const line : {"ip link add lan up type bridge",
                                   "ip address flush dev uplink scope global",
                                   "ip link set uplink master lan"}) {
      host().Must(Words(line));
    }
    OpenFirewall("lan");
    EnsureDirectory("/run/cni");
    daemon_.emplace(Process::Start({.argv = {"/usr/lib/cni/dhcp", "daemon"}}));
    StartServer("198.51.100.100,198.51.100.110,2m");
    EXPECT_TRUE(Soon([] { return fs::exists("/run/cni/dhcp.sock"); }));
  }

  // `range` as dnsmasq's --dhcp-range. The client is told to renew its lease after 3 s.
  void StartServer(const std::string& range) {
    server_.reset();
    server_.emplace(Process::Start({.argv = {"dnsmasq",
                                             "--keep-in-foreground",
                                             "--conf-file=/dev/null",
                                             "--user=root",
                                             "--pid-file=",
                                             "--port=0",
                                             "--no-ping",
                                             "--dhcp-authoritative",
                                             "--log-dhcp",
                                             "--log-facility=/run/dnsmasq.log",
                                             "--dhcp-leasefile=/run/dnsmasq.leases",
                                             "--dhcp-option=option:T1,3s",
                                             Cat("--dhcp-option=option:router,", kOutsideIp4),
                                             Cat("--dhcp-range=", range)},
                                    .in_child = [&] { outside().Enter(); }}));
  }

  [[nodiscard]] static json OnLan(const json& changes = json::object()) {
    json config = Config({{"cniVersion", "1.0.0"},
                          {"bridge", "lan"},
                          {"isGateway", false},
                          {"ipMasq", false},
                          {"ipam", {{"type", "dhcp"}}}});
    config.merge_patch(changes);
    return config;
  }
  // What the server has given out.
  [[nodiscard]] static std::string ServerLeases() {
    return FindFile("/run/dnsmasq.leases").value_or("");
  }
  [[nodiscard]] static int Count(const std::string& message) {
    const std::string log = FindFile("/run/dnsmasq.log", 1 << 20).value_or("");
    int count = 0;
    for (std::size_t at = log.find(message); at != log.npos; at = log.find(message, at + 1)) {
      ++count;
    }
    return count;
  }

  std::optional<Process> daemon_;

 private:
  std::optional<Process> server_;
};

TEST_F(Dhcp, GivesAnAddressOfTheLanAndTakesItBack) {
  UseOnce(OnLan({{"sourceCheck", true}}), kReferencePlugins);
  const Snapshot before = TakeHostSnapshot();
  const json result = Attach(OnLan({{"sourceCheck", true}}), kReferencePlugins);
  const std::string address = AddressOf(result);
  EXPECT_THAT(address, StartsWith("198.51.100.1"));
  EXPECT_THAT(ServerLeases(), HasSubstr(address));
  EXPECT_TRUE(Ping(container(), kOutsideIp4));
  EXPECT_EQ(RoutesTo(container(), "default").at(0).at("gateway"), kOutsideIp4);
  MustCheck(OnLan({{"sourceCheck", true}}), result, kReferencePlugins);

  const int released = Count("DHCPRELEASE");
  Detach(OnLan(), kReferencePlugins);
  EXPECT_TRUE(Soon([&] { return Count("DHCPRELEASE") > released; })) << "it was sent by its link";
  EXPECT_TRUE(Unchanged(before, TakeHostSnapshot()));
}

TEST_F(Dhcp, RenewsItsLeaseUnderSourceCheck) {
  Attach(OnLan({{"sourceCheck", true}}), kReferencePlugins);
  const int acknowledged = Count("DHCPACK");
  EXPECT_TRUE(Soon([&] { return Count("DHCPACK") > acknowledged; }));
  EXPECT_TRUE(Ping(container(), kOutsideIp4));
}

TEST_F(Dhcp, GivesTheSameAddressToASecondAdd) {
  const json first = Attach(OnLan(), kReferencePlugins);
  EXPECT_EQ(AddressOf(Attach(OnLan(), kReferencePlugins)), AddressOf(first));
  EXPECT_TRUE(Ping(container(), kOutsideIp4));
}

TEST_F(Dhcp, LeavesNothingIfItsDaemonDoesNotRun) {
  UseOnce(OnLan(), kReferencePlugins);
  daemon_.reset();
  const Snapshot before = TakeHostSnapshot();
  EXPECT_THAT(RunPlugin("ADD", OnLan(), kReferencePlugins),
              Fails(999, MsgAndDetails(HasSubstr("dhcp.sock"))));
  EXPECT_TRUE(Unchanged(before, TakeHostSnapshot()));
}

TEST_F(IpamPlugin, StaticGivesAFixedAddressBehindOurGateway) {
  const json config = Config({{"cniVersion", "1.0.0"},
                              {"ipMasq", true},
                              {"sourceCheck", true},
                              {"ipam",
                               {{"type", "static"},
                                {"addresses",
                                 {{{"address", "10.7.0.9/24"}, {"gateway", "10.7.0.1"}},
                                  {{"address", "fd00:7::9/64"}, {"gateway", "fd00:7::1"}}}},
                                {"routes", {{{"dst", "0.0.0.0/0"}}, {{"dst", "::/0"}}}}}}});
  const json result = Attach(config, kReferencePlugins);
  EXPECT_THAT(AddressesOn(host(), "nomad"), ElementsAre("10.7.0.1/24", "fd00:7::1/64"));
  EXPECT_TRUE(Ping(container(), kOutsideIp4));
  EXPECT_TRUE(Ping(container(), kOutsideIp6));
  MustCheck(config, result, kReferencePlugins);
}

// It can look at the interface, and sees it on DEL, too. By then the record says that the
// attachment leaves, so that nobody repairs it.
TEST_F(IpamPlugin, RunsWhileTheLinkIsThere) {
  EnsureDirectory("/run/ipam");
  WriteProgram("/run/ipam/looking", R"sh(#!/bin/sh
echo "$CNI_COMMAND" $(grep -o '"link":"[a-z]*"' /run/nomad-bridge/*/*.json) \
  $(nsenter --net="$CNI_NETNS" ip -o link show "$CNI_IFNAME" |
  grep -o 'LOWER_UP') >>/run/ipam/log
[ "$CNI_COMMAND" != ADD ] || echo '{"cniVersion":"1.0.0","ips":[{"address":"10.5.0.2/24"}]}'
)sh");
  const json config = Config({{"ipam", {{"type", "looking"}}}});
  const Variables where = {{"CNI_PATH", "/run/ipam"}, {"PATH", "/usr/sbin:/usr/bin:/sbin:/bin"}};
  Attach(config, where);
  Detach(config, where);
  EXPECT_EQ(FindFile("/run/ipam/log"),
            "ADD \"link\":\"making\" LOWER_UP\nDEL \"link\":\"leaving\" LOWER_UP\n");
}

}  // namespace
}  // namespace nomad_bridge::test
