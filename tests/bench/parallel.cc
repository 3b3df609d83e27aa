// Several workers at once, as an orchestrator has them that starts and stops many allocations: how
// long commands wait for each other shows here.
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <stdexcept>
#include <vector>

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "tests/bench/contender.h"

namespace nomad_bridge::bench {
namespace {

// Both ends of a stream on which workers say that they are ready and are told to go on.
struct Starter {
  UniqueFd ours;
  UniqueFd theirs;

  Starter() {
    int ends[2] = {-1, -1};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
      throw std::runtime_error("cannot make a socket pair");
    }
    ours = UniqueFd(ends[0]);
    theirs = UniqueFd(ends[1]);
  }
};

void Await(const UniqueFd& end, int count) {
  for (char byte = 0; count > 0; --count) {
    if (::read(end.get(), &byte, 1) != 1) {
      throw std::runtime_error("a worker has failed");
    }
  }
}

void Tell(const UniqueFd& end, int count) {
  const std::string bytes(static_cast<std::size_t>(count), '.');
  static_cast<void>(!::write(end.get(), bytes.data(), bytes.size()));
}

void Work(const test::Network& network,
          std::vector<test::Attached> attachments,
          const UniqueFd& starter) {
  Await(starter, 1);
  for (test::Attached& attached : attachments) {
    attached = test::MustAdd(network, std::move(attached));
  }
  Tell(starter, 1);
  Await(starter, 1);
  for (const test::Attached& attached : attachments) {
    test::MustDelFrom(network, attached);
  }
  Tell(starter, 1);
}

}  // namespace

Rates Contender::RunParallel(int workers, int each) {
  world_.Enter();
  Starter starter;
  for (int i = 0; i < workers; ++i) {
    std::vector<test::Attached> attachments;
    attachments.reserve(static_cast<std::size_t>(each));
    for (int k = 0; k < each; ++k) {
      attachments.push_back(Next());
    }
    if (::fork() == 0) {
      starter.ours = UniqueFd();
      try {
        Work(network_, std::move(attachments), starter.theirs);
        ::_exit(EXIT_SUCCESS);
      } catch (const std::exception& error) {
        std::cerr << error.what() << '\n';
        ::_exit(EXIT_FAILURE);
      }
    }
  }
  starter.theirs = UniqueFd();  // so that a worker that fails ends the waiting
  const auto run = [&] {
    const auto begin = std::chrono::steady_clock::now();
    Tell(starter.ours, workers);
    Await(starter.ours, workers);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    return workers * each / took.count();
  };
  const double add = run();
  const Rates rates{.add = add, .del = run()};
  for (int i = 0; i < workers; ++i) {
    ::wait(nullptr);
  }
  return rates;
}

}  // namespace nomad_bridge::bench
