// A command is held before its N-th visible system call, another one runs, and the first goes on: for
// every N and every pair. At the end nobody shares a port or an address, who is attached works, and all
// of it can be removed.
//
// NOMAD_BRIDGE_EVERY  every how many calls (10; 1 takes ten times as long)
#include <cstdlib>
#include <memory>
#include <ostream>
#include <tuple>

#include <poll.h>
#include <sys/wait.h>

#include "tests/plugin/repair_sweep.h"

namespace nomad_bridge::test {
namespace {

constexpr const char* kOther = "other";
constexpr std::chrono::milliseconds kBlocked{150};  // by a lock of the one that is held

int EveryHowManyCalls() {
  const char* const text = std::getenv("NOMAD_BRIDGE_EVERY");
  return text != nullptr ? std::stoi(text) : 10;
}

struct Second : Named {
  bool is_attached = false;  // the other attachment is there before
  bool breaks_things = false;
  bool is_about_the_same = false;  // the attachment of the first: then one waits for the other
};

// NOLINTNEXTLINE(bugprone-exception-escape): a table of names
const Second kSeconds[] = {
    {"AddsAnother"},
    {"AddsAnotherWithTheSamePort"},
    {"RemovesAnother", true},
    {"ChecksAnother", true},
    {"CollectsGarbage", true},
    {"ChangesAForeignRule", true, true},
    {"FlushesTheRules", true, true},
    {"DeletesTheBridge", true, true},
    {"AddsTheSame", false, false, true},
    {"RemovesTheSame", false, false, true},
    {"ChecksTheSame", false, false, true},
};

class Interleaving : public SweepWorld,
                     public ::testing::WithParamInterface<std::tuple<std::string, Second>> {
 protected:
  Interleaving() {
    host().Must({"nft", "table ip foreign { chain rules { }; }"});
    any_result_ = Attach(config_);
    Detach(config_);
  }

  [[nodiscard]] static std::string FirstVerb() { return std::get<0>(GetParam()); }
  [[nodiscard]] static const Second& TheSecond() { return std::get<1>(GetParam()); }
  [[nodiscard]] bool Is(const std::string& name) const { return TheSecond().name == name; }

  [[nodiscard]] Variables Other() { return As(kOther, OtherContainer()); }
  [[nodiscard]] Node& OtherContainer() { return *other_; }

  void Prepare() {
    result_ = nullptr;
    other_result_ = nullptr;
    other_config_ = Publish({Port(Is("AddsAnotherWithTheSamePort") ? 8080 : 9090, 80)});
    if (FirstVerb() != "ADD") {
      result_ = Attach(config_);
    }
    before_ = result_.is_null() ? any_result_ : result_;
    if (TheSecond().is_attached) {
      other_result_ = Attach(other_config_, Other());
    }
  }

  [[nodiscard]] Command First() {
    if (FirstVerb() == "GC") {
      return PluginCommand("GC", WithValid({kOther}).dump(), kNoContainer);
    }
    return PluginCommand(FirstVerb(),
                         (FirstVerb() == "CHECK" ? WithResult(config_, result_) : config_).dump());
  }

  // Starts it if it is a command of ours.
  [[nodiscard]] std::unique_ptr<Process> StartSecond() {
    if (Is("AddsAnother") || Is("AddsAnotherWithTheSamePort")) {
      return std::make_unique<Process>(StartPlugin("ADD", other_config_, Other()));
    }
    if (Is("AddsTheSame") || Is("RemovesTheSame")) {
      return std::make_unique<Process>(StartPlugin(Is("AddsTheSame") ? "ADD" : "DEL", config_));
    }
    if (Is("ChecksTheSame")) {
      return std::make_unique<Process>(StartPlugin("CHECK", WithResult(config_, before_)));
    }
    if (Is("RemovesAnother")) {
      return std::make_unique<Process>(StartPlugin("DEL", other_config_, Other()));
    }
    if (Is("ChecksAnother")) {
      return std::make_unique<Process>(
          StartPlugin("CHECK", WithResult(other_config_, other_result_), Other()));
    }
    if (Is("CollectsGarbage")) {
      return std::make_unique<Process>(
          StartPlugin("GC", WithValid({"alloc-1", kOther}), kNoContainer));
    }
    if (Is("DeletesTheBridge")) {
      static_cast<void>(host().Run(Words("ip link delete nomad")));
    } else {
      host().Must(Words(Is("FlushesTheRules") ? "nft flush ruleset"
                                              : "nft add rule ip foreign rules accept"));
      static_cast<void>(host().Run({"nft", "add table ip foreign; add chain ip foreign rules"}));
    }
    return nullptr;
  }

  // Until it has ended, or waits for a lock.
  static std::optional<Outcome> Await(Process& process) {
    const auto deadline = std::chrono::steady_clock::now() + kBlocked;
    int status = 0;
    while (std::chrono::steady_clock::now() < deadline) {
      if (::waitpid(process.pid(), &status, WNOHANG) == process.pid()) {
        return process.Collect(status);
      }
      ::poll(nullptr, 0, 1);
    }
    return std::nullopt;
  }

  // False if the first command makes fewer calls.
  bool Run(int nth) {
    std::unique_ptr<Process> process;
    std::optional<Outcome> second;
    bool was_held = false;
    const Killing first = RunDisturbedAt(First(), nth, [&] {
      was_held = true;
      process = StartSecond();
      second = process ? Await(*process) : std::nullopt;
    });
    if (process && !second) {
      second = process->Wait();
    }
    if (second && TheSecond().is_about_the_same) {
      NoteTheSame(first.outcome, *second);
    } else {
      Note(first.outcome, second);
    }
    return was_held;
  }

  void Note(const Outcome& first, const std::optional<Outcome>& second) {
    const bool may_be_refused = Is("AddsAnotherWithTheSamePort") || Is("DeletesTheBridge");
    EXPECT_TRUE(first.exit_code == 0 || (may_be_refused && ErrorCode(first) > 0)) << first;
    if (FirstVerb() == "ADD") {
      result_ = first.json.contains("ips") ? first.json : json();
    } else if (FirstVerb() != "CHECK") {
      result_ = nullptr;
    }
    if (!second) {
      return;
    }
    EXPECT_TRUE(second->exit_code == 0 || (may_be_refused && ErrorCode(*second) == 102)) << *second;
    if (Is("RemovesAnother")) {
      other_result_ = nullptr;
    } else if (!TheSecond().is_attached) {
      other_result_ = second->json.contains("ips") ? second->json : json();
    }
  }

  // The record tells which one was the last.
  void NoteTheSame(const Outcome& first, const Outcome& second) {
    for (const Outcome& outcome : {first, second}) {
      // CHECK: changed, or not added.
      EXPECT_TRUE(outcome.exit_code == 0 || ErrorCode(outcome) == 102 || ErrorCode(outcome) == 103)
          << outcome;
    }
    for (const Outcome& outcome : {first, second}) {
      result_ = outcome.json.contains("ips") ? outcome.json : result_;
    }
    if (Entries(kRecords).size() == (other_result_.is_null() ? 0 : 1)) {
      result_ = nullptr;
    }
  }

  void ExpectWorks(const json& config, const json& result, Node& node, const std::string& id) {
    if (result.is_null()) {
      return;
    }
    const Outcome check = MustCheck(config, result, As(id, node));
    if (!TheSecond().breaks_things) {
      EXPECT_EQ(check.err, "") << "there was something to repair";
    }
    const Server page = Server::Start(node, Protocol::kTcp, "0.0.0.0", 80, id);
    EXPECT_EQ(TcpText(outside(), kHostIp4, config == config_ ? 8080 : 9090), id);
  }

  void ExpectAllIsWell() {
    const bool same_port = Is("AddsAnotherWithTheSamePort");
    EXPECT_FALSE(same_port && !result_.is_null() && !other_result_.is_null()) << "two owners";
    EXPECT_FALSE(same_port && FirstVerb() == "ADD" && result_.is_null() && other_result_.is_null())
        << "no owner";
    ExpectWorks(config_, result_, container(), "alloc-1");
    ExpectWorks(other_config_, other_result_, OtherContainer(), kOther);
    Detach(config_);
    Detach(other_config_, Other());
    EXPECT_THAT(host().Must(Words("nft list ruleset")), Not(HasSubstr("comment \"veth")));
    EXPECT_EQ(PortsOf("nomad"), json::array());
    EXPECT_THAT(Entries(kRecords), IsEmpty());
    EXPECT_THAT(Leased(), IsEmpty());
  }

  const json config_ = Publish({Port(8080, 80)});
  json other_config_;
  json any_result_;
  json before_;  // what CHECK of the first one is given
  json result_;  // of the first one, if it is attached; else null
  json other_result_;
  Node* other_ = &AddContainer(kOther);
};

TEST_P(Interleaving, EndsWell) {
  Prepare();
  for (int nth = 1; Run(nth) && !HasFailure(); nth += EveryHowManyCalls()) {
    SCOPED_TRACE(Cat("held before call ", nth));
    ExpectAllIsWell();
    Prepare();
  }
  ExpectAllIsWell();
}

INSTANTIATE_TEST_SUITE_P(Of,
                         Interleaving,
                         ::testing::Combine(::testing::Values("ADD", "DEL", "CHECK", "GC"),
                                            ::testing::ValuesIn(kSeconds)),
                         [](const auto& row) {
                           return Cat(std::get<0>(row.param), "While", std::get<1>(row.param).name);
                         });

}  // namespace
}  // namespace nomad_bridge::test
