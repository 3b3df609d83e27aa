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

  // Removes the path and closes our descriptor of the namespace. If no process is in the namespace,
  // it then ends, though not at once.
  void Kill();
  [[nodiscard]] bool IsAlive() const { return static_cast<bool>(fd_); }

  // Moves this process into it for good.
  void Enter() const;
  // Runs `act` in the namespace and comes back, also if `act` throws.
  void Do(const std::function<void()>& act) const;

  [[nodiscard]] Outcome Run(const std::vector<std::string>& argv,
                            const std::string& input = "") const;
  // Returns the stdout of a program. Throws with its output if it fails.
  // NOLINTNEXTLINE(modernize-use-nodiscard): most callers ignore the output
  std::string Must(const std::vector<std::string>& argv, const std::string& input = "") const;
  // Like Must(), for a shell script.
  // NOLINTNEXTLINE(modernize-use-nodiscard): as above
  std::string Shell(const std::string& script) const { return Must({"sh", "-ec", script}); }
  // Runs nft with these commands, as if from a file.
  void Nft(const std::string& commands) const { Must({"nft", "-f", "-"}, commands); }
  // Returns the stdout of a program that must succeed as JSON. Empty output, as from "ip -j"
  // without a match, becomes an empty array.
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
