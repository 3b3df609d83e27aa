#include "plugin/cli/doctor.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <sstream>
#include <utility>

#include <sys/utsname.h>

#include "base/file.h"
#include "base/text.h"
#include "plugin/cli/command.h"
#include "plugin/cli/doctor_checks.h"
#include "plugin/cli/document.h"
#include "plugin/cli/terminal.h"
#include "plugin/rules/converge.h"

namespace nomad_bridge::cli {
namespace {

struct Check {
  std::string_view id;
  Diagnoses (*run)(Examination&);
};

constexpr std::array kChecks = {
    Check{"kernel.nf_tables", CheckNfTables},
    Check{"kernel.bridge", CheckBridgeModule},
    Check{"kernel.br_netfilter", CheckBrNetfilter},
    Check{"kernel.conntrack", CheckConntrack},
    Check{"sysctl.ip_forward", CheckForwarding},
    Check{"sysctl.rp_filter", CheckReversePath},
    Check{"sysctl.route_localnet", CheckRouteLocalnet},
    Check{"table.intact", CheckTable},
    Check{"static_rules", CheckStaticRules},
    Check{"forward.foreign", CheckForeignChains},
    Check{"firewalld.zone", CheckFirewalldZone},
    Check{"ports.orphan", CheckOrphanElements},
    Check{"ports.world", CheckWorldPorts},
    Check{"ports.shadowed", CheckShadowedPorts},
    Check{"leases.orphan", CheckOrphanLeases},
    Check{"leases.exhausted", CheckLeasesLeft},
    Check{"bridge.ports", CheckBridgePorts},
    Check{"bridge.mtu", CheckMtu},
    Check{"bridge.subnet_overlap", CheckSubnets},
    Check{"dead", CheckDead},
    Check{"networkd", CheckNetworkd},
    Check{"networkmanager", CheckNetworkManager},
    Check{"plugins.version", CheckPluginVersion},
    Check{"plugins.shadowed", CheckShadowedPlugins},
    Check{"plugins.missing", CheckMissingPlugins},
    Check{"conflist.valid", CheckConflists},
    Check{"iptables.missing", CheckIptables},
    Check{"dns.stub", CheckDnsStub},
    Check{"conntrack.full", CheckConntrackRoom},
};

constexpr std::array<std::string_view, 3> kWords = {"ok", "WARN", "FAIL"};
constexpr std::array<std::string_view, 3> kJsonWords = {"ok", "warn", "fail"};
constexpr std::array kColours = {Colour::kGood, Colour::kDoubtful, Colour::kBad};

constexpr std::array<Flag, 2> kFlags = {Flag{"json", nullptr, "prints one JSON document"},
                                        Flag{"strict", nullptr, "a warning, too, is exit code 1"}};

// The value of `key = "..."` in a config of Nomad.
std::string FindSetting(const std::string& text, std::string_view key) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t at = line.find_first_not_of(" \t");
    const std::size_t first = line.find('"');
    const std::size_t last = line.rfind('"');
    if (at != line.npos && line.compare(at, key.size(), key) == 0 && first < last) {
      return line.substr(first + 1, last - first - 1);
    }
  }
  return {};
}

std::vector<std::string> PluginDirectories() {
  const char* const given = ::getenv("CNI_PATH");
  std::string path = given == nullptr ? "" : given;
  for (const std::string& name : Entries("/etc/nomad.d")) {
    if (path.empty() && name.ends_with(".hcl")) {
      path = FindSetting(FindFile(Cat("/etc/nomad.d/", name)).value_or(""), "cni_path");
    }
  }
  std::istringstream words(path.empty() ? "/opt/cni/bin" : path);
  std::vector<std::string> directories;
  for (std::string word; std::getline(words, word, ':');) {
    directories.push_back(word);
  }
  return directories;
}

Diagnoses Run(const Check& check, Examination& node) {
  try {
    return check.run(node);
  } catch (const std::exception& error) {
    return {{Verdict::kWarn, Format("it cannot be told: {}", error.what()), "see the message"}};
  }
}

std::size_t Count(const std::vector<Checked>& all, Verdict verdict) {
  std::size_t count = 0;
  for (const Checked& each : all) {
    count += each.diagnosis.verdict == verdict ? 1 : 0;
  }
  return count;
}

void PrintText(const std::vector<Checked>& all) {
  constexpr std::size_t kIdWidth = 22;
  std::string text;
  for (const auto& [id, diagnosis] : all) {
    const auto index = static_cast<std::size_t>(diagnosis.verdict);
    std::string word(kWords.at(index));
    word.resize(4, ' ');
    std::string name(id);
    name.resize(kIdWidth, ' ');
    text +=
        Format("{}  {}{}\n", Coloured(word, kColours.at(index)), name, Printable(diagnosis.what));
    if (!diagnosis.fix.empty()) {
      text += Format("      fix: {}\n", Printable(diagnosis.fix));
    }
  }
  const std::size_t failures = Count(all, Verdict::kFail);
  const std::size_t warnings = Count(all, Verdict::kWarn);
  Print(Format("{}{} failure{}, {} warning{}, {} ok\n",
               text,
               failures,
               failures == 1 ? "" : "s",
               warnings,
               warnings == 1 ? "" : "s",
               Count(all, Verdict::kOk)));
}

Json ToJson(const std::vector<Checked>& all) {
  Json document = NewDocument();
  document["failures"] = Count(all, Verdict::kFail);
  document["warnings"] = Count(all, Verdict::kWarn);
  document["checks"] = Json::array();
  for (const auto& [id, diagnosis] : all) {
    document["checks"].push_back(
        {{"check", id},
         {"verdict", kJsonWords.at(static_cast<std::size_t>(diagnosis.verdict))},
         {"what", diagnosis.what},
         {"fix", diagnosis.fix}});
  }
  return document;
}

int RunDoctor(const Arguments& arguments) {
  RequireRoot("doctor");
  state::Host host = state::Host::Open();
  const std::vector<Checked> all = RunChecks(host, TakeInventory(host));
  if (arguments.Has("json")) {
    PrintDocument(ToJson(all));
  } else {
    PrintText(all);
  }
  const bool is_bad = Count(all, Verdict::kFail) != 0 ||
                      (arguments.Has("strict") && Count(all, Verdict::kWarn) != 0);
  return is_bad ? kNo : kYes;
}

ConfigFile ReadConfigFile(const std::string& path) {
  ConfigFile file{.path = path};
  try {
    file.plugins = cni::ReadPluginConfigs(path);
  } catch (const std::exception& error) {
    file.error = error.what();
  }
  return file;
}

// In the directory of all runtimes there are networks of podman and others, too.
bool NamesUs(const ConfigFile& file) {
  return std::ranges::any_of(
      file.plugins, [](const cni::PluginConfig& plugin) { return plugin.type == "nomad-bridge"; });
}

}  // namespace

Examination::Examination(state::Host& of, const Inventory& taken)
    : host(of), inventory(taken), plugin_dirs(PluginDirectories()) {
  for (const Attachment& attachment : inventory.attachments) {
    if (attachment.record && attachment.record->IsAny(state::Phase::kLive) &&
        attachment.state != State::kDead) {
      running.push_back(&attachment);
      gateways.try_emplace(attachment.record->link.gateway_ifname, &*attachment.record);
    }
  }
  gateways.erase("");
  utsname name{};
  ::uname(&name);
  release = name.release;
}

const std::vector<std::string>& Examination::RuleMismatches() {
  if (!rule_mismatches_) {
    rule_mismatches_ = rules::DiffAll(host);
  }
  return *rule_mismatches_;
}

const std::vector<ConfigFile>& Examination::Configs() {
  if (!configs_) {
    configs_.emplace();
    for (const std::string& path : cni::FindDefaultConfigFiles()) {
      ConfigFile file = ReadConfigFile(path);
      if (path.starts_with("/opt/cni/config/") || NamesUs(file)) {
        configs_->push_back(std::move(file));
      }
    }
  }
  return *configs_;
}

std::string FirstOf(const std::vector<std::string>& lines) {
  const std::size_t more = lines.size() - 1;
  return Cat(lines.front(), more == 0 ? "" : Format(" (and {} more)", more));
}

Diagnoses AllAs(Verdict verdict, const std::vector<std::string>& lines, const std::string& fix) {
  if (lines.empty()) {
    return {};
  }
  return {{verdict, FirstOf(lines), fix}};
}

std::vector<Checked> RunChecks(state::Host& host, const Inventory& inventory) {
  Examination node(host, inventory);
  std::vector<Checked> all;
  for (const Check& check : kChecks) {
    Diagnoses diagnoses = Run(check, node);
    if (diagnoses.empty()) {
      diagnoses.emplace_back();
    }
    for (Diagnosis& diagnosis : diagnoses) {
      all.push_back({check.id, std::move(diagnosis)});
    }
  }
  return all;
}

const Command kDoctor = {
    .name = "doctor",
    .summary = "says what is wrong on this node, and what to type against it",
    .text =
        R"(A line per check: ok, WARN or FAIL, its id, and what was found; below it what to type.
Nothing is changed. Exit 1: a FAIL; with -strict a WARN, too.
)",
    .flags = kFlags,
    .run = RunDoctor};

}  // namespace nomad_bridge::cli
