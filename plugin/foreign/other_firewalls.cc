#include "plugin/foreign/other_firewalls.h"

#include <functional>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/list.h"
#include "base/log.h"
#include "base/text.h"
#include "firewall/static_rules.h"
#include "firewall/table.h"
#include "plugin/foreign/tools.h"
#include "plugin/link/uplink.h"

namespace nomad_bridge::foreign {
namespace {

using Words = std::vector<std::string>;

// A rule of a table "filter" of iptables-legacy.
struct LegacyRule {
  const char* action;  // that adds it: "-A" as the last, "-I" as the first rule of `chain`
  std::string chain;
  Words words;
  std::string comment;
  std::string target;
};

Words WordsOf(const LegacyRule& rule) {
  Words words = rule.words;
  Append(words, {"-m", "comment", "--comment", rule.comment, "-j", rule.target});
  return words;
}

LegacyRule AcceptOf(int mark_bit) {
  const std::string mark = Cat("0x", Hex(std::uint64_t{1} << mark_bit, 8));
  return {"-A",
          firewall::kCniForward,
          {"-m", "mark", "--mark", Cat(mark, '/', mark)},
          firewall::kAcceptComment,
          "ACCEPT"};
}

void CheckLegacyRule(const std::string& tool, const LegacyRule& rule, Findings& findings) {
  const auto call = [&](const char* verb, const std::string& chain, const Words& words) {
    Words all = {"-w", verb, chain};
    Append(all, words);
    return RunTool(tool, std::move(all));
  };
  const Words words = WordsOf(rule);
  const ExitInfo found = call("-C", rule.chain, words);
  if (found.Succeeded()) {
    return;
  }
  // 1: no such rule or chain; 2: no such target. Anything else says nothing about rules: the tool
  // lacks a capability, or the lock.
  if (found.how != End::kExit || found.number > 2) {
    throw ToolError(tool, found);
  }
  findings.Add({Finding::Area::kStaticRules,
                rule.chain,
                Format("chain {} of {} has no rule '{}'", rule.chain, tool, rule.comment)},
               [&] {
                 static_cast<void>(call("-N", rule.chain, {}));  // fails if it is there
                 if (rule.target != "ACCEPT") {
                   static_cast<void>(call("-N", rule.target, {}));
                 }
                 const ExitInfo added = call(rule.action, rule.chain, words);
                 if (!added.Succeeded()) {
                   throw ToolError(tool, added);
                 }
               });
}

void CheckLegacyTable(Family family, const state::Record& record, Findings& findings) {
  if (!IsLegacyTableInUse(family, "filter")) {
    return;
  }
  const std::string tool = LegacyTool(family);
  const std::optional<std::string> path = FindTool(tool);
  if (!path) {
    LogLine(
        "tables of iptables-legacy are in use, but there is no {} to add rules that accept "
        "allocations",
        tool);
    return;
  }
  const firewall::ForwardHook& hook = record.rules.forward_hook;
  for (const LegacyRule& rule : std::vector<LegacyRule>{
           {"-I", firewall::kForward, {}, firewall::kJumpComment, firewall::kCniForward},
           {"-I", firewall::kCniForward, {}, firewall::kAdminComment, hook.admin_chain},
           AcceptOf(hook.accept_mark_bit)}) {
    CheckLegacyRule(*path, rule, findings);
  }
}

// Fails without a word if there is no such rule, or none any more.
void RemoveLegacyAccept(Family family, int mark_bit) {
  const std::optional<std::string> tool =
      IsLegacyTableInUse(family, "filter") ? FindTool(LegacyTool(family)) : std::nullopt;
  if (tool) {
    const LegacyRule rule = AcceptOf(mark_bit);
    Words words = {"-w", "-D", rule.chain};
    Append(words, WordsOf(rule));
    static_cast<void>(RunTool(*tool, std::move(words)));
  }
}

// Returns a number that changes when firewalld changes its rules; nullopt if it has none. Its
// backends are nf_tables and iptables. With the latter, only a reload shows.
std::optional<std::uint64_t> FindFirewalld(state::Host& host) {
  if (host.nft.FindTable(FirewalldTable())) {
    return host.nft.HashOfRules(FirewalldTable());
  }
  const auto chain = host.nft.FindChain({nft::TableFamily::kIp, "filter"}, "FORWARD_direct");
  return chain ? std::optional(chain->handle) : std::nullopt;
}

// For now and, as a reload drops what is not permanent, permanently.
void AddToZone(const std::string& tool, const std::string& link, const std::string& zone) {
  const Words add = {Cat("--zone=", zone), Cat("--add-interface=", link)};
  for (const Words& words : {add, Words{"--permanent", add[0], add[1]}}) {
    const ExitInfo added = RunTool(tool, words);
    if (!added.Succeeded()) {
      throw ToolError(tool, added);
    }
  }
  LogLine("added {} to zone {} of firewalld", link, zone);
}

// Adds a finding if `link` is in no zone. The operator may have chosen another zone than `zone`.
void CheckZone(const std::string& link, const std::string& zone, Findings& findings) {
  const std::optional<std::string> tool = FindTool("firewall-cmd");
  if (tool && !RunTool(*tool, {Cat("--get-zone-of-interface=", link)}).Succeeded()) {
    findings.Add(
        {Finding::Area::kOtherFirewall,
         link,
         Format("'{}' is in no zone of firewalld, which rejects what comes from it", link)},
        [&] { AddToZone(*tool, link, zone); });
  }
}

// Whether firewalld is to have that link in a zone of ours. One that is also the node's way to its
// LAN is its operator's to put into a zone: others are on it.
bool IsForZone(state::Host& host, const std::string& gateway_ifname) {
  const std::optional<rtnl::Link> gateway =
      gateway_ifname.empty() ? std::nullopt : host.net.FindLink(gateway_ifname);
  return gateway && !(gateway->kind == "bridge" && link::HasUplink(host.net, *gateway));
}

// Returns whether `check` has succeeded.
bool Try(const std::function<void()>& check) {
  try {
    check();
    return true;
  } catch (const Error& error) {
    LogLine("cannot open another firewall, ignoring: {}", error.what());
    return false;
  }
}

constexpr const char* kOpenedFile = "/run/nomad-bridge/.opened";

// Returns a line that is another one once somebody has changed the other firewalls.
std::string StateOf(state::Host& host, std::optional<std::uint64_t> firewalld) {
  return Format("{} netns {} firewalld {} legacy {}",
                host.boot,
                host.netns.id().inode,
                firewalld ? Cat(*firewalld) : "-",
                FilterFingerprint());
}

// Returns the links that other firewalls let pass since they have been in `state`.
std::vector<std::string> OpenedLinks(const std::string& state) {
  std::vector<std::string> lines = SplitFields(FindOwnFile(kOpenedFile).value_or(""), "\n");
  if (lines.empty() || lines.front() != state) {
    return {};
  }
  lines.erase(lines.begin());
  return lines;
}

void RememberOpened(const std::string& state, const std::string& link) {
  std::vector<std::string> lines = OpenedLinks(state);
  lines.insert(lines.begin(), state);
  lines.push_back(link);
  RecreateFile(kOpenedFile, Joined(lines, "\n"));
}

}  // namespace

void CheckOtherFirewalls(state::Host& host, const state::Record& record, Findings& findings) {
  if (record.rules.forward_hook.admin_chain.empty()) {
    return;  // the node does not forward for it
  }
  const std::optional<std::uint64_t> firewalld = FindFirewalld(host);
  if (!firewalld && FilterFingerprint().empty()) {
    return;
  }
  const std::string& link = record.link.gateway_ifname;
  if (Contains(OpenedLinks(StateOf(host, firewalld)), link)) {
    return;
  }
  bool has_opened = Try([&] { CheckLegacyTable(Family::kIpv4, record, findings); });
  if (record.rules.forward_hook.ipv6) {
    has_opened &= Try([&] { CheckLegacyTable(Family::kIpv6, record, findings); });
  }
  has_opened &= Try([&] {
    if (firewalld && IsForZone(host, link)) {
      CheckZone(link, record.rules.firewalld_zone, findings);
    }
  });
  // If a tool failed, the next command asks it again.
  if (has_opened && findings.is_repairing()) {
    Try([&] { RememberOpened(StateOf(host, FindFirewalld(host)), link); });
  }
}

nft::TableId FirewalldTable() {
  return {nft::TableFamily::kInet, "firewalld"};
}

FindingList FindStrictForwardPorts(state::Host& host) {
  if (!host.nft.FindChain(FirewalldTable(), kStrictForwardPortsChain)) {
    return {};
  }
  return {{.text = "firewalld rejects published ports: it has StrictForwardPorts=yes",
           .fix = StrictForwardPortsAdvice(),
           .severity = Finding::Severity::kWarning}};
}

Fix StrictForwardPortsAdvice() {
  return Fix::Advice(
      "if that is not meant: set StrictForwardPorts=no in /etc/firewalld/firewalld.conf, then "
      "firewall-cmd --reload");
}

void EnsureLegacyAcceptsGone(int mark_bit) {
  for (const Family family : firewall::kFamilies) {
    RemoveLegacyAccept(family, mark_bit);
  }
}

}  // namespace nomad_bridge::foreign
