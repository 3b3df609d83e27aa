// Leases that outlive what they describe, or are outlived by it: a data directory on disk after a
// reboot, and one that is lost while /run stands.
#include <fcntl.h>
#include <sys/stat.h>

#include "tests/support/world.h"

namespace nomad_bridge::test {
namespace {

constexpr const char* kDisk = "/var/lib/cni/networks";
constexpr const char* kOnDisk = "/var/lib/cni/networks/nomad";

class Reboot : public World {
 protected:
  // As the reference plugin is configured by default; in a network that has no rules of its own.
  [[nodiscard]] static json Plain(const json& changes = nullptr) {
    json config = Config(
        {{"type", "bridge"},
         {"bridge", "nomad"},
         {"isGateway", true},
         {"ipam", {{"type", "host-local"}, {"subnet", "172.26.64.0/20"}, {"dataDir", kDisk}}}});
    config.merge_patch(changes.is_null() ? json::object() : changes);
    return config;
  }
  json Add(const std::string& id, const Node& node, const json& config = Plain()) {
    return Succeeded(RunPlugin("ADD", config.dump(), As(id, node), "bridge")).json;
  }

  // What is on tmpfs, or in the kernel, is gone; what is on disk is from before.
  void Happen() {
    KillContainer(container());
    fs::remove_all("/run/nomad-bridge");
    host().Must({"ip", "link", "delete", "nomad"});
    const timespec long_ago{.tv_sec = 1'000'000'000, .tv_nsec = 0};
    const timespec times[2] = {long_ago, long_ago};
    for (const std::string& name : Entries(kOnDisk)) {
      ASSERT_EQ(::utimensat(AT_FDCWD, Cat(kOnDisk, '/', name).c_str(), times, 0), 0);
    }
  }
};

TEST_F(Reboot, FreesARequestedAddress) {
  Add("web", container(), Plain());
  Happen();

  const json given =
      Add("static", AddContainer("static"), Plain({{"runtimeConfig", {{"ips", {"172.26.64.2"}}}}}));

  EXPECT_EQ(AddressOf(given), "172.26.64.2");
  EXPECT_EQ(FindFile(Cat(kOnDisk, "/172.26.64.2")), "static\r\neth0");
}

// Each container comes again, in another order, and gets the address that it had.
TEST_F(Reboot, GivesEachContainerItsOwnAddressAgain) {
  std::map<std::string, std::string> addresses;
  for (const char* const id : {"one", "two", "three"}) {
    Node& node = AddContainer(id);
    addresses[id] = AddressOf(Add(id, node));
    KillContainer(node);
  }
  Happen();
  for (const char* const id : {"three", "one", "two"}) {
    Node& again = AddContainer(Cat(id, "-again"));
    EXPECT_EQ(AddressOf(Add(id, again)), addresses.at(id)) << id;
    EXPECT_EQ(AddressOf(Add(id, again)), addresses.at(id)) << id << ", a second ADD";
  }
  EXPECT_THAT(Leased(kOnDisk), SizeIs(3)) << "none has two";
  for (const char* const id : {"two", "three"}) {
    Succeeded(RunPlugin("DEL", Plain().dump(), As(id, container()), "bridge"));
  }
  EXPECT_EQ(Leased(kOnDisk), (std::set<std::string>{addresses.at("one")}));
}

// With the network's last DEL, and not before.
TEST_F(Reboot, LeavesNoDirectoryOfANetworkThatIsGone) {
  Add("one", AddContainer("one"));
  Add("two", AddContainer("two"));
  Succeeded(RunPlugin("DEL", Plain().dump(), As("one", container()), "bridge"));
  EXPECT_TRUE(fs::exists(Cat(kOnDisk, "/last_reserved_ip.0")));
  Succeeded(RunPlugin("DEL", Plain().dump(), As("two", container()), "bridge"));
  EXPECT_FALSE(fs::exists(kOnDisk));
}

// An operator reserves an address by a file of any content.
TEST_F(Reboot, LeavesADirectoryWithAReservedAddress) {
  Add("one", AddContainer("one"));
  ReplaceFile(Cat(kOnDisk, "/172.26.64.9"), "the printer");
  Succeeded(RunPlugin("DEL", Plain().dump(), As("one", container()), "bridge"));
  EXPECT_EQ(FindFile(Cat(kOnDisk, "/172.26.64.9")), "the printer");
}

// Of the reference plugin perhaps, which keeps no records.
TEST_F(Reboot, IsNotAssumedIfRecordsAreLost) {
  Add("web", container(), Plain());
  fs::remove_all("/run/nomad-bridge");

  EXPECT_THAT(RunPlugin("ADD",
                        Plain({{"runtimeConfig", {{"ips", {"172.26.64.2"}}}}}).dump(),
                        As("static", AddContainer("static")),
                        "bridge"),
              Fails(102, Details(HasSubstr("container 'web'"))));
}

// Without rules in the kernel, whose elements would tell.
TEST_F(Reboot, LossOfTheDataDirGivesNoAddressTwice) {
  ASSERT_EQ(AddressOf(Add("one", AddContainer("one"))), "172.26.64.2");
  ASSERT_EQ(AddressOf(Add("two", AddContainer("two"))), "172.26.64.3");
  fs::remove_all(kOnDisk);

  EXPECT_EQ(AddressOf(Add("three", AddContainer("three"))), "172.26.64.4");

  EXPECT_EQ(Leased(kOnDisk), (std::set<std::string>{"172.26.64.2", "172.26.64.3", "172.26.64.4"}));
}

}  // namespace
}  // namespace nomad_bridge::test
