#include "plugin/foreign/other_firewalls.h"

#include <functional>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/list.h"
#include "base/log.h"
#include "base/text.h"
#include "firewall/foreign_drops.h"
#include "firewall/static_rules.h"
#include "plugin/foreign/iptables_legacy.h"
#include "plugin/foreign/tools.h"

namespace nomad_bridge::foreign {
namespace {

using Words = std::vector<std::string>;

bool Call(const std::string& tool, Words words) {
  words.insert(words.begin(), "-w");
  return RunTool(tool, std::move(words)).Succeeded();
}

// `action` adds it: "-A" as the last, "-I" as the first rule of `chain`.
void EnsureRule(const std::string& tool,
                const char* action,
                const std::string& chain,
                const Words& rule) {
  Words check = {"-C", chain};
  Append(check, rule);
  Words add = {action, chain};
  Append(add, rule);
  if (!Call(tool, check) && !Call(tool, add)) {
    LogLine("cannot add a rule to chain {} by {}", chain, tool);
  }
}

void OpenLegacyTable(Family family, const state::Record& record) {
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
  const auto rule = [](Words match, const std::string& comment, const std::string& target) {
    Append(match, {"-m", "comment", "--comment", comment, "-j", target});
    return match;
  };
  const std::string& admin_chain = record.rules.forward_hook.admin_chain;
  const std::string mark =
      Cat("0x", Hex(std::uint64_t{1} << record.rules.forward_hook.accept_mark_bit, 8));
  for (const std::string& chain : {std::string(firewall::kCniForward), admin_chain}) {
    static_cast<void>(Call(*path, {"-N", chain}));  // fails if it is there
  }
  EnsureRule(
      *path, "-I", firewall::kForward, rule({}, firewall::kJumpComment, firewall::kCniForward));
  EnsureRule(*path, "-I", firewall::kCniForward, rule({}, firewall::kAdminComment, admin_chain));
  EnsureRule(
      *path,
      "-A",
      firewall::kCniForward,
      rule({"-m", "mark", "--mark", Cat(mark, '/', mark)}, firewall::kAcceptComment, "ACCEPT"));
}

bool IsFirewalldThere(state::Host& host) {
  return host.nft.FindTable({nft::TableFamily::kInet, "firewalld"}) ||
         host.nft.FindChain({nft::TableFamily::kIp, "filter"}, "FORWARD_direct").has_value();
}

// For now and, as a reload drops what is not permanent, permanently. The operator's choice of another
// zone stands.
void EnsureZone(const std::string& link, const std::string& zone) {
  const std::optional<std::string> tool = FindTool("firewall-cmd");
  if (!tool || RunTool(*tool, {Cat("--get-zone-of-interface=", link)}).Succeeded()) {
    return;
  }
  const Words add = {Cat("--zone=", zone), Cat("--add-interface=", link)};
  for (const Words& words : {add, Words{"--permanent", add[0], add[1]}}) {
    const ExitInfo added = RunTool(*tool, words);
    if (!added.Succeeded()) {
      LogLine("cannot add {} to zone {} of firewalld: {}", link, zone, Printable(added.err));
      return;
    }
  }
  LogLine("added {} to zone {} of firewalld", link, zone);
}

void Try(const std::function<void()>& open) {
  try {
    open();
  } catch (const Error& error) {
    LogLine("cannot open another firewall, ignoring: {}", error.what());
  }
}

void OpenLegacyTables(const state::Record& record) {
  Try([&] { OpenLegacyTable(Family::kIpv4, record); });
  if (record.rules.forward_hook.ipv6) {
    Try([&] { OpenLegacyTable(Family::kIpv6, record); });
  }
}

}  // namespace

void OpenOtherFirewalls(state::Host& host, const state::Record& record) {
  OpenLegacyTables(record);
  Try([&] {
    if (!record.link.gateway_ifname.empty() && IsFirewalldThere(host)) {
      EnsureZone(record.link.gateway_ifname, record.rules.firewalld_zone);
    }
  });
}

std::vector<std::string> NotesOnOtherFirewalls(state::Host& host, int accept_mark_bit) {
  std::vector<std::string> notes;
  for (const std::string& chain : firewall::ForeignDrops(host.nft, accept_mark_bit)) {
    notes.push_back(
        Format("{} comes after ours and may drop what we accept: let it accept the mark 0x{}",
               chain,
               Hex(std::uint64_t{1} << accept_mark_bit, 8)));
  }
  return notes;
}

}  // namespace nomad_bridge::foreign
