#include "plugin/foreign/tools.h"

#include <array>
#include <chrono>
#include <utility>

#include <netinet/in.h>
// After the C library's own in.h, which the kernel's gives way to.
#include <linux/netfilter_ipv4/ip_tables.h>
#include <linux/netfilter_ipv6/ip6_tables.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/file.h"
#include "base/text.h"
#include "plugin/cni/error_list.h"

namespace nomad_bridge::foreign {
namespace {

constexpr std::chrono::seconds kToolTimeout{30};
constexpr std::size_t kMaxStderrBytes = 300;

// How it ended, and its stderr.
std::string WhyItFailed(const ExitInfo& exit) {
  const std::string message = cni::WithoutNotFound(CutUtf8(Printable(exit.err), kMaxStderrBytes));
  const std::string end = exit.how == End::kOverdue
                              ? Cat("no end after ", kToolTimeout.count(), " s")
                              : exit.HowItEnded();
  return Cat(end, message.empty() ? "" : ": ", message);
}

// "4 912": the number of entries and their bytes. Empty if the table cannot be asked about.
template <typename Info>
std::string AskForInfo(int domain, int level, int option) {
  // Not a raw socket: that would need CAP_NET_RAW, too.
  const UniqueFd socket(::socket(domain, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  Info info{};
  std::string("filter").copy(&info.name[0], sizeof info.name - 1);
  socklen_t bytes = sizeof info;
  return ::getsockopt(socket.get(), level, option, &info, &bytes) == 0
             ? Cat(info.num_entries, ' ', info.size)
             : std::string();
}

}  // namespace

std::optional<std::string> FindTool(const std::string& name) {
  constexpr std::array kDirectories = {"/usr/sbin/", "/sbin/", "/usr/bin/", "/usr/local/sbin/"};
  for (const char* const directory : kDirectories) {
    std::string path = Cat(directory, name);
    if (::access(path.c_str(), X_OK) == 0) {
      return path;
    }
  }
  return std::nullopt;
}

ExitInfo RunTool(const std::string& path, std::vector<std::string> arguments) {
  return RunSubprocess({.path = path,
                        .arguments = std::move(arguments),
                        .environment = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"},
                        .timeout = kToolTimeout});
}

Error ToolError(const std::string& path, const ExitInfo& exit) {
  return {Code::kKernel, Cat(path, " failed"), WhyItFailed(exit)};
}

std::string FilterFingerprint() {
  std::string text;
  if (IsLegacyTableInUse(Family::kIpv4, "filter")) {
    text += Cat("ip ", AskForInfo<ipt_getinfo>(AF_INET, SOL_IP, IPT_SO_GET_INFO));
  }
  if (IsLegacyTableInUse(Family::kIpv6, "filter")) {
    text += Cat(" ip6 ", AskForInfo<ip6t_getinfo>(AF_INET6, SOL_IPV6, IP6T_SO_GET_INFO));
  }
  return text;
}

std::string LegacyTool(Family family) {
  return family == Family::kIpv4 ? "iptables-legacy" : "ip6tables-legacy";
}

bool IsLegacyTableInUse(Family family, const std::string& table) try {
  const std::optional<std::string> names = FindFile(
      family == Family::kIpv4 ? "/proc/net/ip_tables_names" : "/proc/net/ip6_tables_names");
  return names && Cat('\n', *names).find(Cat('\n', table, '\n')) != std::string::npos;
} catch (const Error&) {
  // Root of a user namespace may not read it if the network namespace is older than the id map. It
  // only tells about other programs.
  return false;
}

}  // namespace nomad_bridge::foreign
