#include "plugin/cli/doctor.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <exception>
#include <sstream>
#include <utility>

#include <sys/utsname.h>

#include "base/file.h"
#include "base/list.h"
#include "base/text.h"
#include "plugin/attachment/reconcile.h"
#include "plugin/cli/command.h"
#include "plugin/cli/document.h"
#include "plugin/rules/converge.h"

namespace nomad_bridge::cli {
namespace {

constexpr std::array<std::string_view, 3> kWords = {"ok", "WARN", "FAIL"};
constexpr std::array kColours = {Colour::kGood, Colour::kDoubtful, Colour::kBad};

constexpr std::array<Flag, 2> kFlags = {kJsonFlag,
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

std::size_t Count(const std::vector<CheckResult>& all, Verdict verdict) {
  return static_cast<std::size_t>(std::ranges::count(all, verdict, &CheckResult::verdict));
}

std::string TextOf(const std::vector<CheckResult>& all) {
  constexpr std::size_t kWordWidth = 4;
  constexpr std::size_t kIdWidth = 22;
  std::string text;
  for (const CheckResult& result : all) {
    const auto index = static_cast<std::size_t>(result.verdict);
    text += Format("{}  {}{}\n",
                   Coloured(Padded(kWords.at(index), kWordWidth), kColours.at(index)),
                   Padded(result.check, kIdWidth),
                   Printable(result.what));
    if (!result.fix.empty()) {
      text += Format("      fix: {}\n", result.fix);
    }
  }
  return text;
}

Json ResultJson(const CheckResult& result) {
  return {{"check", result.check},
          {"verdict", Lower(kWords.at(static_cast<std::size_t>(result.verdict)))},
          {"what", result.what},
          {"fix", result.fix}};
}

int RunDoctor(const Arguments& arguments) {
  RequireRoot("doctor");
  state::Host host = state::Host::Open();
  const std::vector<CheckResult> all = RunChecks(host, TakeInventory(host), Cost::kDear);
  const std::size_t failures = Count(all, Verdict::kFail);
  const std::size_t warnings = Count(all, Verdict::kWarn);
  if (arguments.Has("json")) {
    PrintDocument(
        {{"failures", failures}, {"warnings", warnings}, {"checks", ArrayOf(all, ResultJson)}});
  } else {
    Print(Format("{}{}, {}, {} ok\n",
                 TextOf(all),
                 Counted(failures, "failure"),
                 Counted(warnings, "warning"),
                 all.size() - failures - warnings));
  }
  return failures != 0 || (arguments.Has("strict") && warnings != 0) ? kNo : kYes;
}

}  // namespace

Examination::Examination(state::Host& of, const Inventory& taken, Cost most)
    : host(of), inventory(taken), most_(most) {
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

// Where only what is cheap is asked for, a host's side that has not changed is not looked at again.
const Mismatches& Examination::Reconciled() {
  if (!reconciled_) {
    const bool is_unchanged = most_ == Cost::kCheap && rules::FindCurrentCheckpoint(host) &&
                              attachment::IsUnchanged(host);
    reconciled_ = is_unchanged ? Mismatches(Mode::kLook)
                               : attachment::Reconcile(host, {}, Mode::kLook).mismatches;
  }
  return *reconciled_;
}

void Examination::Run(const Check& check) {
  const std::size_t before = results.size();
  check_ = check.id;
  try {
    check.run(*this);
  } catch (const std::exception& error) {
    results.resize(before);
    Warn(Format("it cannot be told: {}", error.what()), "see the message");
  }
  if (results.size() == before) {
    Ok("");
  }
}

void Examination::Add(Verdict verdict, const std::string& what, const std::string& fix) {
  results.push_back({check_, verdict, what, fix});
}

void Examination::AddAll(Verdict verdict,
                         const std::vector<std::string>& lines,
                         const std::string& fix) {
  if (!lines.empty()) {
    const std::size_t more = lines.size() - 1;
    Add(verdict, Cat(lines.front(), more == 0 ? "" : Format(" (and {} more)", more)), fix);
  }
}

void Examination::AddMismatches(const std::vector<Mismatch::Area>& areas) {
  std::vector<std::string> repairable;
  std::vector<std::string> left_over;
  for (const Mismatch& mismatch : Reconciled().left()) {
    if (!Contains(areas, mismatch.area)) {
      continue;
    }
    if (mismatch.repairable) {
      const bool is_left_over = mismatch.area == Mismatch::Area::kLeftOver;
      (is_left_over ? left_over : repairable).push_back(mismatch.text);
    } else {  // the container's own interface is lost
      Fail(mismatch.text, Cat("nomad alloc stop ", ShellWord(mismatch.owner)));
    }
  }
  AddAll(Verdict::kFail, repairable, "nomad-bridge reconcile");
  AddAll(Verdict::kWarn, left_over, kGcFix);
}

const std::vector<std::string>& Examination::PluginDirs() {
  if (plugin_dirs_.empty()) {
    const char* const given = ::getenv("CNI_PATH");
    std::string path = given == nullptr ? "" : given;
    for (const std::string& name : Entries("/etc/nomad.d")) {
      if (path.empty() && name.ends_with(".hcl")) {
        path = FindSetting(FindFile(Cat("/etc/nomad.d/", name)).value_or(""), "cni_path");
      }
    }
    std::istringstream words(path.empty() ? "/opt/cni/bin" : path);
    for (std::string word; std::getline(words, word, ':');) {
      plugin_dirs_.push_back(word);
    }
  }
  return plugin_dirs_;
}

const std::vector<ConfigFile>& Examination::Configs() {
  if (!configs_) {
    configs_.emplace();
    for (const std::string& path : cni::FindDefaultConfigFiles()) {
      ConfigFile file{.path = path};
      try {
        file.plugins = cni::ReadPluginConfigs(path);
      } catch (const std::exception& error) {
        file.error = error.what();
      }
      // In the directory of all runtimes there are networks of podman and others, too.
      if (path.starts_with("/opt/cni/config/") ||
          std::ranges::count(file.plugins, "nomad-bridge", &cni::PluginConfig::type) != 0) {
        configs_->push_back(std::move(file));
      }
    }
  }
  return *configs_;
}

std::vector<CheckResult> RunChecks(state::Host& host, const Inventory& inventory, Cost most) {
  Examination node(host, inventory, most);
  for (const std::span<const Check>& table : {kKernelChecks, kNetworkChecks, kNodeChecks}) {
    for (const Check& check : table) {
      if (check.cost <= most) {
        node.Run(check);
      }
    }
  }
  return std::move(node.results);
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
