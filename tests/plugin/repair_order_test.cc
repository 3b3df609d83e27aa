// The order of what a command does, as other programs see it: before each of its system calls that
// can change something, they are asked what is there. A crash, or another command, may meet any of
// these states. So the record comes first and goes last, and says `leaving` before anything goes;
// a container's link is up only while its rules are there; and an address is given back only when
// nothing leads to it any more, or its next owner would get what is meant for the last one.
#include <filesystem>

#include <fcntl.h>
#include <unistd.h>

#include "tests/plugin/cli_world.h"

namespace nomad_bridge::test {
namespace {

using Facts = std::vector<std::string>;

// Both ends go at once, by a child of the command, while we look at one after the other.
const Facts kNoLink =
    {"-veth", "-veth in bridge", "-veth up", "-eth0", "-eth0 up", "-address", "-route"};

// `changes` with those that are one to the kernel in the order of kNoLink.
Facts WithLinkInOneStep(Facts changes) {
  const auto place = [](const std::string& fact) { return std::ranges::find(kNoLink, fact); };
  const auto is_of_link = [&](const std::string& fact) { return place(fact) != kNoLink.end(); };
  for (auto begin = changes.begin(); begin != changes.end();) {
    begin = std::find_if(begin, changes.end(), is_of_link);
    const auto end = std::find_if_not(begin, changes.end(), is_of_link);
    std::sort(begin, end, [&](const std::string& one, const std::string& other) {
      return place(one) < place(other);
    });
    begin = end;
  }
  return changes;
}

class Order : public CliWorld {
 protected:
  static constexpr const char* kPrinted = "/run/printed";
  static constexpr const char* kLogged = "/run/logged";
  static constexpr const char* kReferenceSource = "172.26.79.99";
  static constexpr const char* kStaleFlow =
      " -p udp --src 198.51.100.2 --dst 198.51.100.1 --sport 5000 --dport 8053";

  // With a neighbour, so that what all share is there.
  Order() {
    Attach(Publish({Port(9090, 80)}, DualStack()), neighbour_);
    UseOnce(config_);
  }

  // As an earlier owner of port 8053 leaves it.
  void AddStaleFlow() { host().Must(Words(Cat("conntrack -I --timeout 600", kStaleFlow))); }

  void AddReferenceRule() {
    host().Shell(Cat("iptables -t nat -A POSTROUTING -s ",
                     kReferenceSource,
                     " -j ACCEPT -m comment --comment 'name: \"nomad\" id: \"alloc-1\"'"));
  }

  // What a reboot and an operator take away.
  void BreakAll() {
    host().Must(Words("ip link delete nomad"));
    host().Must(Words("nft flush ruleset"));
    std::filesystem::remove_all(kLeases);
    host().SetSysctl("net/ipv4/ip_forward", "0");
  }

  void BreakAllButTheBridge() {
    host().Must(Words("ip address delete 172.26.64.1/20 dev nomad"));
    std::filesystem::remove_all(kLeases);
    host().Must(Words("nft flush ruleset"));
    host().Must(Words("tc qdisc delete dev nomad clsact"));
    host().SetSysctl("net/ipv4/conf/nomad/route_localnet", "0");
    AddStaleFlow();
  }

  // What changes while the command runs, in order: "+lease" when it comes, "-lease" when it goes.
  Facts Observe(Command command, const std::string& out = kPrinted) {
    command.in_child = [out] {
      Redirect(STDOUT_FILENO, out);
      Redirect(STDERR_FILENO, kLogged);
    };
    Facts changes;
    Facts before = Look();
    const auto compare = [&] {
      const Facts now = Look();
      AddThoseNotIn(now, before, '-', changes);
      AddThoseNotIn(before, now, '+', changes);
      before = now;
    };
    static_cast<void>(RunObserved(std::move(command), compare));
    compare();
    return WithLinkInOneStep(std::move(changes));
  }

  Facts ObserveAdd() { return Observe(PluginCommand("ADD", config_.dump())); }
  Facts ObserveDel() { return Observe(PluginCommand("DEL", config_.dump())); }

  const json config_ = Publish({Port(8080, 80), Port(8053, 53, "udp")}, DualStack());
  const Variables neighbour_ = As("neighbour", AddContainer("neighbour"));

 private:
  static void Redirect(int fd, const std::string& path) {
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    ::dup2(file, fd);
    ::close(file);
  }

  static void AddThoseNotIn(const Facts& others, const Facts& some, char sign, Facts& changes) {
    for (const std::string& fact : some) {
      if (std::ranges::find(others, fact) == others.end()) {
        changes.push_back(sign + fact);
      }
    }
  }

  // What there is of container alloc-1, and of what it shares with others.
  Facts Look() {
    Facts facts;
    const auto add = [&](const std::string& fact, bool is_there) {
      if (is_there) {
        facts.push_back(fact);
      }
    };
    const auto contains = [](const std::string& text, std::string_view part) {
      return text.find(part) != text.npos;
    };
    const std::string record = FindFile(RecordOf("alloc-1")).value_or("");
    for (const char* const phase : {"making", "live", "leaving"}) {
      add(phase, contains(record, Cat('"', phase, '"')));
    }
    const std::map<std::string, std::string> leases = Leases();
    add("lease", std::ranges::any_of(leases, [&](const auto& lease) {
          return contains(lease.second, "alloc-1");
        }));
    for (const json& link : host().Json(Words("ip -j -d address"))) {
      const std::string text = link.dump();
      const bool is_up = contains(text, "\"UP\"");
      if (link.value("ifname", "") == "nomad") {
        add("bridge", true);
        add("bridge up", is_up);
        add("gateway", contains(text, kBridgeIp4) && contains(text, kBridgeIp6));
      } else if (contains(link.value("ifalias", ""), "alloc-1")) {
        add("veth", true);
        add("veth in bridge", link.value("master", "") == "nomad");
        add("veth up", is_up);
      }
    }
    const std::string inside = LinkOn(container(), "eth0").dump();
    add("eth0", inside != "null");
    add("eth0 up", contains(inside, "\"UP\""));
    add("address", contains(inside, "\"172.26."));
    add("route", contains(container().Must(Words("ip route")), "default"));
    const std::string rules = host().Must(Words("nft list ruleset"));
    add("table", contains(rules, "localhost_guard"));
    add("rules", contains(rules, "8080"));
    add("reference's rule", contains(rules, kReferenceSource));  // nft shows no comment of it
    add("forwarding", host().Sysctl("net/ipv4/ip_forward") == "1");
    add("tc filter", contains(host().Run(Words("tc filter show dev nomad ingress")).out, "bpf"));
    add("route_localnet", host().Sysctl("net/ipv4/conf/nomad/route_localnet") == "1");
    // Asked for by itself: a list is a walk through the whole machine's table, 10 ms.
    add("stale flow", host().Run(Words(Cat("conntrack -G", kStaleFlow))).exit_code == 0);
    add("result", FindFile(kPrinted).value_or("") != "");
    add("message", FindFile(kLogged).value_or("") != "");
    return facts;
  }
};

const Facts kAcquire = {"+making", "+lease"};
const Facts kBridge = {"+bridge", "+bridge up", "+gateway", "+forwarding"};
// The host end gets its alias, by which it is known here, when it is set up.
const Facts kPair = {"+eth0"};
const Facts kLinkUp = {"+veth", "+veth in bridge", "+veth up", "+address", "+eth0 up", "+route"};
// In force, and only then live.
const Facts kPublish = {"+rules", "-making", "+live"};
const Facts kLeaving = {"-live", "+leaving"};
const Facts kLocalhost = {"+tc filter", "+route_localnet"};
const Facts kFlow = {"-stale flow"};

Facts Join(const std::vector<Facts>& parts) {
  Facts all;
  for (const Facts& part : parts) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

TEST_F(Order, IsKeptByTheFirstAdd) {
  Detach(config_, neighbour_);
  BreakAll();
  AddStaleFlow();
  EXPECT_EQ(ObserveAdd(),
            Join({kAcquire,
                  kBridge,
                  kPair,
                  {"+table"},
                  kPublish,
                  kLocalhost,
                  kFlow,
                  kLinkUp,
                  {"+result"}}));
}

TEST_F(Order, IsKeptByALaterAdd) {
  AddStaleFlow();
  EXPECT_EQ(ObserveAdd(), Join({kAcquire, kPair, kPublish, kFlow, kLinkUp, {"+result"}}));
}

// It keeps its addresses.
TEST_F(Order, IsKeptByARepeatedAdd) {
  Attach(config_);
  AddStaleFlow();
  EXPECT_EQ(ObserveAdd(),
            Join({kLeaving,
                  kNoLink,
                  {"-rules"},
                  kFlow,
                  {"-leaving", "+making"},
                  kPair,
                  kPublish,
                  kLinkUp,
                  {"+result"}}));
}

// Its earlier one goes while the earlier record still names it.
TEST_F(Order, IsKeptByARepeatedAddWithAnotherAddress) {
  const std::string config = Publish({Port(8080, 80)}).dump();
  MustRun("ADD", json::parse(config));
  EXPECT_EQ(Observe(PluginCommand("ADD", config, {{"CNI_ARGS", "IP=172.26.64.50"}})),
            Join({kLeaving,
                  kNoLink,
                  {"-rules"},
                  {"-lease", "-leaving"},
                  kAcquire,
                  kPair,
                  kPublish,
                  kLinkUp,
                  {"+result"}}));
}

// Its result cannot be written: all is undone.
TEST_F(Order, IsKeptByAFailingAdd) {
  EXPECT_EQ(Observe(PluginCommand("ADD", config_.dump()), "/dev/full"),
            Join({kAcquire,
                  kPair,
                  kPublish,
                  kLinkUp,
                  kLeaving,
                  kNoLink,
                  {"-rules"},
                  {"-lease", "-leaving", "+message"}}));
}

TEST_F(Order, IsKeptByDel) {
  Attach(config_);
  AddStaleFlow();
  EXPECT_EQ(ObserveDel(), Join({kLeaving, kNoLink, {"-rules"}, kFlow, {"-lease", "-leaving"}}));
}

TEST_F(Order, IsKeptByDelWithoutARecord) {
  Attach(config_);
  std::filesystem::remove(RecordOf("alloc-1"));
  AddReferenceRule();
  EXPECT_EQ(ObserveDel(), Join({kNoLink, {"-rules", "-reference's rule"}, {"-lease"}}));
}

TEST_F(Order, IsKeptByDelWithATruncatedRecord) {
  Attach(config_);
  ReplaceFile(RecordOf("alloc-1"), R"({"live")");
  EXPECT_EQ(ObserveDel(), Join({kNoLink, {"-rules"}, {"-lease", "-live", "+message"}}));
}

TEST_F(Order, IsKeptByGc) {
  Attach(config_);
  AddStaleFlow();
  EXPECT_EQ(Observe(PluginCommand("GC", WithValid({"neighbour"}, config_).dump(), kNoContainer)),
            Join({kLeaving, kNoLink, {"-rules"}, kFlow, {"-lease", "-leaving", "+message"}}));
}

// 127.0.0.1 is routed only where the rules are that keep it from others.
const Facts kRepair = Join(
    {kBridge, {"+veth in bridge", "+table", "+rules"}, kFlow, kLocalhost, {"+lease", "+message"}});

TEST_F(Order, IsKeptByCheck) {
  const json add = Attach(config_);
  BreakAll();
  AddStaleFlow();
  EXPECT_EQ(Observe(PluginCommand("CHECK", WithResult(config_, add).dump())), kRepair);
}

TEST_F(Order, IsKeptByReconcile) {
  Attach(config_);
  BreakAll();
  AddStaleFlow();
  EXPECT_EQ(Observe(Line({"reconcile"})), Join({kRepair, {"+result"}}));
}

// The same where the bridge is left, which is then not set up anew.
const Facts kRepairOfRules =
    Join({{"+gateway", "+lease", "+table", "+rules"}, kFlow, kLocalhost, {"+message"}});

TEST_F(Order, IsKeptByCheckOnAnIntactBridge) {
  const json add = Attach(config_);
  BreakAllButTheBridge();
  EXPECT_EQ(Observe(PluginCommand("CHECK", WithResult(config_, add).dump())), kRepairOfRules);
}

TEST_F(Order, IsKeptByReconcileOnAnIntactBridge) {
  Attach(config_);
  BreakAllButTheBridge();
  EXPECT_EQ(Observe(Line({"reconcile"})), Join({kRepairOfRules, {"+result"}}));
}

}  // namespace
}  // namespace nomad_bridge::test
