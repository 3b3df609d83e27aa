// Addresses: which one an attachment gets, and from where.
#include "tests/support/world.h"

namespace nomad_bridge::test {
namespace {

class Address : public World {
 protected:
  // ADDs for container `id`, in a namespace of its own; its addresses.
  std::vector<std::string> AddressesOf(const std::string& id,
                                       const json& config,
                                       const std::string& args = "") {
    Variables variables = As(id, AddContainer(id));
    if (!args.empty()) {
      variables["CNI_ARGS"] = args;
    }
    return AddressesIn(Attach(config, variables));
  }
};

TEST_F(Address, IsTheFirstOfTheDefaultSubnetWithoutOptions) {
  const json result = Attach(Config());

  EXPECT_THAT(AddressesIn(result), ElementsAre("172.26.64.2/20"));
  EXPECT_THAT(AddressesOn(container(), "eth0"), ElementsAre("172.26.64.2/20"));
  EXPECT_EQ(At(result, "/ips/0/gateway"), "172.26.64.1");
  EXPECT_EQ(At(LinkOn(container(), "eth0"), "/addr_info/0/broadcast"), "172.26.79.255");
}

TEST_F(Address, ComesFromEachRangeSetOfEachFamily) {
  const json config = Config(R"({"ipam": {"ranges": [
      [{"subnet": "10.1.0.0/24"}], [{"subnet": "fd00:1::/64"}],
      [{"subnet": "10.2.0.0/28", "rangeStart": "10.2.0.9", "gateway": "10.2.0.5"}],
      [{"subnet": "fd00:2::/64", "rangeStart": "fd00:2::100", "rangeEnd": "fd00:2::1ff"}]]}})");

  const json result = Attach(config);

  const std::vector<std::string> expected = {
      "10.1.0.2/24", "fd00:1::2/64", "10.2.0.9/28", "fd00:2::100/64"};
  EXPECT_EQ(AddressesIn(result), expected);
  EXPECT_THAT(AddressesOn(container(), "eth0"), UnorderedElementsAreArray(expected));
  EXPECT_THAT(AddressesOn(host(), "nomad"),
              UnorderedElementsAre("10.1.0.1/24", "10.2.0.5/28", "fd00:1::1/64", "fd00:2::1/64"));
  EXPECT_EQ(Leased(), (std::set<std::string>{"10.1.0.2", "10.2.0.9", "fd00:1::2", "fd00:2::100"}));
  for (const char* gateway : {"10.1.0.1", "10.2.0.5", "fd00:1::1", "fd00:2::1"}) {
    EXPECT_TRUE(Ping(container(), gateway)) << gateway;
  }
}

TEST_F(Address, ComesFromTheNextRangeOfTheSetWhenOneIsFull) {
  const json config = Config(R"({"ipam": {"ranges": [[
      {"subnet": "10.1.0.0/24", "rangeStart": "10.1.0.7", "rangeEnd": "10.1.0.8"},
      {"subnet": "10.2.0.0/24", "rangeStart": "10.2.0.20", "rangeEnd": "10.2.0.21"}]]}})");

  EXPECT_THAT(AddressesOf("a", config), ElementsAre("10.1.0.7/24"));
  EXPECT_THAT(AddressesOf("b", config), ElementsAre("10.1.0.8/24"));
  const json third = Attach(config);
  EXPECT_THAT(AddressesIn(third), ElementsAre("10.2.0.20/24"));
  EXPECT_EQ(At(third, "/ips/0/gateway"), "10.2.0.1");
  EXPECT_TRUE(Ping(container(), "10.2.0.1"));
}

// ---- asked for by name

struct AddressRequest : Named {
  const char* config;
  const char* args;
};

class RequestedAddress : public Address, public ::testing::WithParamInterface<AddressRequest> {};

TEST_P(RequestedAddress, IsGranted) {
  const json config = DualStack(GetParam().config);

  EXPECT_THAT(AddressesOf("wisher", config, GetParam().args),
              ElementsAre("172.26.64.77/20", "fd00:26::2/64"));
  EXPECT_EQ(Lease("172.26.64.77"), "wisher\r\neth0");
}

TEST_P(RequestedAddress, IsRefusedWithTheNameOfItsOwner) {
  Attach(DualStack(), {{"CNI_ARGS", "IgnoreUnknown=1;IP=172.26.64.77;NOMAD_JOB_ID=billing"}});
  Variables variables = As("alloc-2", AddContainer("second"));
  variables["CNI_ARGS"] = GetParam().args;

  EXPECT_THAT(MustRefuse(102, DualStack(GetParam().config), variables),
              AllOf(Msg(HasSubstr("172.26.64.77")), Msg(HasSubstr("billing"))));
}

INSTANTIATE_TEST_SUITE_P(
    Every,
    RequestedAddress,
    ::testing::Values(
        AddressRequest{"Args", "{}", "IP=172.26.64.77"},
        AddressRequest{"ArgsWithPrefix", "{}", "IP=172.26.64.77/24"},
        AddressRequest{"ArgsCni", R"({"args": {"cni": {"ips": ["172.26.64.77"]}}})", ""},
        AddressRequest{"Runtime", R"({"runtimeConfig": {"ips": ["172.26.64.77/20"]}})", ""}),
    kNameOf);

TEST_F(Address, MayBeRequestedDifferentlyForEachFamily) {
  const json config = DualStack(R"({"runtimeConfig": {"ips": ["fd00:26::beef/64"]}})");

  EXPECT_THAT(AddressesOf("wisher", config, "IP=172.26.64.77"),
              ElementsAre("172.26.64.77/20", "fd00:26::beef/64"));
}

TEST_F(Address, IsRefusedIfTheNetworkDoesNotOfferIt) {
  for (const char* address :
       {"172.26.64.1", "172.26.64.0", "172.26.79.255", "10.0.0.1", "fd00::5"}) {
    EXPECT_THAT(MustRefuse(7, Config(), {{"CNI_ARGS", Cat("IP=", address)}}),
                Msg(HasSubstr(address)));
  }
}

// ---- order

TEST_F(Address, IsReleasedWhenTheOtherFamilyIsFull) {
  const json config = Config(
      R"({"ipam": {"ranges": [[{"subnet": "fd00:26::/64"}], [{"subnet": "10.5.0.0/30"}]]}})");
  ASSERT_EQ(AddressesOf("a", config).size(), 2U);

  MustRefuse(101, config);

  EXPECT_EQ(Leased(), (std::set<std::string>{"10.5.0.2", "fd00:26::2"}));
}

}  // namespace
}  // namespace nomad_bridge::test
