#include "plugin/cli/doctor.h"

#include <algorithm>
#include <array>
#include <exception>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/list.h"
#include "base/text.h"
#include "plugin/attachment/reconcile.h"
#include "plugin/cli/command.h"
#include "plugin/cli/document.h"
#include "plugin/cli/nomad_config.h"
#include "plugin/config/node_config.h"
#include "plugin/rules/left_over.h"

namespace nomad_bridge::cli {
namespace {

constexpr Names<Verdict, 3> kWords = {
    {{Verdict::kOk, "ok"}, {Verdict::kWarn, "WARN"}, {Verdict::kFail, "FAIL"}}};
constexpr std::array kColours = {Colour::kGood, Colour::kDoubtful, Colour::kBad};

constexpr std::array kFlags = {kJsonFlag,
                               Flag{"probe", nullptr, "sends a packet to each published port"},
                               Flag{"verbose", nullptr, "also the checks that found nothing", 'v'},
                               Flag{"strict", nullptr, "a warning, too, is exit code 1"}};

std::size_t Count(const std::vector<CheckResult>& all, Verdict verdict) {
  return static_cast<std::size_t>(std::ranges::count(all, verdict, &CheckResult::verdict));
}

constexpr std::size_t kWordWidth = 4;
constexpr std::size_t kIdWidth = 22;

std::string NotTriedLine(const CheckResult& result) {
  return Format("-     {}not tried, see {}\n", Padded(result.check, kIdWidth), result.shown_by);
}

std::string LinesOf(const CheckResult& result) {
  const auto index = static_cast<std::size_t>(result.verdict);
  std::string text =
      Format("{}  {}{}\n",
             Coloured(Padded(NameOf(kWords, result.verdict), kWordWidth), kColours.at(index)),
             result.what.empty() ? std::string(result.check) : Padded(result.check, kIdWidth),
             Printable(result.what));
  if (const std::string fix = result.fix.Line(); !fix.empty()) {
    text += Format("      {}\n", fix);
  }
  if (result.all.size() > 1) {
    text += Format("      all {}: nomad-bridge doctor -json {}\n", result.all.size(), result.check);
  }
  return text;
}

std::string TextOf(const std::vector<CheckResult>& all, bool is_verbose) {
  std::string text;
  for (const CheckResult& result : all) {
    if (result.shown_by.empty()) {
      text += is_verbose || result.verdict != Verdict::kOk ? LinesOf(result) : "";
    } else if (result.shown_by != result.check) {
      text += is_verbose ? NotTriedLine(result) : "";
    }
  }
  return text;
}

Json ResultJson(const CheckResult& result) {
  return {{"check", result.check},
          {"verdict", Lower(NameOf(kWords, result.verdict))},
          {"what", result.what},
          {"all", result.all},
          {"fix", result.fix.command},
          {"advice", result.fix.advice}};
}

int RunDoctor(const Arguments& arguments) {
  RequireRoot("doctor");
  state::Host host = state::Host::OpenToLook();
  const bool is_named = Contains(arguments.operands, std::string("ports.probe"));
  const Cost most = arguments.Has("probe") || is_named ? Cost::kProbes : Cost::kDear;
  const std::vector<CheckResult> all =
      RunChecks(host, TakeInventory(host), most, arguments.operands);
  const std::size_t failures = Count(all, Verdict::kFail);
  const std::size_t warnings = Count(all, Verdict::kWarn);
  if (arguments.Has("json")) {
    PrintDocument(
        {{"failures", failures}, {"warnings", warnings}, {"checks", ArrayOf(all, ResultJson)}});
  } else {
    std::vector<CheckResult> shown;
    std::ranges::copy_if(
        all, std::back_inserter(shown), &std::string_view::empty, &CheckResult::shown_by);
    Print(Format("{}{}, {}, {} ok{}\n",
                 Folded(TextOf(all, arguments.Has("verbose") || !arguments.operands.empty()),
                        kWordWidth + 2 + kIdWidth),
                 Counted(Count(shown, Verdict::kFail), "failure"),
                 Counted(Count(shown, Verdict::kWarn), "warning"),
                 Count(shown, Verdict::kOk),
                 most == Cost::kProbes        ? "; published ports were probed"
                 : arguments.operands.empty() ? "; published ports were not probed (-probe)"
                                              : ""));
  }
  return failures != 0 || (arguments.Has("strict") && warnings != 0) ? kNo : kYes;
}

std::vector<Check> AllChecks() {
  std::vector<Check> checks;
  for (const std::span<const Check>& table :
       {kKernelChecks, kNetworkChecks, kPolicyChecks, kNodeChecks}) {
    checks.insert(checks.end(), table.begin(), table.end());
  }
  return checks;
}

// Returns whether `name` is the check's id, or the first word of the id.
bool IsCalled(const Check& check, std::string_view name) {
  return check.id == name || (check.id.starts_with(name) && check.id[name.size()] == '.');
}

// Lines about mismatches that reconcile or gc can repair.
struct FoundLines {
  std::vector<std::string> repairable;
  std::vector<std::string> leads_nowhere;
  std::vector<std::string> left_over;

  void Add(const Mismatch& mismatch) {
    std::vector<std::string>& lines = mismatch.area != Mismatch::Area::kLeftOver ? repairable
                                      : mismatch.part == rules::kLeadsNowhere    ? leads_nowhere
                                                                                 : left_over;
    if (!Contains(lines, mismatch.text)) {  // several bridges may report one setting of the node
      lines.push_back(mismatch.text);
    }
  }
};

// Returns the cause of an error. Missing capabilities make many operations fail; then the operation
// is left out, so that these errors have the same cause.
std::string CauseOf(std::string_view error) {
  return std::string(error.ends_with(netlink::kLacksNetAdmin) ? netlink::kLacksNetAdmin : error);
}

// Returns the ignored checks; none if the file cannot be read: the check `config` reports that.
std::vector<std::string> IgnoredChecks() {
  try {
    return config::ReadNodeConfig().ignore;
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

Examination::Examination(state::Host& of, const Inventory& taken) : host(of), inventory(taken) {
  for (const Attachment& attachment : inventory.attachments) {
    if (attachment.record && attachment.record->IsAny(state::Phase::kLive) &&
        attachment.state != State::kDead) {
      running.push_back(&attachment);
      if (attachment.record->IsLive(cni::Part::kPorts)) {
        publishing.push_back(&attachment);
      }
      gateways.try_emplace(attachment.record->link.gateway_ifname, &*attachment.record);
    }
  }
  gateways.erase("");
}

const Mismatches& Examination::Reconciled() {
  if (!reconciled_) {
    reconciled_ = attachment::ReconcileAll(host, Mode::kLook, &inventory.links);
    reconciled_->Try(Mismatch::Area::kLeftOver, "rules without an owner", [&] {
      rules::CheckLeftOver(host, {}, reconciled_->mismatches);
    });
  }
  return reconciled_->mismatches;
}

void Examination::Run(const Check& check) {
  const std::size_t before = results.size();
  check_ = check.id;
  try {
    check.run(*this);
  } catch (const std::exception& error) {
    results.resize(before);
    Warn(Format("not checked: {}", error.what()), Fix());
    results.back().cause = CauseOf(error.what());
  }
  if (results.size() == before) {
    Ok("");
  }
}

void Examination::Add(Verdict verdict, const std::string& what, const Fix& fix) {
  results.push_back({.check = check_, .verdict = verdict, .what = what, .fix = fix});
}

bool Examination::HasFix(const Fix& fix) const {
  return fix != Fix() &&
         std::ranges::any_of(results, [&](const auto& result) { return result.fix == fix; });
}

void Examination::AddAll(Verdict verdict, const std::vector<std::string>& lines, const Fix& fix) {
  if (!lines.empty()) {
    const std::size_t more = lines.size() - 1;
    Add(verdict, Cat(lines.front(), more == 0 ? "" : Format(" (and {} more)", more)), fix);
    results.back().all = lines;
  }
}

void Examination::AddMismatches(const std::vector<Mismatch::Area>& areas) {
  FoundLines lines;
  for (const Mismatch& mismatch : Reconciled().left()) {
    if (!Contains(areas, mismatch.area)) {
      continue;
    }
    if (mismatch.repairable) {
      lines.Add(mismatch);
    } else {
      Fail(mismatch.text, mismatch.fix);
    }
  }
  AddAll(Verdict::kFail, lines.repairable, "nomad-bridge reconcile");
  AddAll(Verdict::kFail, lines.leads_nowhere, kGcFix);
  AddAll(Verdict::kWarn, lines.left_over, kGcFix);
  for (const attachment::ReconcileReport::Failure& failure : reconciled_->failed) {
    if (Contains(areas, failure.area)) {
      Fail(failure.text, Fix::Advice("correct this, then run: nomad-bridge reconcile"));
      results.back().cause = CauseOf(failure.cause);
    }
  }
}

void Examination::FindSharedCauses() {
  for (CheckResult& result : results) {
    const std::string& cause = result.cause;
    const auto shows_it = [&](const CheckResult& other) {
      if (other.verdict < result.verdict) {
        return false;
      }
      if (other.cause.empty()) {  // this check has found the cause itself
        const std::string& fix = other.fix.command;
        return other.what.find(cause) != cause.npos ||
               (!fix.empty() && cause.ends_with(Cat(kMoveItAway, fix)));
      }
      return other.cause == cause && (other.verdict > result.verdict || &other < &result);
    };
    const auto found = cause.empty() ? results.end() : std::ranges::find_if(results, shows_it);
    result.shown_by = found != results.end() ? found->check : "";
  }
}

const std::vector<std::string>& Examination::PluginDirs() {
  if (plugin_dirs_.empty()) {
    plugin_dirs_ = PluginDirectories();
  }
  return plugin_dirs_;
}

const std::vector<ConfigFile>& Examination::Configs() {
  if (!configs_) {
    std::vector<ConfigFile> found;
    for (const std::string& path : FindNodeConfigFiles()) {
      ConfigFile file{.path = path};
      try {
        file.plugins = cni::ReadPluginConfigs(path);
      } catch (const std::exception& error) {
        file.error = error.what();
      }
      found.push_back(std::move(file));
    }
    configs_ = std::move(found);
  }
  return *configs_;
}

std::vector<std::string_view> CheckIds() {
  std::vector<std::string_view> ids;
  for (const Check& check : AllChecks()) {
    ids.push_back(check.id);
  }
  return ids;
}

bool IsAnyCalled(std::string_view name) {
  return std::ranges::any_of(AllChecks(), [&](const Check& each) { return IsCalled(each, name); });
}

std::vector<CheckResult> RunChecks(state::Host& host,
                                   const Inventory& inventory,
                                   Cost most,
                                   const std::vector<std::string>& only) {
  std::vector<Check> checks = AllChecks();
  for (const std::string& name : only) {
    if (!IsAnyCalled(name)) {
      throw UsageError(Format("doctor has no check '{}'; `nomad-bridge doctor` lists them", name));
    }
  }
  const std::vector<std::string> ignored = only.empty() ? IgnoredChecks() : only;
  std::erase_if(checks, [&](const Check& each) {
    const bool is_named =
        std::ranges::any_of(ignored, [&](const std::string& name) { return IsCalled(each, name); });
    return each.cost > most || is_named == only.empty();
  });
  Examination node(host, inventory);
  for (const Check& check : checks) {
    node.Run(check);
  }
  node.FindSharedCauses();
  return std::move(node.results);
}

const Command kDoctor = {
    .name = "doctor",
    .operands = {"[CHECK...]", 0, kAny},
    .summary = "says what is wrong on this node, and how to fix it",
    .text =
        R"(Prints what is wrong: FAIL or WARN, the ID of the check, and what was found;
below it what to type. Prints checks that found nothing, too, with -verbose or
if CHECK names them. Changes nothing. Exit 1: a check fails; with -strict also
if one warns. CHECK is an ID, or the first word of several ("ports"). Checks
that /etc/nomad-bridge/config.json ignores ({"ignore": ["ports.world"]}) are
left out unless CHECK names them.
)",
    .flags = kFlags,
    .run = RunDoctor};

}  // namespace nomad_bridge::cli
