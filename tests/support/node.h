// One network namespace of a test: the host, the outside or a container, each like a separate
// machine.
//
// Paths    Bound to /run/netns/<name>, as ip-netns(8) and the runtimes do.
// Threads  One: to enter a node moves the calling thread.
#pragma once

#include "tests/support/process.h"
#include "tests/support/test.h"

namespace nomad_bridge::test {

class Node {
 public:
  // Makes a namespace, empty but for lo (which is up if `with_loopback`).
  explicit Node(std::string name, bool with_loopback = true);

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] int fd() const { return fd_.get(); }

  // Takes the path and our hold on it away: with no process in it the namespace dies, though not at
  // once.
  void Kill();
  [[nodiscard]] bool IsAlive() const { return static_cast<bool>(fd_); }

  // Moves this process into it for good.
  void Enter() const;
  // Runs `act` in it and comes back, also if it throws.
  void Do(const std::function<void()>& act) const;

  [[nodiscard]] Outcome Run(const std::vector<std::string>& argv,
                            const std::string& input = "") const;
  // The stdout of a program that must succeed; else an exception with its output.
  // NOLINTNEXTLINE(modernize-use-nodiscard): most callers ignore the output
  std::string Must(const std::vector<std::string>& argv, const std::string& input = "") const;
  // The same of a script.
  // NOLINTNEXTLINE(modernize-use-nodiscard): as above
  std::string Shell(const std::string& script) const { return Must({"sh", "-ec", script}); }
  // What nft reads from a file.
  void Nft(const std::string& commands) const { Must({"nft", "-f", "-"}, commands); }
  // The same as of a program, as JSON ("ip -j" prints nothing for nothing: an empty array then).
  [[nodiscard]] json Json(const std::vector<std::string>& argv) const;

  // "net/ipv4/ip_forward"; "" if there is no such setting.
  [[nodiscard]] std::string Sysctl(const std::string& name) const;
  [[nodiscard]] std::vector<std::string> SysctlDirectory(const std::string& name) const;
  void SetSysctl(const std::string& name, const std::string& value) const;

 private:
  std::string name_;
  std::string path_;
  UniqueFd fd_;
};

}  // namespace nomad_bridge::test
