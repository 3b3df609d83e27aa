#include "plugin/link/container.h"
#include "tests/support/test.h"

namespace nomad_bridge {
namespace {

const Cidr kOurs = Cidr::Parse("10.0.0.2/24").value();
const Cidr kOther = Cidr::Parse("10.0.1.2/24").value();

cni::Request RequestIn(const std::string& netns_path) {
  return {.id = {"nomad", "alloc-1", "eth0"}, .netns_path = netns_path};
}

TEST(AddressesIn, BelongToTheInterfaceInTheSandbox) {
  const cni::Result result = {
      .interfaces = {{.name = "eth0"}, {.name = "eth0", .sandbox = "/run/netns/a"}},
      .ips = {{.interface = 0, .address = kOther}, {.interface = 1, .address = kOurs}}};
  EXPECT_THAT(link::AddressesIn(result, RequestIn("/run/netns/a")), ElementsAre(kOurs));
}

TEST(AddressesIn, PreferTheRequestedSandbox) {
  const cni::Result result = {
      .interfaces = {{.name = "eth0", .sandbox = "/run/netns/b"},
                     {.name = "eth0", .sandbox = "/run/netns/a"}},
      .ips = {{.interface = 0, .address = kOther}, {.interface = 1, .address = kOurs}}};
  EXPECT_THAT(link::AddressesIn(result, RequestIn("/run/netns/a")), ElementsAre(kOurs));
}

TEST(AddressesIn, AreFoundUnderAnotherSpellingOfTheSandbox) {
  const cni::Result result = {.interfaces = {{.name = "eth0", .sandbox = "/var/run/netns/a"}},
                              .ips = {{.interface = 0, .address = kOurs}}};
  EXPECT_THAT(link::AddressesIn(result, RequestIn("/run/netns/a")), ElementsAre(kOurs));
  EXPECT_THAT(link::AddressesIn(result, RequestIn("")), ElementsAre(kOurs));
}

TEST(AddressesIn, IncludeAddressesWithoutAnInterface) {
  const cni::Result result = {.ips = {{.address = kOurs}}};
  EXPECT_THAT(link::AddressesIn(result, RequestIn("/run/netns/a")), ElementsAre(kOurs));
}

TEST(AddressesIn, LeaveOutAddressesOfAnotherInterface) {
  const cni::Result result = {.interfaces = {{.name = "eth1", .sandbox = "/run/netns/a"}},
                              .ips = {{.interface = 0, .address = kOther}}};
  EXPECT_THAT(link::AddressesIn(result, RequestIn("/run/netns/a")), IsEmpty());
}

}  // namespace
}  // namespace nomad_bridge
