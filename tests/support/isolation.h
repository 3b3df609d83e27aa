// Isolates tests from the machine on which they run.
//
// Before the first test that needs it, the program moves into new mount, network, IPC and process
// namespaces, with empty tmpfs on /run, /var/lib/cni and (unless it is a link into /run) /var/run.
// From then on tests cannot reach the machine's own namespace, firewall and state. Every process
// that a test leaves behind dies with the test program.
#pragma once

namespace nomad_bridge::test {

// Carries on as a child in the fresh namespaces, while the caller waits and exits with the child's
// exit code: returns only in the child. Needs root; without it, prints a message and ends the
// process.
void EnterIsolation();

[[nodiscard]] bool IsIsolated();

// Resets settings of the caller's fresh network namespace to the kernel's defaults: the namespace
// has inherited some from the machine (such as ip_forward=1 if Docker runs).
void ResetNetworkSettings();

// A fresh tmpfs over /run, /var/lib/cni and /var/run, for one test.
class FreshState {
 public:
  FreshState();
  FreshState(const FreshState&) = delete;
  FreshState& operator=(const FreshState&) = delete;
  // Also unmounts everything below it (the network namespaces under /run/netns).
  ~FreshState();
};

}  // namespace nomad_bridge::test
