// Runs one verb on a list of plugins, as a runtime does (tests/support/runtime.h), while something
// else happens. The run is held at one of its system calls, or where it waits for another run's
// lock.
//
// Shapes  The outcome is that of the first plugin that failed, or else of the last plugin.
#pragma once

#include <poll.h>
#include <sys/wait.h>

#include "tests/support/killing.h"
#include "tests/support/runtime.h"
#include "tests/support/test.h"

namespace nomad_bridge::test {

class ListRun {
 public:
  ListRun(std::string verb, Network network, Attached attached)
      : verb_(std::move(verb)), network_(std::move(network)), attached_(std::move(attached)) {
    if (verb_ == "ADD") {
      attached_.result = nullptr;
    }
  }

  // To the end, but `act` runs when the N-th call of them all that others can see is about to be
  // made. False if there are fewer.
  bool RunDisturbedAt(int nth, const std::function<void()>& act) {
    bool was_held = false;
    while (!HasEnded() && !was_held) {
      Killing killing = test::RunDisturbedAt(NextCommand(), nth, [&] {
        was_held = true;
        act();
      });
      nth -= killing.calls;
      Take(std::move(killing.outcome));
    }
    RunToTheEnd();
    return was_held;
  }

  void RunUntilBlocked() {
    while (!HasEnded()) {
      process_ = std::make_unique<Process>(Process::Start(NextCommand()));
      if (std::optional<Outcome> outcome = Await(*process_)) {
        process_.reset();
        Take(*std::move(outcome));
      } else {
        return;
      }
    }
  }

  void RunToTheEnd() {
    if (process_) {
      Take(process_->Wait());
      process_.reset();
    }
    while (!HasEnded()) {
      Take(Execute(NextCommand()));
    }
  }

  [[nodiscard]] const Outcome& outcome() const { return outcome_; }
  [[nodiscard]] bool succeeded() const { return outcome_.exit_code == 0; }
  // Of an ADD that succeeded; else null.
  [[nodiscard]] json result() const {
    return verb_ == "ADD" && succeeded() ? attached_.result : json();
  }
  // Of all plugins.
  [[nodiscard]] const std::string& err() const { return err_; }

  friend std::ostream& operator<<(std::ostream& stream, const ListRun& run) {
    return stream << run.verb_ << ", plugin " << run.done_ << ": " << run.outcome_;
  }

 private:
  [[nodiscard]] std::size_t size() const { return network_.list.at("plugins").size(); }
  [[nodiscard]] bool HasEnded() const { return !succeeded() || done_ == size(); }

  [[nodiscard]] Command NextCommand() const {
    const std::size_t index = verb_ == "DEL" ? size() - 1 - done_ : done_;
    Command command = EntryCommand(verb_, network_, index, attached_, attached_.result);
    if (verb_ == "GC") {
      for (const char* const variable : {"CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME"}) {
        command.variables.erase(variable);
      }
    }
    return command;
  }

  void Take(Outcome outcome) {
    outcome_ = std::move(outcome);
    err_ += outcome_.err;
    ++done_;
    if (verb_ == "ADD" && succeeded()) {
      attached_.result = outcome_.json;
    }
  }

  // Until it has ended, or waits for a lock.
  static std::optional<Outcome> Await(Process& process) {
    constexpr std::chrono::milliseconds kBlocked{150};
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

  std::string verb_;
  Network network_;
  Attached attached_;
  std::size_t done_ = 0;
  Outcome outcome_{.exit_code = 0};
  std::string err_;
  std::unique_ptr<Process> process_;
};

}  // namespace nomad_bridge::test
