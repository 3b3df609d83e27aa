// An ADD by one of the names of which the kernel refuses one request or another call, whichever it
// is: what the plugins before it have made is as they left it, and DEL of the list removes that,
// too.
#include <sys/syscall.h>

#include "tests/support/refusal.h"
#include "tests/support/world.h"

namespace nomad_bridge::test {
namespace {

// In Nomad's list; its first, loopback, makes nothing.
struct ListEntry : Named {
  std::size_t place;
};

struct RefusedCall : Named {
  int call;
  int error;
  bool is_frequent = false;
};

class RefusedName : public World,
                    public ::testing::WithParamInterface<std::tuple<ListEntry, RefusedCall>> {
 protected:
  static std::size_t Place() { return std::get<0>(GetParam()).place; }

  [[nodiscard]] Refusal RunRefused(const Command& command, int nth) const {
    const RefusedCall& refused = std::get<1>(GetParam());
    return RunFailingAt(command, nth, refused.call, refused.error);
  }

  // An ADD of the list up to our plugin, refused its N-th request. False if it made fewer.
  bool ExpectNothingIsLeft(int nth, const Snapshot& nothing) {
    json result;
    for (std::size_t i = 0; i < Place(); ++i) {
      result = MustRunEntry("ADD", network_, i, allocation_, result).json;
    }
    const Snapshot before = TakeSnapshot();
    const Refusal refusal =
        RunRefused(EntryCommand("ADD", network_, Place(), allocation_, result), nth);
    if (refusal.IsFailure()) {
      EXPECT_GT(ErrorCode(refusal.outcome), 0) << refusal.outcome;
      EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
    }
    MustDelFrom(network_, allocation_);
    EXPECT_TRUE(Unchanged(nothing, TakeSnapshot()));
    return refusal.happened;
  }

  const Network network_ = ByOurs(Conflist("nomad_builtin_bridge"));
  const Attached allocation_ = WithPorts("alloc-1",
                                         container(),
                                         {Port(8080, 80), Port(8053, 53, "udp")},
                                         NomadArgs("billing", "alloc-1"));
};

TEST_P(RefusedName, LeavesWhatEarlierPluginsMade) {
  MustDelFrom(network_, MustAdd(network_, allocation_));  // leaves behind what is shared

  const Snapshot nothing = TakeSnapshot();
  int refused = 0;
  // The others make few requests: with a step of 7, `firewall` might be refused none.
  const bool is_sampled =
      std::get<1>(GetParam()).is_frequent && std::get<0>(GetParam()).name == std::string("Bridge");
  for (int nth = is_sampled ? FirstPoint() : 1; !HasFailure();
       nth += is_sampled ? PointStep() : 1) {
    SCOPED_TRACE(Cat("call ", nth));
    if (!ExpectNothingIsLeft(nth, nothing)) {
      break;
    }
    ++refused;
  }
  EXPECT_GT(refused, 0);
}

class RefusedRetry : public World {};

// Behind a foreign interface there is nothing but portmap's part, which an ADD replaces.
TEST_F(RefusedRetry, LeavesNoEmptyRecord) {
  const Network network = ByOurs(ListOf({PortmapEntry()}));
  const Attached attached = WithPorts("c1", container(), {Port(8080, 80)});
  const json before = {{"cniVersion", "1.0.0"}, {"ips", {{{"address", "10.9.0.2/24"}}}}};
  const std::string record = "/run/nomad-bridge/net/c1@eth0.json";

  int failed = 0;
  for (int nth = 1;; ++nth) {
    SCOPED_TRACE(Cat("request ", nth));
    MustRunEntry("ADD", network, 0, attached, before);
    const Refusal refusal = RunRefusedAt(EntryCommand("ADD", network, 0, attached, before), nth);
    if (!refusal.happened) {
      EXPECT_EQ(refusal.outcome.exit_code, 0) << refusal.outcome;
      break;
    }
    failed += refusal.outcome.exit_code != 0 ? 1 : 0;
    if (const std::optional<std::string> text = FindFile(record)) {
      EXPECT_TRUE(json::parse(*text).at("parts").contains("ports")) << *text;
      EXPECT_EQ(json::parse(*text).at("parts").size(), 1U) << *text;
    }
    MustRunEntry("DEL", network, 0, attached, nullptr);
    EXPECT_EQ(FindFile(record), std::nullopt);
  }
  EXPECT_GT(failed, 1);
}

const auto kEntries =
    ::testing::Values(ListEntry{"Bridge", 1}, ListEntry{"Firewall", 2}, ListEntry{"Portmap", 3});
const auto kNameOfRefusal = [](const auto& row) {
  return Cat(std::get<0>(row.param).name, std::get<1>(row.param).name);
};

INSTANTIATE_TEST_SUITE_P(
    Of,
    RefusedName,
    ::testing::Combine(kEntries,
                       ::testing::Values(RefusedCall{"Requests", SYS_sendto, EPERM, true},
                                         RefusedCall{"Write", SYS_write, ENOSPC})),
    kNameOfRefusal);
INSTANTIATE_TEST_SUITE_P(
    ThoroughOf,
    RefusedName,
    ::testing::Combine(kEntries,
                       ::testing::Values(RefusedCall{"Socket", SYS_socket, ENOBUFS},
                                         RefusedCall{"Fcntl", SYS_fcntl, EINTR},
                                         RefusedCall{"Rename", kRenameCall, ENOSPC})),
    kNameOfRefusal);

}  // namespace
}  // namespace nomad_bridge::test
