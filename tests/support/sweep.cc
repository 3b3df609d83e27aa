#include "tests/support/sweep.h"

#include "tests/support/test.h"

namespace nomad_bridge::test {
namespace {

struct Points {
  int first = 1;
  int step = 7;
};

Points Chosen() {
  const char* const text = std::getenv("NOMAD_BRIDGE_SWEEP");
  if (text == nullptr) {
    return {};
  }
  Points points;
  char slash = 0;
  std::istringstream in(text);
  if (!(in >> points.first >> slash >> points.step) || slash != '/' || points.first < 1 ||
      points.step < 1) {
    throw std::invalid_argument(Cat("NOMAD_BRIDGE_SWEEP is '", text, "', not like 1/7"));
  }
  return points;
}

}  // namespace

int FirstPoint() {
  return Chosen().first;
}

int PointStep() {
  return Chosen().step;
}

Killing KillAtEachPoint(const std::function<Command()>& begin,
                        const std::function<void(const Killing&)>& after) {
  for (int nth = FirstPoint();; nth += PointStep()) {
    SCOPED_TRACE(Cat("killed at call ", nth));
    Killing run = RunKilledAt(begin(), nth);
    after(run);
    if (!run.killed || ::testing::Test::HasFailure()) {
      return run;
    }
  }
}

}  // namespace nomad_bridge::test
