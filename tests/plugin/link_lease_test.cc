// Leases on disk: where they are, among what, and how many. Their format, shared with the reference
// plugin: tests/kernel/ipam_store_test.cc.
#include <iterator>

#include "tests/support/world.h"

namespace nomad_bridge::test {
namespace {

class LeaseFile : public World {
 protected:
  static void WriteLease(const std::string& address, const std::string& text) {
    fs::create_directories(kLeases);
    std::ofstream(Cat(kLeases, "/", address)) << text;
  }
};

TEST_F(LeaseFile, IsInTheDirectoryOfTheConfig) {
  const json config = Config(R"({"ipam": {"dataDir": "/var/lib/cni/networks/deep"}})");

  Attach(config);

  EXPECT_EQ(FindFile("/var/lib/cni/networks/deep/nomad/172.26.64.2"), "alloc-1\r\neth0");
  EXPECT_FALSE(fs::exists(kLeases));
  Detach(config);
  EXPECT_THAT(Leased("/var/lib/cni/networks/deep/nomad"), IsEmpty());
}

// The kernel shows the addresses of running attachments, wherever the network had its leases when
// they were added; and there they are freed.
class MovedDirectory : public LeaseFile {
 protected:
  static json In(const std::string& data_dir, const json& changes = json::object()) {
    json config = Config({{"ipam", {{"subnet", "10.9.0.0/29"}, {"dataDir", data_dir}}}});
    config.merge_patch(changes);
    return config;
  }
  std::string Add(const std::string& data_dir, const std::string& id) {
    return AddressOf(Attach(In(data_dir), As(id, AddContainer(id))));
  }
};

TEST_F(MovedDirectory, GivesNoAddressTwice) {
  Add("/var/lib/cni/one", "one");
  Add("/var/lib/cni/one", "two");
  const std::set<std::string> moved = {Add("/var/lib/cni/two", "three"),
                                       Add("/var/lib/cni/two", "four")};
  EXPECT_EQ(moved, (std::set<std::string>{"10.9.0.4", "10.9.0.5"}));
  EXPECT_EQ(Leased("/var/lib/cni/two/nomad"), moved);

  EXPECT_EQ(Add("/var/lib/cni/one", "back"), "10.9.0.6") << "and back again";
  EXPECT_THAT(RunPlugin("ADD", In("/var/lib/cni/two"), As("six", AddContainer("six"))), Fails(101));
}

TEST_F(MovedDirectory, RefusesARequestedAddressByName) {
  Add("/var/lib/cni/one", "one");
  const json asking = In("/var/lib/cni/two", {{"runtimeConfig", {{"ips", {"10.9.0.2"}}}}});
  EXPECT_THAT(RunPlugin("ADD", asking, As("two", AddContainer("two"))),
              Fails(102, MsgAndDetails(HasSubstr("'one'"))));
  EXPECT_THAT(Leased("/var/lib/cni/two/nomad"), IsEmpty());
}

TEST_F(MovedDirectory, FreesAddressesOfItsDels) {
  const Node& one = AddContainer("one");
  Attach(In("/var/lib/cni/one"), As("one", one));
  Add("/var/lib/cni/two", "two");
  Detach(In("/var/lib/cni/two"), As("one", one));
  EXPECT_THAT(Leased("/var/lib/cni/one/nomad"), IsEmpty());
  EXPECT_THAT(Leased("/var/lib/cni/two/nomad"), ElementsAre("10.9.0.3"));
}

// Silent containers of another plugin, whose leases are in another directory than ours.
class AnotherPlugin : public MovedDirectory {
 protected:
  AnotherPlugin() {
    host().Must(Words("ip link add nomad up type bridge"));
    host().Must(Words("ip address add 10.9.0.1/28 dev nomad"));
  }
  Node& AddTheirs(int number) {
    const std::string name = Cat("theirs", number);
    Node& node = AddContainer(name);
    host().Must(Words(Format(
        "ip link add vethffff{} up master nomad type veth peer name eth0 netns {}", number, name)));
    node.Must(Words("ip link set eth0 up"));
    node.Must(Words(Format("ip address add 10.9.0.{}/28 dev eth0", number)));
    node.Must(Words(Format("ip address add fd00:9::{}/64 dev eth0 nodad", number)));
    return node;
  }
  std::vector<std::string> AddOurs(const std::string& id) {
    return AddressesIn(Attach(config_, As(id, AddContainer(id))));
  }
  const json config_ =
      In("/var/lib/cni/ours",
         {{"ipam",
           {{"subnet", nullptr},
            {"ranges", {{{{"subnet", "10.9.0.0/28"}}}, {{{"subnet", "fd00:9::/64"}}}}}}}});
};

TEST_F(AnotherPlugin, KeepsTheAddressesOfItsRunningContainers) {
  Node& second = AddTheirs(2);
  Node& fourth = AddTheirs(4);
  EXPECT_THAT(AddOurs("a"), ElementsAre("10.9.0.3/28", "fd00:9::3/64"));
  EXPECT_THAT(AddOurs("b"), ElementsAre("10.9.0.5/28", "fd00:9::5/64"));

  // What comes later shows as a neighbour, or by the rules of the reference.
  ASSERT_TRUE(Ping(AddTheirs(6), "10.9.0.1"));
  host().Must(Words("ping -c1 -W5 -I nomad fd00:9::6"));
  host().Shell("iptables -A CNI-FORWARD -s 10.9.0.8/32 -j ACCEPT");
  EXPECT_THAT(AddOurs("c"), ElementsAre("10.9.0.7/28", "fd00:9::7/64"));
  EXPECT_THAT(AddOurs("d"), ElementsAre("10.9.0.9/28", "fd00:9::8/64"));

  json asking = config_;
  asking["runtimeConfig"]["ips"] = {"10.9.0.4"};
  EXPECT_THAT(RunPlugin("ADD", asking, As("e", AddContainer("e"))), Fails(102));
  const std::string directory = "/var/lib/cni/ours/nomad";
  ASSERT_TRUE(Leased(directory).contains("10.9.0.4"));
  MustRun("GC", config_, kNoContainer);
  EXPECT_TRUE(Leased(directory).contains("10.9.0.4"));
  KillContainer(fourth);
  EXPECT_THAT(RunPlugin("ADD", asking, As("e", AddContainer("e2"))), Exits(0));
  MustRun("GC", config_, kNoContainer);
  EXPECT_TRUE(Leased(directory).contains("10.9.0.2"));
  KillContainer(second);
  MustRun("GC", config_, kNoContainer);
  EXPECT_FALSE(Leased(directory).contains("10.9.0.2"));
}

// Each name has a directory of its own, if the config names none.
class MovedName : public LeaseFile, public ::testing::WithParamInterface<const char*> {};

TEST_P(MovedName, GivesNoAddressTwice) {
  const json ours =
      Config({{"ipam",
               {{"type", "host-local"},
                {"ranges", {{{{"subnet", "10.9.0.0/24"}}}, {{{"subnet", "fd00:9::/64"}}}}}}}});
  std::vector<std::string> names = {"nomad-bridge", "bridge"};
  if (GetParam() == std::string_view("Back")) {
    std::ranges::reverse(names);
  }
  std::vector<std::string> given;
  for (const std::string& name : names) {
    json config = ours;
    config["type"] = name;
    const Variables variables = As(name, AddContainer(name));
    const Outcome add = Succeeded(RunPlugin("ADD", config.dump(), variables, name));
    std::ranges::copy(AddressesIn(add.json), std::back_inserter(given));
  }
  EXPECT_THAT(given, ElementsAre("10.9.0.2/24", "fd00:9::2/64", "10.9.0.3/24", "fd00:9::3/64"));
}

INSTANTIATE_TEST_SUITE_P(Ways, MovedName, ::testing::Values("There", "Back"), [](const auto& way) {
  return std::string(way.param);
});

TEST_F(LeaseFile, DirectoryMayHoldJunk) {
  WriteLease("not-an-address", "junk");
  WriteLease("172.26.64.2", "?");
  WriteLease("last_reserved_ip.0", "rubbish");
  fs::create_directories(Cat(kLeases, "/172.26.64.3"));

  EXPECT_THAT(AddressesIn(Attach(Config())), ElementsAre("172.26.64.4/20"));
  Detach(Config());
  EXPECT_EQ(Lease("not-an-address"), "junk");
  EXPECT_EQ(Lease("172.26.64.2"), "?");
}

// An operator's `touch`, or a note in any words.
TEST_F(LeaseFile, ReservesItsAddressForGoodEvenWithInvalidText) {
  const std::vector<std::string> texts = {
      "", "printer", "for the printer\n", "x\ny\n", "?\r\neth0"};
  for (std::size_t i = 0; i < texts.size(); ++i) {
    WriteLease(Cat("10.9.0.", i + 2), texts[i]);
    host().Must({"touch", "-d", "@1", Cat(kLeases, "/10.9.0.", i + 2)});  // before the boot
  }
  WriteLease("fd00:9::2", "");
  const json config =
      Config({{"ipam", {{"ranges", {{{{"subnet", "10.9.0.0/29"}, {"rangeEnd", "10.9.0.6"}}}}}}}});

  EXPECT_THAT(RunPlugin("ADD", config), Fails(101, MsgAndDetails(HasSubstr("leased or reserved"))));
  json asking = config;
  asking["runtimeConfig"]["ips"] = {"10.9.0.2"};
  EXPECT_THAT(RunPlugin("ADD", asking), Fails(102, MsgAndDetails(HasSubstr("reserves it"))));
  for (std::size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(Lease(Cat("10.9.0.", i + 2)), texts[i]);
  }
  json ipv6 = config;
  ipv6["ipam"]["ranges"] = {{{{"subnet", "fd00:9::/64"}}}};
  EXPECT_THAT(AddressesIn(Attach(ipv6)), ElementsAre("fd00:9::3/64"));
}

TEST_F(LeaseFile, IsFoundAmong4000Others) {
  // All but the last 93 addresses of the /20, and every one of them behind the mark.
  for (int i = 2; i < 4002; ++i) {
    WriteLease(Cat("172.26.", 64 + i / 256, ".", i % 256), Cat("other-", i, "\r\neth0"));
  }
  WriteLease("last_reserved_ip.0", "172.26.64.1");

  EXPECT_THAT(AddressesIn(Attach(Config())), ElementsAre("172.26.79.162/20"));
  EXPECT_TRUE(Ping(container(), "172.26.64.1"));
  Detach(Config());
  EXPECT_EQ(Leased().size(), 4000U);
}

TEST_F(LeaseFile, IsMadeForTheLastFreeAddressAmong4000) {
  for (int i = 2; i < 4095; ++i) {
    if (i != 1234) {
      WriteLease(Cat("172.26.", 64 + i / 256, ".", i % 256), Cat("other-", i, "\r\neth0"));
    }
  }

  EXPECT_THAT(AddressesIn(Attach(Config())), ElementsAre("172.26.68.210/20"));
  EXPECT_THAT(RunPlugin("ADD", Config(), As("alloc-2", AddContainer("second"))), Fails(101));
  EXPECT_EQ(Leased().size(), 4093U);
}

}  // namespace
}  // namespace nomad_bridge::test
