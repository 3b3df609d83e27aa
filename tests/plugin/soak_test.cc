// Many workers on many attachments with colliding ports, a third of them killed at some moment, while
// another program changes rules, everything is flushed now and then and the bridge is deleted twice:
// every attachment that is alive at the end works, and nothing is left of the others.
//
// NOMAD_BRIDGE_SOAK_SECONDS  how long (10), NOMAD_BRIDGE_SOAK_SEED  what is done (a number; printed)
#include <cstdlib>
#include <list>
#include <random>

#include <poll.h>
#include <sys/wait.h>

#include "tests/support/world.h"

namespace nomad_bridge::test {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::size_t kAttachments = 100;
constexpr std::size_t kWorkers = 16;
constexpr std::size_t kPorts = 40;

unsigned Number(const char* variable, unsigned otherwise) {
  const char* const text = std::getenv(variable);
  return text != nullptr ? static_cast<unsigned>(std::stoul(text)) : otherwise;
}

class Soak : public World {
 protected:
  struct Attachment {
    std::string id;
    Node* container = nullptr;
    std::uint16_t port = 0;
    json config;
    json result;  // of its last ADD, as long as it is alive; else null
  };

  struct Worker {
    Process process;
    Attachment* attachment = nullptr;
    std::string verb;
    bool lost_its_bridge = false;
    Clock::time_point killed_at = Clock::time_point::max();
  };

  Soak() {
    for (std::size_t n = 0; n < kAttachments; ++n) {
      const std::string id = Cat("c", n);
      const auto port = static_cast<std::uint16_t>(8000 + n % kPorts);
      attachments_.push_back({.id = id,
                              .container = &AddContainer(id),
                              .port = port,
                              .config = Publish({Port(port, 80), Port(port, 80, "udp")})});
    }
    host().Must({"nft", "table ip foreign { chain rules { }; }"});
  }

  [[nodiscard]] unsigned Random(unsigned end) { return static_cast<unsigned>(random_() % end); }

  void StartOne() {
    Attachment& attachment = attachments_[Random(kAttachments)];
    const bool is_busy = std::ranges::any_of(
        workers_, [&](const Worker& worker) { return worker.attachment == &attachment; });
    if (is_busy) {
      return;
    }
    const unsigned choice = Random(10);
    const std::string verb = choice < 5                                   ? "ADD"
                             : choice < 7 && !attachment.result.is_null() ? "CHECK"
                                                                          : "DEL";
    const json config =
        verb == "CHECK" ? WithResult(attachment.config, attachment.result) : attachment.config;
    Worker worker{.process = StartPlugin(verb, config, As(attachment.id, *attachment.container)),
                  .attachment = &attachment,
                  .verb = verb};
    if (Random(3) == 0) {
      worker.killed_at = Clock::now() + std::chrono::microseconds(Random(12000));
    }
    workers_.push_back(std::move(worker));
    ++commands_;
  }

  // An ADD may be refused as somebody else has the port; whatever runs while the bridge is deleted may
  // fail, but for a DEL.
  void Finish(Worker& worker, int status) {
    const Outcome outcome = worker.process.Collect(status);
    json& result = worker.attachment->result;
    const bool is_refused = worker.verb == "ADD" && ErrorCode(outcome) == 102;
    const bool may_fail = worker.lost_its_bridge && worker.verb != "DEL" && ErrorCode(outcome) > 0;
    EXPECT_TRUE(outcome.exit_code == 0 || outcome.exit_code == 128 + SIGKILL || is_refused ||
                may_fail)
        << worker.verb << ' ' << outcome;
    if (worker.verb == "ADD") {
      result = outcome.exit_code == 0 ? outcome.json : json();
    } else if (worker.verb == "DEL") {
      result = nullptr;
    }
  }

  void Reap() {
    std::erase_if(workers_, [&](Worker& worker) {
      if (Clock::now() >= worker.killed_at) {
        ::kill(worker.process.pid(), SIGKILL);
      }
      int status = 0;
      if (::waitpid(worker.process.pid(), &status, WNOHANG) != worker.process.pid()) {
        return false;
      }
      Finish(worker, status);
      return true;
    });
    ::poll(nullptr, 0, 1);
  }

  // What others do to the node meanwhile, `step` times 50 ms after the start.
  void Disturb(unsigned step, unsigned steps) {
    host().Must(Words("nft add rule ip foreign rules accept"));
    if (step % 60 == 59) {
      host().Must(Words("nft flush ruleset"));
      host().Must({"nft", "table ip foreign { chain rules { }; }"});
    }
    if (step == steps / 3 || step == steps * 2 / 3) {
      static_cast<void>(host().Run(Words("ip link delete nomad")));
      for (Worker& worker : workers_) {
        worker.lost_its_bridge = true;
      }
    }
  }

  std::mt19937 random_;  // NOLINT(cert-msc51-cpp): seeded by the test
  std::vector<Attachment> attachments_;
  std::list<Worker> workers_;
  int commands_ = 0;
};

TEST_F(Soak, LeavesEverySurvivorAtWorkAndNothingOfTheOthers) {
  const unsigned seconds = Number("NOMAD_BRIDGE_SOAK_SECONDS", 10);
  const unsigned seed = Number("NOMAD_BRIDGE_SOAK_SEED", std::random_device()());
  SCOPED_TRACE(Cat("NOMAD_BRIDGE_SOAK_SEED=", seed));
  random_.seed(seed);
  const unsigned steps = seconds * 20;
  const Clock::time_point start = Clock::now();
  for (unsigned step = 0; step < steps && !HasFailure(); ++step) {
    while (Clock::now() < start + milliseconds(50) * step) {
      while (workers_.size() < kWorkers) {
        StartOne();
      }
      Reap();
    }
    Disturb(step, steps);
  }
  while (!workers_.empty()) {
    Reap();
  }

  std::set<std::string> addresses;
  std::set<std::uint16_t> ports;
  for (const Attachment& attachment : attachments_) {
    if (attachment.result.is_null()) {
      continue;
    }
    SCOPED_TRACE(attachment.id);
    MustCheck(attachment.config, attachment.result, As(attachment.id, *attachment.container));
    EXPECT_TRUE(addresses.insert(AddressOf(attachment.result)).second) << "two owners";
    EXPECT_TRUE(ports.insert(attachment.port).second) << "two owners of a port";
    const Server page =
        Server::Start(*attachment.container, Protocol::kTcp, "0.0.0.0", 80, attachment.id);
    EXPECT_EQ(TcpText(outside(), kHostIp4, attachment.port), attachment.id);
    EXPECT_TRUE(Ping(*attachment.container, kOutsideIp4));
  }
  RecordProperty("commands", commands_);
  EXPECT_THAT(ports, Not(IsEmpty()));

  for (const Attachment& attachment : attachments_) {
    Detach(attachment.config, As(attachment.id, *attachment.container));
  }
  EXPECT_THAT(host().Must(Words("nft list ruleset")), Not(HasSubstr("comment \"veth")));
  EXPECT_THAT(Entries(kRecords), IsEmpty());
  EXPECT_THAT(Leased(), IsEmpty());
  EXPECT_EQ(PortsOf("nomad"), json::array());
  EXPECT_EQ(Lines(host().Must(Words("ip -o link show type veth"))).size(), 1U) << "the uplink";
}

}  // namespace
}  // namespace nomad_bridge::test
