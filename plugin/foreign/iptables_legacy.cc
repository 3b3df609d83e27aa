#include "plugin/foreign/iptables_legacy.h"

#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "plugin/foreign/tools.h"

namespace nomad_bridge::foreign {
namespace {

constexpr const char* kSave = "-save";
constexpr const char* kRestore = "-restore";

// Returns its stdout.
std::string MustRun(const std::string& name,
                    std::vector<std::string> arguments,
                    const std::string& input = {}) {
  const std::optional<std::string> path = FindTool(name);
  if (!path) {
    throw Error(Code::kKernel,
                Cat("there is no ", name, " on this node"),
                "tables of iptables-legacy are in use, and nothing else can read or change them");
  }
  ExitInfo exit = RunTool(*path, std::move(arguments), input);
  if (!exit.Succeeded()) {
    throw Error(Code::kKernel, Cat(*path, " failed"), WhyItFailed(exit));
  }
  return std::move(exit.out);
}

}  // namespace

std::string LegacyTool(Family family) {
  return family == Family::kIpv4 ? "iptables-legacy" : "ip6tables-legacy";
}

bool HasLegacyTools(Family family) {
  return FindTool(LegacyTool(family) + kSave) && FindTool(LegacyTool(family) + kRestore);
}

bool IsLegacyTableInUse(Family family, const std::string& table) {
  const std::optional<std::string> names = FindFile(
      family == Family::kIpv4 ? "/proc/net/ip_tables_names" : "/proc/net/ip6_tables_names");
  return names && Cat('\n', *names).find(Cat('\n', table, '\n')) != std::string::npos;
}

std::string SaveLegacyTable(Family family, const std::string& table) {
  return MustRun(LegacyTool(family) + kSave, {"-t", table});
}

void ChangeLegacyTable(Family family, const std::string& plan) {
  MustRun(LegacyTool(family) + kRestore, {"--noflush", "-w"}, plan);
}

}  // namespace nomad_bridge::foreign
