// GC: what is listed lives on undisturbed, what is not goes.
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "tests/support/plugin_world.h"

namespace nomad_bridge::test {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

class GcTest : public PluginWorld {
 protected:
  // Valid attachments, all of them with eth0.
  static json Valid(const std::vector<std::string>& container_ids) {
    json config = Config("1.1.0");
    config["cni.dev/valid-attachments"] = json::array();
    for (const std::string& id : container_ids) {
      config["cni.dev/valid-attachments"].push_back({{"containerID", id}, {"ifname", "eth0"}});
    }
    return config;
  }

  // A runtime gives GC no container.
  Outcome Gc(const json& config) {
    return RunPlugin("GC",
                     config,
                     {{"CNI_CONTAINERID", std::nullopt},
                      {"CNI_NETNS", std::nullopt},
                      {"CNI_IFNAME", std::nullopt}});
  }
};

TEST_F(GcTest, KeepsTheListedUndisturbedAndRemovesTheRest) {
  WarmUp();
  Node& kept = AddContainer("kept");
  Attach(Publishing(Config("1.1.0"), 9090, 90), As("kept", kept));
  const Server server = Server::Start(kept, Protocol::kTcp, "0.0.0.0", 90, "kept");
  std::optional<Connection> connection =
      Connection::Open(outside(), {.to = kHostIp4, .port = 9090});
  ASSERT_TRUE(connection);
  const Snapshot before = TakeHostSnapshot();
  Attach(Publishing(Config("1.1.0"), 8080, 80));
  Node& dead = AddContainer("dead");
  Attach(Config("1.1.0"), As("dead", dead));
  KillContainer(dead);

  const Outcome gc = Gc(Valid({"kept"}));

  EXPECT_EQ(gc.exit_code, 0) << gc;
  EXPECT_EQ(gc.out, "");
  EXPECT_TRUE(Unchanged(before, TakeHostSnapshot()));
  EXPECT_TRUE(connection->Echoes("through all of it"));
  EXPECT_EQ(TcpText(outside(), kHostIp4, 9090), "kept");
}

TEST_F(GcTest, AnEmptyListKeepsNobody) {
  WarmUp();
  const Snapshot before = TakeHostSnapshot();
  Attach(Config("1.1.0"));
  EXPECT_EQ(Gc(Valid({})).exit_code, 0);
  EXPECT_TRUE(Unchanged(before, TakeHostSnapshot()));
}

TEST_F(GcTest, GoWritesAnEmptyListAsNull) {
  WarmUp();
  const Snapshot before = TakeHostSnapshot();
  Attach(Config("1.1.0"));
  json config = Config("1.1.0");
  config["cni.dev/valid-attachments"] = nullptr;
  EXPECT_EQ(Gc(config).exit_code, 0);
  EXPECT_TRUE(Unchanged(before, TakeHostSnapshot()));
}

TEST_F(GcTest, WithoutAnyListOnlyTheDeadGo) {
  WarmUp();
  Attach(Publishing(Config("1.1.0"), 8080, 80));
  const Snapshot before = TakeHostSnapshot();
  Node& dead = AddContainer("dead");
  Attach(Config("1.1.0"), As("dead", dead));
  KillContainer(dead);
  EXPECT_EQ(Gc(Config("1.1.0")).exit_code, 0);
  EXPECT_TRUE(Unchanged(before, TakeHostSnapshot()));
}

TEST_F(GcTest, TheSameContainerWithAnotherInterfaceIsAnother) {
  Attach(Config("1.1.0"));
  const Snapshot before = TakeHostSnapshot();
  Attach(Config("1.1.0"), {{"CNI_IFNAME", "eth1"}});
  EXPECT_EQ(Gc(Valid({"alloc-1"})).exit_code, 0);
  EXPECT_TRUE(Unchanged(before, TakeHostSnapshot()));
}

TEST_F(GcTest, OtherNetworksAreNotItsBusiness) {
  json other = Config("1.1.0");
  other["name"] = "other";
  other["bridge"] = "br-other";
  other["ipam"]["subnet"] = "10.8.0.0/24";
  Attach(Publishing(other, 8080, 80));
  const Snapshot before = TakeHostSnapshot();
  EXPECT_EQ(Gc(Valid({})).exit_code, 0);
  EXPECT_TRUE(Unchanged(before, TakeHostSnapshot()));
}

// Written by plugins that knew of one interface only: it stands for all of the container's.
TEST_F(GcTest, ALeaseWithoutAnInterfaceIsItsContainers) {
  const std::string folder = "/var/run/cni/nomad";
  std::filesystem::create_directories(folder);
  std::ofstream(Cat(folder, "/172.26.64.9")) << "kept";
  std::ofstream(Cat(folder, "/172.26.64.10")) << "gone";
  EXPECT_EQ(Gc(Valid({"kept"})).exit_code, 0);
  EXPECT_TRUE(std::filesystem::exists(Cat(folder, "/172.26.64.9")));
  EXPECT_FALSE(std::filesystem::exists(Cat(folder, "/172.26.64.10")));
}

// Two hosts, as two containers may be, that share /run.
TEST_F(GcTest, RecordsOfAnotherHostAreNotItsBusiness) {
  Attach(Config("1.1.0"));
  const std::string record = "/run/nomad-bridge/nomad/alloc-1@eth0.json";
  json value = json::parse(std::ifstream(record));
  value["hostNetns"]["inode"] = 1;
  std::ofstream(record) << value;
  EXPECT_EQ(Gc(Valid({})).exit_code, 0);
  EXPECT_TRUE(std::filesystem::exists(record));
}

TEST_F(GcTest, LeasesThatSomebodyElseLeftGo) {
  WarmUp();
  Attach(Config("1.1.0"));
  const Snapshot before = TakeHostSnapshot();
  std::ofstream("/run/cni/nomad/172.26.70.1") << "long-gone\r\neth0";
  std::ofstream("/run/cni/nomad/172.26.70.2") << "listed\r\neth0";
  EXPECT_EQ(Gc(Valid({"alloc-1", "listed"})).exit_code, 0);
  EXPECT_FALSE(std::filesystem::exists("/run/cni/nomad/172.26.70.1"));
  EXPECT_TRUE(std::filesystem::exists("/run/cni/nomad/172.26.70.2"))
      << "the reference plugins' attachments are valid, too";
  std::filesystem::remove("/run/cni/nomad/172.26.70.2");
  EXPECT_TRUE(Unchanged(before, TakeHostSnapshot()));
}

TEST_F(GcTest, WhatHasLostItsRecordGoesToo) {
  WarmUp();
  const Snapshot before = TakeHostSnapshot();
  Attach(Publishing(Config("1.1.0"), 8080, 80));
  std::filesystem::remove("/run/nomad-bridge/nomad/alloc-1@eth0.json");
  EXPECT_EQ(Gc(Valid({})).exit_code, 0);
  EXPECT_TRUE(Unchanged(before, TakeHostSnapshot()));
}

TEST_F(GcTest, LinksAndElementsWithoutRecordOrLeaseGoToo) {
  WarmUp();
  const Snapshot before = TakeHostSnapshot();
  Attach(Publishing(Config("1.1.0"), 8080, 80));
  std::filesystem::remove("/run/nomad-bridge/nomad/alloc-1@eth0.json");
  std::filesystem::remove_all("/run/cni/nomad");
  EXPECT_EQ(Gc(Valid({})).exit_code, 0);
  EXPECT_TRUE(Unchanged(before, TakeHostSnapshot()));
}

TEST_F(GcTest, ForeignPortsAndElementsStay) {
  Attach(Config("1.1.0"));
  host().Must({"ip", "link", "add", "tap0", "type", "veth", "peer", "name", "tap1"});
  host().Must({"ip", "link", "set", "tap0", "master", "nomad"});
  // Nobody's, and that of a link which is there.
  host().Must({"nft", "-f", "-"},
              "add element inet nomad-bridge alloc4 "
              "{ 172.26.70.1, 172.26.70.2 comment \"tap0 by hand\" }\n");
  const Snapshot before = TakeHostSnapshot();
  ASSERT_THAT(before.Lines(" element of alloc4"),
              AllOf(HasSubstr("172.26.70.1"), HasSubstr("tap0 by hand")));
  EXPECT_EQ(Gc(Valid({"alloc-1"})).exit_code, 0);
  EXPECT_TRUE(Unchanged(before, TakeHostSnapshot()));
}

TEST_F(GcTest, AListThatIsNoneIsAnErrorAndRemovesNothing) {
  Attach(Config("1.1.0"));
  const Snapshot before = TakeHostSnapshot();
  for (const char* list : {R"("alloc-1")", R"([{"containerID": "alloc-1"}])", R"([7])", "{}"}) {
    json config = Config("1.1.0");
    config["cni.dev/valid-attachments"] = json::parse(list);
    const Outcome gc = Gc(config);
    EXPECT_EQ(gc.exit_code, 1) << list << ": " << gc;
    EXPECT_THAT(gc.out, HasSubstr("cni.dev/valid-attachments"));
  }
  EXPECT_TRUE(Unchanged(before, TakeHostSnapshot()));
}

TEST_F(GcTest, OnABareMachine) {
  const Snapshot before = TakeSnapshot();
  const Outcome gc = Gc(Valid({}));
  EXPECT_EQ(gc.exit_code, 0) << gc;
  EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
}

}  // namespace
}  // namespace nomad_bridge::test
