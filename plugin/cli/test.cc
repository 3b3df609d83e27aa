#include <algorithm>
#include <array>
#include <chrono>
#include <set>
#include <utility>

#include <unistd.h>

#include "base/error.h"
#include "base/text.h"
#include "netlink/sockets/endpoint.h"
#include "plugin/causes/names.h"
#include "plugin/cli/command.h"
#include "plugin/cli/document.h"
#include "plugin/cli/inventory.h"
#include "plugin/cli/nomad_config.h"
#include "plugin/cli/terminal.h"
#include "plugin/cli/throw_away.h"
#include "plugin/cli/trial.h"

namespace nomad_bridge::cli {
namespace {

using Result = TrialCheck::Result;

constexpr const char* kNamespace = "default";
constexpr const char* kOtherNamespace = "nomad-bridge-test";

// ---- the network

// Returns the network in the operand, a name or a file; without an operand, the node's only one.
PluginList FindList(const Arguments& arguments) {
  const std::string typed = arguments.operands.empty() ? "" : arguments.operands.front();
  const std::vector<std::string> files =
      typed.find('/') == typed.npos ? FindNodeConfigFiles() : std::vector{typed};
  std::vector<PluginList> found;
  std::vector<std::string> names;
  for (const std::string& file : files) {
    std::vector<cni::PluginConfig> plugins = cni::ReadPluginConfigs(file);
    const std::string& name = plugins.front().request.id.network;
    names.push_back(name);
    if (typed.empty() || typed == name || typed == file) {
      found.push_back({name, std::move(plugins), PluginDirectories()});
    }
  }
  if (found.size() == 1) {
    return std::move(found.front());
  }
  if (names.empty()) {
    throw CannotTell("no network is configured on this node");
  }
  throw UsageError(
      typed.empty() ? Cat("name a network: ", Joined(names, ", "))
                    : Format("this node has no network '{}', but: {}", typed, Joined(names, ", ")));
}

// Returns a port of the node on which nobody listens, and which no allocation publishes. Above the
// ports that the kernel usually gives to clients.
std::uint16_t FreePort(state::Host& host) {
  constexpr std::uint16_t kFirst = 61000;
  constexpr std::uint16_t kPorts = 65535 - kFirst;
  std::set<std::uint16_t> taken;
  for (const state::Record& record : host.records.All()) {
    for (const portmap::DnatEntry& port : record.rules.ports) {
      taken.insert(port.host_port);
    }
  }
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  const std::uint64_t chance = StableHash(Cat(now, ' ', ::getpid()));
  for (std::uint16_t i = 0; i < kPorts; ++i) {
    const auto port = static_cast<std::uint16_t>(kFirst + (chance + i) % kPorts);
    const auto is_it = [&](const sockets::Listener& each) { return each.port == port; };
    if (!taken.contains(port) && std::ranges::none_of(host.Listeners(Protocol::kTcp), is_it)) {
      return port;
    }
  }
  throw CannotTell("no port of the node is free");
}

// ---- the trial

state::Record RecordOf(state::Host& host, const ThrowAway& container) {
  std::optional<state::Record> record = host.records.Find(container.id);
  return record ? *std::move(record)
                : throw Error(Code::kInvalidConfig,
                              Format("network '{}' has no plugin of ours", container.id.network));
}

// Returns the name servers that the network gives, or those of the node.
std::vector<Ip> NameServersOf(const Json& result) {
  std::vector<Ip> servers;
  const Json given = result.value(Json::json_pointer("/dns/nameservers"), Json::array());
  for (const Json& each : given) {
    if (const auto server = each.is_string() ? Ip::Parse(each.get<std::string>()) : std::nullopt) {
      servers.push_back(*server);
    }
  }
  return servers.empty() ? causes::FindNameServersOfNode() : servers;
}

TrialCheck Failed(std::string_view id, const std::string& what, const Error& error) {
  return {.id = id,
          .family = std::nullopt,
          .what = what,
          .result = Result::kFailed,
          .finding = {.text = error.what(), .fix = error.fix()}};
}

// Attaches the containers, tries everything, and detaches them.
std::vector<TrialCheck> TryNetwork(const PluginList& list, const std::optional<std::string>& to) {
  state::Host host = state::Host::OpenToLook();
  const std::optional<Target> target =
      to ? std::optional(ParseTarget(*to, TakeInventory(host))) : std::nullopt;
  std::vector<ThrowAway> wanted = {
      {.nomad_namespace = kNamespace, .group = "one", .published = {FreePort(host)}},
      {.nomad_namespace = kNamespace, .group = "two", .published = {}}};
  if (!host.policy.Program().empty()) {
    wanted.push_back({.nomad_namespace = kOtherNamespace, .group = "stranger", .published = {}});
  }
  std::vector<TrialCheck> checks;
  try {
    ThrowAways containers(list, std::move(wanted));
    const std::vector<ThrowAway>& all = containers.all();
    checks =
        RunTrial(host,
                 {.one = RecordOf(host, all[0]),
                  .two = RecordOf(host, all[1]),
                  .stranger = all.size() > 2 ? std::optional(RecordOf(host, all[2])) : std::nullopt,
                  .name_servers = NameServersOf(all[0].result),
                  .target = target});
    containers.Remove();
  } catch (const Error& error) {
    checks.push_back(checks.empty() ? Failed("attach", "two containers", error)
                                    : Failed("detach", "the containers, taken back", error));
  }
  return checks;
}

// ---- the document

Json CheckJson(const TrialCheck& check) {
  Json json = FindingJson(check.finding);
  return {{"check", check.id},
          {"family", check.family ? Json(check.family == Family::kIpv4 ? 4 : 6) : Json()},
          {"what", check.what},
          {"verdict", NameOf(kTrialResultNames, check.result)},
          {"why", OrNull(check.finding.text)},
          {"fix", json.at("fix")},
          {"advice", json.at("advice")}};
}

std::size_t Count(const Json& checks, Result result) {
  return static_cast<std::size_t>(std::ranges::count_if(checks, [&](const Json& each) {
    return each.at("verdict") == NameOf(kTrialResultNames, result);
  }));
}

std::string MarkOf(const Json& check) {
  const std::optional<Result> result =
      FindNamed(kTrialResultNames, check.at("verdict").get<std::string>());
  const bool is_utf8 = ShowsUtf8();
  switch (result.value_or(Result::kUnknown)) {
    case Result::kOk:
      return Coloured(is_utf8 ? "✓" : "ok", Colour::kGood);
    case Result::kFailed:
      return Coloured(is_utf8 ? "✗" : "X ", Colour::kBad);
    case Result::kLeftOut:
      return is_utf8 ? "-" : "- ";
    case Result::kUnknown:
      return is_utf8 ? "?" : "? ";
  }
  return "";
}

// A cause that several checks share is shown with the first.
std::string TextOf(const Json& document) {
  const Json& checks = document.at("checks");
  std::string text = Format("network '{}'\n", PlainText(document.at("network")));
  std::set<std::string> shown;
  for (const Json& check : checks) {
    text += Cat(MarkOf(check), ' ', Printable(PlainText(check.at("what"))));
    text += check.at("family") == 6 ? ", IPv6" : "";
    if (const Json& why = check.at("why"); why.is_null()) {
      text += '\n';
    } else if (!shown.insert(PlainText(why)).second) {
      text += ": the same\n";
    } else {
      const std::string fix = check.at("verdict") == "left out" ? "" : ShowFix(check);
      text += Cat(": ", Printable(PlainText(why)), '\n', fix.empty() ? "" : Cat("  ", fix, '\n'));
    }
  }
  const std::size_t unknown = Count(checks, Result::kUnknown);
  return Cat(text,
             Format("{} ok, {} failed, {} left out{}\n",
                    Count(checks, Result::kOk),
                    Count(checks, Result::kFailed),
                    Count(checks, Result::kLeftOut),
                    unknown == 0 ? "" : Format(", {} unknown", unknown)));
}

int RunTest(const Arguments& arguments) {
  RequireRoot("test");
  const PluginList list = FindList(arguments);
  const std::string* const to = arguments.Find("to");
  const std::vector<TrialCheck> checks =
      TryNetwork(list, to == nullptr ? std::nullopt : std::optional(*to));
  const Json all = ArrayOf(checks, CheckJson);
  const Json document = {
      {"network", list.network}, {"failed", Count(all, Result::kFailed)}, {"checks", all}};
  if (arguments.Has("json")) {
    PrintDocument(document);
  } else {
    Print(Folded(TextOf(document), 2));
  }
  return document.at("failed") != 0 ? kNo : Count(all, Result::kUnknown) != 0 ? kUnknown : kYes;
}

constexpr std::array kTestFlags = {
    kJsonFlag,
    Flag{"to", "TARGET", "also a connection to ADDRESS:PORT or NAME:PORT"}};

}  // namespace

const Command kTest = {
    .name = "test",
    .operands = {"[NETWORK]", 0, 1},
    .summary = "tries a network, with two containers of its own",
    .text =
        R"(Attaches two containers without a program to NETWORK, with all plugins of its
conflist, as Nomad would. Then sends packets: to the gateway, the node and the
neighbour; to a published port from outside, from the node, from 127.0.0.1,
from the neighbour and from the container itself; out as far as the uplink; to
the name servers. Tries what must not pass, too: another container's source
address, a port that is not published, another namespace of Nomad's under the
policies in force. Prints a line for each, with the reason and the fix if it
fails. Takes the containers back, also if it is killed.

NETWORK is a name or a conflist; it may be left out if the node has only one.
-to: a real connection from the container, with a name looked up as there.

A line with "-" was left out: the network's config, a policy or the node's own
firewall closes it, or the node lacks that family. Exit 1: something failed.
Exit 2: something could not be probed.
)",
    .flags = kTestFlags,
    .run = RunTest};

}  // namespace nomad_bridge::cli
