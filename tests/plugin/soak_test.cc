// Many workers on many attachments with colliding ports, a third of them killed at some moment,
// while another program changes rules, everything is flushed now and then and the bridge is deleted
// twice: every attachment that is alive at the end works, and nothing is left of the others.
//
// NOMAD_BRIDGE_SOAK_SECONDS     how long (10)
// NOMAD_BRIDGE_SOAK_COMMANDS    so many commands instead, however long that takes
// NOMAD_BRIDGE_SOAK_CONTAINERS  of how many containers (100)
// NOMAD_BRIDGE_SOAK_SEED        what is done (a number; printed)
#include <iostream>
#include <list>
#include <random>

#include <poll.h>
#include <sys/wait.h>

#include "tests/support/world.h"

namespace nomad_bridge::test {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

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
    const unsigned containers = Number("NOMAD_BRIDGE_SOAK_CONTAINERS", 100);
    for (unsigned n = 0; n < containers; ++n) {
      const std::string id = Cat("c", n);
      const auto port = static_cast<std::uint16_t>(8000 + n % kPorts);
      attachments_.push_back({.id = id,
                              .container = &AddContainer(id),
                              .port = port,
                              .config = Publish({Port(port, 80), Port(port, 80, "udp")})});
    }
    host().Nft("table ip foreign { chain rules { }; }");
  }

  [[nodiscard]] unsigned Random(unsigned end) { return static_cast<unsigned>(random_() % end); }

  void StartOne() {
    Attachment& attachment = attachments_[Random(static_cast<unsigned>(attachments_.size()))];
    if (FindWorkerOf(attachment) != nullptr) {
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
    ++tally_[verb];
  }

  [[nodiscard]] const Worker* FindWorkerOf(const Attachment& attachment) const {
    const auto found = std::ranges::find(workers_, &attachment, &Worker::attachment);
    return found != workers_.end() ? &*found : nullptr;
  }

  // Of all that nobody is adding or removing just now.
  void ExpectNoOtherOwner(const Attachment& owner) {
    for (const Attachment& other : attachments_) {
      const Worker* const worker = FindWorkerOf(other);
      if (&other == &owner || other.result.is_null() || (worker && worker->verb != "CHECK")) {
        continue;
      }
      EXPECT_NE(AddressOf(other.result), AddressOf(owner.result)) << owner.id << ' ' << other.id;
      EXPECT_NE(other.port, owner.port) << owner.id << ' ' << other.id;
    }
  }

  // An ADD may be refused as somebody else has the port; whatever runs while the bridge is deleted
  // may fail, but for a DEL.
  void Finish(Worker& worker, int status) {
    const Outcome outcome = worker.process.Collect(status);
    json& result = worker.attachment->result;
    const bool is_refused = worker.verb == "ADD" && ErrorCode(outcome) == 102;
    const bool may_fail = worker.lost_its_bridge && worker.verb != "DEL" && ErrorCode(outcome) > 0;
    EXPECT_TRUE(outcome.exit_code == 0 || outcome.exit_code == 128 + SIGKILL || is_refused ||
                may_fail)
        << worker.verb << ' ' << outcome;
    tally_[is_refused ? "port taken" : may_fail ? "bridge gone" : ""] += 1;
    tally_["killed"] += outcome.exit_code == 128 + SIGKILL;
    if (worker.verb == "ADD") {
      result = outcome.exit_code == 0 ? outcome.json : json();
      if (!result.is_null()) {
        ExpectNoOtherOwner(*worker.attachment);
      }
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

  // Every 50 ms: what others do to the node meanwhile.
  void Disturb(unsigned step) {
    host().Must(Words("nft add rule ip foreign rules accept"));
    if (step % 40 == 39) {
      host().Must(Words("nft flush ruleset"));
      host().Nft("table ip foreign { chain rules { }; }");
      ++tally_["flushes"];
    }
    if (const int next = tally_["bridge deletions"] + 1; next < 3 && Progress() * 3 >= next) {
      static_cast<void>(host().Run(Words("ip link delete nomad")));
      for (Worker& worker : workers_) {
        worker.lost_its_bridge = true;
      }
      ++tally_["bridge deletions"];
    }
  }

  // 1 at the end.
  [[nodiscard]] double Progress() const {
    const std::chrono::duration<double> elapsed = Clock::now() - start_;
    return most_commands_ != 0 ? commands_ / double(most_commands_) : elapsed.count() / seconds_;
  }

  const unsigned seconds_ = Number("NOMAD_BRIDGE_SOAK_SECONDS", 10);
  const unsigned most_commands_ = Number("NOMAD_BRIDGE_SOAK_COMMANDS", 0);
  std::mt19937 random_;  // NOLINT(cert-msc51-cpp): seeded by the test
  std::vector<Attachment> attachments_;
  std::list<Worker> workers_;
  unsigned commands_ = 0;
  std::map<std::string, int> tally_;
  Clock::time_point start_;
};

TEST_F(Soak, LeavesLiveAttachmentsWorkingAndNothingOfOthers) {
  const unsigned seed = Number("NOMAD_BRIDGE_SOAK_SEED", std::random_device()());
  SCOPED_TRACE(Cat("NOMAD_BRIDGE_SOAK_SEED=", seed));
  random_.seed(seed);
  start_ = Clock::now();
  for (unsigned step = 0; Progress() < 1 && !HasFailure(); ++step) {
    const Clock::time_point end = Clock::now() + milliseconds(50);
    do {
      while (workers_.size() < std::min(kWorkers, attachments_.size())) {
        StartOne();
      }
      Reap();
    } while (Clock::now() < end);
    Disturb(step);
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
  tally_["survivors"] = static_cast<int>(ports.size());
  tally_.erase("");
  std::cout << commands_ << " commands: " << json(tally_) << '\n';
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
