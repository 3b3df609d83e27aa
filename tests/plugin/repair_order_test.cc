// The order of removal: an address is given back only when nothing leads to it any more, or the next
// owner of the address would get what is meant for the last one.
#include <filesystem>
#include <regex>

#include <unistd.h>

#include "tests/support/world.h"

namespace nomad_bridge::test {
namespace {

class Order : public World {
 protected:
  Order() {
    Attach(DualStack(), As("neighbour", AddContainer("neighbour")));
    UseOnce(config_);
  }

  // Attached under the name, by which it gets the addresses that are observed.
  void AttachObserved() { Observe(Attach(config_)); }
  void Observe(const json& result) {
    addresses_ = {AddressOf(result, 4), AddressOf(result, 6)};
    veth_ = HostVethOf(result);
  }

  // Between any two of its calls that change something.
  void ExpectInOrder(Command command) {
    int looks_with_lease = 0;
    int looks_without = 0;
    const Killing command_run = RunObserved(std::move(command), [&] {
      const std::string ruleset = host().Must({"nft", "list", "ruleset"});
      for (const std::string& address : addresses_) {
        if (std::filesystem::exists(Cat(kLeases, '/', address))) {
          ++looks_with_lease;
          continue;
        }
        ++looks_without;
        EXPECT_FALSE(HasInterface(host(), veth_)) << "the link leads to the free " << address;
        EXPECT_FALSE(std::regex_search(ruleset, std::regex(Cat("\\b", address, "\\b(?!/)"))))
            << "rules name the free " << address;
      }
    });
    EXPECT_GT(looks_with_lease, 4) << command_run.outcome;
    EXPECT_GT(looks_without, 0) << command_run.outcome;
    for (const std::string& address : addresses_) {
      EXPECT_FALSE(std::filesystem::exists(Cat(kLeases, '/', address)));
    }
  }

  const json config_ = Publish({Port(8080, 80), Port(8053, 53, "udp")}, DualStack());
  std::vector<std::string> addresses_;
  std::string veth_;
};

TEST_F(Order, OfDelReleasesTheAddressLast) {
  AttachObserved();
  ExpectInOrder(PluginCommand("DEL", config_.dump()));
}

TEST_F(Order, OfDelWithoutARecordReleasesTheAddressLast) {
  AttachObserved();
  std::filesystem::remove(RecordOf("alloc-1"));
  ExpectInOrder(PluginCommand("DEL", config_.dump()));
}

TEST_F(Order, OfGcReleasesTheAddressLast) {
  AttachObserved();
  ExpectInOrder(PluginCommand("GC", WithValid({"neighbour"}, config_).dump(), kNoContainer));
}

// Undone, as its result cannot be written.
TEST_F(Order, OfAFailedAddReleasesTheAddressLast) {
  AttachObserved();  // an ADD takes the addresses of an earlier one again
  Command command = PluginCommand("ADD", config_.dump());
  command.in_child = [] { ::close(STDOUT_FILENO); };
  ExpectInOrder(std::move(command));
}

}  // namespace
}  // namespace nomad_bridge::test
