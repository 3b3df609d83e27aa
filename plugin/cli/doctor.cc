#include "plugin/cli/doctor.h"

#include <algorithm>
#include <array>
#include <exception>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "base/list.h"
#include "base/text.h"
#include "plugin/attachment/reconcile.h"
#include "plugin/cli/command.h"
#include "plugin/cli/document.h"
#include "plugin/cli/named_attachments.h"
#include "plugin/cli/nomad_config.h"
#include "plugin/config/node_config.h"
#include "plugin/rules/left_over.h"

namespace nomad_bridge::cli {
namespace {

using Area = Finding::Area;
using Severity = Finding::Severity;

struct Look {
  Severity severity;
  std::string_view word;
  Colour colour;
};
constexpr std::array kLooks = {Look{Severity::kFault, "FAIL", Colour::kBad},
                               Look{Severity::kWarning, "WARN", Colour::kDoubtful},
                               Look{Severity::kNote, "ok", Colour::kGood}};

constexpr std::array kFlags = {
    kJsonFlag,
    Flag{"probe", nullptr, "sends packets to published ports and name servers"},
    Flag{"verbose", nullptr, "also the checks that found nothing", 'v'},
    Flag{"strict", nullptr, "a warning, too, is exit code 1"}};

Json CheckJson(const Finding& finding) {
  Json json = FindingJson(finding);
  json["check"] = finding.check;
  json["all"] = finding.all;
  json["see"] = OrNull(std::string(finding.shown_by));
  return json;
}

// Counts the checks whose results people see.
std::size_t CountShown(const Json& checks, Severity severity) {
  return static_cast<std::size_t>(std::ranges::count_if(checks, [&](const Json& each) {
    return each.at("see").is_null() && each.at("verdict") == NameOf(kSeverityNames, severity);
  }));
}

constexpr std::size_t kWordWidth = 4;
constexpr std::size_t kIdWidth = 22;

std::string LinesOf(const Json& check) {
  const std::string id = check.at("check");
  if (const Json& see = check.at("see"); !see.is_null()) {
    return Format("-     {}not tried, see {}\n", Padded(id, kIdWidth), PlainText(see));
  }
  const auto severity = FindNamed(kSeverityNames, check.at("verdict").get<std::string>());
  const Look look = *std::ranges::find(kLooks, severity, &Look::severity);
  const std::string what = check.at("what");
  std::string text = Format("{}  {}{}\n",
                            Coloured(Padded(look.word, kWordWidth), look.colour),
                            what.empty() ? id : Padded(id, kIdWidth),
                            Printable(what));
  if (const std::string fix = ShowFix(check); !fix.empty()) {
    text += Format("      {}\n", fix);
  }
  if (const std::size_t count = check.at("all").size(); count > 1) {
    text += Format("      all {}: nomad-bridge doctor -json {}\n", count, id);
  }
  return text;
}

// A check that failed in several networks for one reason is named once.
std::string TextOf(const Json& checks, bool is_verbose) {
  std::string text;
  std::string last;
  for (const Json& check : checks) {
    const bool is_wrong =
        check.at("verdict") != NameOf(kSeverityNames, Severity::kNote) && check.at("see").is_null();
    if (is_wrong || (is_verbose && check.at("see") != check.at("check"))) {
      const std::string lines = LinesOf(check);
      text += lines == last ? "" : lines;
      last = lines;
    }
  }
  return text;
}

std::string LastLine(const Json& document, bool is_all) {
  const Json& checks = document.at("checks");
  return Format("{}, {}, {} ok{}\n",
                Counted(CountShown(checks, Severity::kFault), "failure"),
                Counted(CountShown(checks, Severity::kWarning), "warning"),
                CountShown(checks, Severity::kNote),
                document.at("probed") ? "; ports and name servers were probed"
                : is_all              ? "; ports and name servers were not probed (-probe)"
                                      : "");
}

// Returns whether `word` is no check, and names an allocation.
bool IsAllocation(state::Host& host, const std::string& word) {
  constexpr std::size_t kShortest = 2;  // of a prefix
  return !IsAnyCalled(word) && word.size() >= kShortest &&
         !FindAll(TakeInventory(host), ParseFilters(word)).empty();
}

int RunDoctor(const Arguments& arguments) {
  RequireRoot("doctor");
  state::Host host = state::Host::OpenToLook();
  if (arguments.operands.size() == 1 && IsAllocation(host, arguments.operands.front())) {
    Arguments of_job = arguments;
    of_job.flags.emplace("quiet", "");
    return kInspect.run(of_job);
  }
  const bool is_all = arguments.operands.empty();
  const bool is_named = std::ranges::any_of(kProbeChecks, [&](const Check& check) {
    return Contains(arguments.operands, std::string(check.id));
  });
  const bool probes = arguments.Has("probe") || is_named;
  const FindingList all = RunChecks(host, TakeInventory(host), probes, arguments.operands);
  const auto failures = std::ranges::count(all, Severity::kFault, &Finding::severity);
  const auto warnings = std::ranges::count(all, Severity::kWarning, &Finding::severity);
  const Json document = {{"failures", failures},
                         {"warnings", warnings},
                         {"probed", probes},
                         {"checks", ArrayOf(all, CheckJson)}};
  if (arguments.Has("json")) {
    PrintDocument(document);
  } else {
    Print(Cat(Folded(TextOf(document.at("checks"), arguments.Has("verbose") || !is_all),
                     kWordWidth + 2 + kIdWidth),
              LastLine(document, is_all)));
  }
  return failures != 0 || (arguments.Has("strict") && warnings != 0) ? kNo : kYes;
}

std::vector<Check> AllChecks() {
  std::vector<Check> checks;
  for (const std::span<const Check>& table :
       {kKernelChecks, kNetworkChecks, kPolicyChecks, kNodeChecks, kProbeChecks}) {
    checks.insert(checks.end(), table.begin(), table.end());
  }
  return checks;
}

// Returns whether `name` is the check's id, or the first word of the id.
bool IsCalled(const Check& check, std::string_view name) {
  return check.id == name || (check.id.starts_with(name) && check.id[name.size()] == '.');
}

// Returns the finding's text, with what it is about: texts of other areas name that themselves.
std::string TextWithOwner(const Finding& finding, const Inventory& inventory) {
  constexpr std::array kNameless = {Area::kNode, Area::kContainer, Area::kPort, Area::kLease};
  if (!Contains(kNameless, finding.area) || finding.owner.empty()) {
    return finding.text;
  }
  std::string owner = finding.owner;
  for (const Attachment& each : inventory.attachments) {
    // A container may have attachments without labels in other networks.
    const bool is_better = owner == finding.owner || !each.Label(cni::kJob).empty();
    if (each.id.container_id == finding.owner && is_better) {
      owner = Cat("allocation ", each.Named());
    }
  }
  return Format("{}: {}", owner, finding.text);
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

const Findings& Examination::Reconciled() {
  if (!reconciled_) {
    reconciled_ = attachment::ReconcileAll(host, Mode::kLook, &inventory.links);
    reconciled_->Try(Area::kLeftOver, "rules without an owner", [&] {
      rules::CheckLeftOver(host, {}, reconciled_->findings);
    });
  }
  return reconciled_->findings;
}

void Examination::Run(const Check& check) {
  const std::size_t before = findings.size();
  check_ = check.id;
  const auto note_error = [&](const std::exception& error, const Fix& fix) {
    findings.resize(before);
    Warn(Format("not checked: {}", error.what()), fix);
    findings.back().error = error.what();
  };
  try {
    check.run(*this);
  } catch (const Error& error) {
    note_error(error, error.fix());
  } catch (const std::exception& error) {
    note_error(error, {});
  }
  if (findings.size() == before) {
    Ok("");
  }
}

void Examination::Add(Severity severity, const std::string& text, const Fix& fix) {
  findings.push_back({.text = text, .fix = fix, .severity = severity, .check = check_});
}

void Examination::AddAll(Severity severity, const std::vector<std::string>& texts, const Fix& fix) {
  FindingList found;
  for (const std::string& text : texts) {
    found.push_back({.text = text, .fix = fix, .severity = severity});
  }
  AddAll(std::move(found));
}

void Examination::AddAll(FindingList found) {
  for (Finding& finding : found) {
    finding.fix = finding.FixNow();
  }
  while (!found.empty()) {
    const Finding first = found.front();
    std::vector<std::string> texts;
    std::erase_if(found, [&](const Finding& each) {
      const bool is_same =
          each.severity == first.severity &&
          (each.text == first.text || (each.fix == first.fix && each.fix != Fix()));
      // Several bridges may report one setting of the node.
      if (std::string text = TextWithOwner(each, inventory); is_same && !Contains(texts, text)) {
        texts.push_back(each.fix == first.fix ? std::move(text) : Cat(text, "; ", each.fix.Line()));
      }
      return is_same;
    });
    const std::size_t more = texts.size() - 1;
    Add(first.severity,
        Cat(texts.front(), more == 0 ? "" : Format(" (and {} more)", more)),
        first.fix);
    findings.back().all = std::move(texts);
  }
}

void Examination::AddUnreported(FindingList found) {
  std::erase_if(found, [&](const Finding& each) {
    return std::ranges::any_of(findings, [&](const Finding& known) {
      const bool is_same = known.text == each.text || Contains(known.all, each.text) ||
                           (known.fix == each.fix && known.fix != Fix());
      return is_same && known.severity >= each.severity;
    });
  });
  AddAll(std::move(found));
}

void Examination::AddFindings(const std::vector<Area>& areas) {
  FindingList found = Reconciled().left();
  std::erase_if(found, [&](const Finding& each) { return !Contains(areas, each.area); });
  AddAll(std::move(found));
  for (const Finding& failure : reconciled_->failed) {
    if (Contains(areas, failure.area)) {
      Fail(failure.text, failure.fix);
      findings.back().error = failure.error;
    }
  }
}

// The reason is the same if its fix is, or the error itself.
void Examination::FindSharedReasons() {
  for (Finding& finding : findings) {
    const auto shows_it = [&](const Finding& other) {
      const bool is_same =
          other.error == finding.error || (other.fix == finding.fix && other.fix != Fix());
      return is_same && other.severity >= finding.severity &&
             (other.error.empty() || other.severity > finding.severity || &other < &finding);
    };
    const auto found = std::ranges::find_if(findings, shows_it);
    if (!finding.error.empty() && found != findings.end()) {
      finding.shown_by = found->shown_by.empty() ? found->check : found->shown_by;
    }
  }
  for (Finding& finding : findings) {
    if (!finding.error.empty() && finding.severity == Severity::kFault && finding.fix == Fix()) {
      finding.fix = Fix::Advice("correct this, then run: nomad-bridge reconcile");
    }
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

FindingList RunChecks(state::Host& host,
                      const Inventory& inventory,
                      bool probes,
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
    return (each.probes && !probes) || is_named == only.empty();
  });
  Examination node(host, inventory);
  for (const Check& check : checks) {
    node.Run(check);
  }
  node.FindSharedReasons();
  return std::move(node.findings);
}

const Command kDoctor = {
    .name = "doctor",
    .operands = {"[CHECK...|ALLOC]", 0, kAny},
    .summary = "says what is wrong on this node, and how to fix it",
    .text =
        R"(Prints what is wrong: FAIL or WARN, the ID of the check, and what was found;
below it what to type. Prints checks that found nothing, too, with -verbose or
if CHECK names them. Changes nothing. Exit 1: a check fails; with -strict also
if one warns. CHECK is an ID, or the first word of several ("ports"). Checks
that /etc/nomad-bridge/config.json ignores ({"ignore": ["ports.world"]}) are
left out unless CHECK names them. An ALLOC instead prints what inspect -quiet
does.
)",
    .flags = kFlags,
    .run = RunDoctor};

}  // namespace nomad_bridge::cli
