// DEL has a child delete the link, which waits for the kernel's grace period when DEL has ended.
#include <csignal>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/plugin/repair_sweep.h"
#include "tests/support/refusal.h"

namespace nomad_bridge::test {
namespace {

constexpr const char* kChildren = "/run/nomad-bridge/.children";

class DelChild : public SweepWorld {
 protected:
  void SetUp() override {
    UseOnce(config_);
    before_ = TakeBriefSnapshot();
  }

  [[nodiscard]] Command Del() { return PluginCommand("DEL", config_.dump()); }

  // How many calls the child makes, of an attachment made for it.
  [[nodiscard]] int CountCalls() {
    Attach(config_);
    return RunChildKilledAt(Del(), 0).calls;
  }

  const json config_ = Publish({Port(8080, 80), Port(8053, 53, "udp")});
  Snapshot before_;
};

std::vector<std::string> OpenFiles(pid_t pid) {
  std::vector<std::string> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(Cat("/proc/", pid, "/fd"))) {
    files.push_back(fs::read_symlink(entry.path()));
  }
  return files;
}

// Of /proc/<pid>/status; "" if there is no such process.
std::string StatusOf(pid_t pid, const std::string& key) {
  std::ifstream status(Cat("/proc/", pid, "/status"));
  for (std::string word; status >> word;) {
    if (word == key) {
      status >> word;
      return word;
    }
  }
  return "";
}

TEST_F(DelChild, HasOnlySocketsOpenWhenItAsksTheKernel) {
  const int calls = CountCalls();
  std::map<int, std::vector<std::string>> files;
  Attach(config_);

  const Killing del =
      RunChildObserved(Del(), [&](pid_t child, int nth) { files[nth] = OpenFiles(child); });

  EXPECT_EQ(del.outcome.exit_code, 0) << del.outcome;
  ASSERT_EQ(del.calls, calls);
  EXPECT_THAT(files[1], Contains(HasSubstr("/run/nomad-bridge/.lock"))) << "of its parent";
  // Its request, and its end.
  for (const int nth : {calls - 1, calls}) {
    EXPECT_THAT(files[nth], AllOf(SizeIs(3), Each(StartsWith("socket:")))) << "at call " << nth;
  }
}

// A runtime waits for the end of our stdout, and for our own.
TEST_F(DelChild, IsNotWaitedFor) {
  const int calls = CountCalls();
  Attach(config_);
  std::array<int, 2> ends{-1, -1};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);
  Command command = Del();
  command.in_child = [&] { ::dup2(writer.get(), STDOUT_FILENO); };

  const Killing del = RunChildObserved(command, [&](pid_t child, int nth) {
    if (nth < calls) {
      return;
    }
    EXPECT_TRUE(Soon([&] { return StatusOf(child, "PPid:") == "1"; })) << "DEL has not ended";
    writer = UniqueFd();
    pollfd stream{.fd = reader.get(), .events = POLLIN, .revents = 0};
    EXPECT_EQ(::poll(&stream, 1, 10'000), 1);
    EXPECT_EQ(stream.revents, POLLHUP) << "somebody still has our stdout";
    EXPECT_TRUE(Unchanged(before_, TakeBriefSnapshot()));
    // The same names, in the same namespace.
    const json again = Attach(config_);
    MustCheck(config_, again);
    ExpectPublished(container());
  });

  EXPECT_EQ(del.outcome.exit_code, 0) << del.outcome;
  Detach(config_);
  ExpectNothingSince(before_);
}

TEST_F(DelChild, MayBeKilledAtAnyCall) {
  for (int nth = 1;; ++nth) {
    SCOPED_TRACE(Cat("killed at call ", nth));
    Attach(config_);
    const Killing del = RunChildKilledAt(Del(), nth);
    EXPECT_EQ(del.outcome.exit_code, 0) << del.outcome;
    ExpectNothingSince(before_);
    if (!del.killed || HasFailure()) {
      return;
    }
  }
}

// ---- where there can be no child, DEL waits for the kernel itself

struct Obstacle : Named {
  const char* calls;
  const char* error;
};

class DelWithoutAChild : public DelChild, public ::testing::WithParamInterface<Obstacle> {};

TEST_P(DelWithoutAChild, Succeeds) {
  Attach(config_);
  const std::string inject = Cat("inject=", GetParam().calls, ":error=", GetParam().error);
  const Outcome del = Execute(UnderStrace(Del(), "/run/calls", {"-f", "-e", inject}));
  EXPECT_EQ(del.exit_code, 0) << del;
  EXPECT_THAT(FindFile("/run/calls").value(), HasSubstr("(INJECTED)"));
  ExpectNothingSince(before_);
  EXPECT_EQ(LinkOn(host(), "nomad")["ifname"], "nomad");
}

INSTANTIATE_TEST_SUITE_P(As,
                         DelWithoutAChild,
                         ::testing::Values(Obstacle{{"LimitOnProcesses"}, "clone,fork", "EAGAIN"},
                                           Obstacle{{"NoMemory"}, "clone,fork", "ENOMEM"},
                                           Obstacle{{"NoHandle"}, "pidfd_open", "ENOSYS"},
                                           Obstacle{{"NothingCloses"}, "close_range", "EPERM"}),
                         kNameOf);

// A runtime that ignores SIGCHLD hands that on.
TEST_F(DelChild, MayBeReapedByTheKernel) {
  Attach(config_);
  Command command = Del();
  command.in_child = [] { std::signal(SIGCHLD, SIG_IGN); };
  EXPECT_EQ(Execute(command).exit_code, 0);
  ExpectNothingSince(before_);
}

// Neither process gets a request through from the N-th on.
TEST_F(DelChild, DoesNotHideALinkThatWasNotDeleted) {
  bool is_refused = true;
  for (int nth = 1; is_refused && !HasFailure(); ++nth) {
    SCOPED_TRACE(Cat("from request ", nth));
    Attach(config_);
    const Outcome del = Execute(UnderStrace(
        Del(), "/run/calls", {"-f", "-e", Cat("inject=sendto:error=EPERM:when=", nth, '+')}));
    is_refused = FindFile("/run/calls").value().find("(INJECTED)") != std::string::npos;
    EXPECT_TRUE(del.exit_code != 0 || !HasInterface(container(), "eth0")) << del;
    EXPECT_EQ(del.exit_code == 0, !HasRecord("alloc-1")) << del;
    Detach(config_);
    ExpectNothingSince(before_);
  }
}

// ---- under the five names: a child of each that removes rules, which waits until they are freed

// Behind the reference's bridge: behind ours, the DEL of bridge removes everything.
class NamedDelChild : public DelChild, public ::testing::WithParamInterface<const char*> {
 protected:
  NamedDelChild() { MustDelFrom(network_, MustAdd(network_, As("first", container()))); }

  // DEL of the list, up to the plugin whose child is looked at.
  Command AttachForDelOf(const std::string& name) {
    const Attached attached =
        MustAdd(network_, WithPorts("alloc-1", container(), {Port(8080, 80)}));
    const json& plugins = network_.list["plugins"];
    std::size_t index = plugins.size();
    while (plugins[--index]["type"] != name) {
      MustRunEntry("DEL", network_, index, attached, attached.result);
    }
    attached_ = attached;
    return EntryCommand("DEL", network_, index, attached, attached.result);
  }

  const Network network_{.list = Conflist("nomad_builtin_bridge"),
                         .path = MixedPath({"firewall", "portmap"})};
  Attached attached_;
};

TEST_P(NamedDelChild, HasOnlySocketsAndIsNotWaitedFor) {
  const int calls = RunChildKilledAt(AttachForDelOf(GetParam()), 0).calls;
  ASSERT_GT(calls, 0) << "no child";
  MustDelFrom(network_, attached_);

  const Killing del = RunChildObserved(AttachForDelOf(GetParam()), [&](pid_t child, int nth) {
    if (nth == calls) {
      EXPECT_TRUE(Soon([&] { return StatusOf(child, "PPid:") == "1"; })) << "DEL has not ended";
      EXPECT_THAT(OpenFiles(child), AllOf(Not(IsEmpty()), Each(StartsWith("socket:"))));
      MustDelFrom(network_, attached_);
      static_cast<void>(MustAdd(network_, attached_));
    }
  });

  EXPECT_EQ(del.outcome.exit_code, 0) << del.outcome;
  MustDelFrom(network_, attached_);
  EXPECT_TRUE(Unchanged(before_, TakeBriefSnapshot()));
}

TEST_P(NamedDelChild, MayBeKilledAtAnyCall) {
  bool is_killed = true;
  for (int nth = 1; is_killed && !HasFailure(); ++nth) {
    SCOPED_TRACE(Cat("killed at call ", nth));
    const Killing del = RunChildKilledAt(AttachForDelOf(GetParam()), nth);
    is_killed = del.killed;
    EXPECT_EQ(del.outcome.exit_code, 0) << del.outcome;
    MustDelFrom(network_, attached_);
    EXPECT_TRUE(Unchanged(before_, TakeBriefSnapshot()));
  }
}

INSTANTIATE_TEST_SUITE_P(Of, NamedDelChild, ::testing::Values("portmap", "firewall"), kNameOfText);

// ---- a process 1 that reaps late

TEST_F(DelChild, IsNotStartedWhileManyAreZombies) {
  std::vector<pid_t> zombies;
  std::string text;
  for (int i = 0; i < 64; ++i) {
    zombies.push_back(::fork());
    if (zombies.back() == 0) {
      ::_exit(0);
    }
    text += Cat(zombies.back(), '\n');
  }
  for (const pid_t zombie : zombies) {
    ASSERT_TRUE(Soon([&] { return StatusOf(zombie, "State:") == "Z"; }));
  }
  Attach(config_);
  std::ofstream(kChildren) << text;
  Detach(config_);
  EXPECT_EQ(FindFile(kChildren), text) << "another child";
  ExpectNothingSince(before_);
  for (const pid_t zombie : zombies) {
    ASSERT_EQ(::waitpid(zombie, nullptr, 0), zombie);
  }

  Attach(config_);
  Detach(config_);
  EXPECT_THAT(Lines(FindFile(kChildren).value()), SizeIs(1)) << "those that are gone still count";
}

}  // namespace
}  // namespace nomad_bridge::test
