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

// The rules of a table "filter" of iptables-legacy.
class LegacyRules {
 public:
  LegacyRules(std::string tool, Mismatches& mismatches)
      : tool_(std::move(tool)), mismatches_(mismatches) {}

  // `action` adds it: "-A" as the last, "-I" as the first rule of `chain`.
  void Check(const char* action,
             const std::string& chain,
             Words rule,
             const char* comment,
             const std::string& target) {
    Append(rule, {"-m", "comment", "--comment", comment, "-j", target});
    const auto with_rule = [&](const char* verb) {
      Words words = {verb, chain};
      Append(words, rule);
      return words;
    };
    if (Call(tool_, with_rule("-C"))) {
      return;
    }
    mismatches_.Add({Mismatch::Area::kOtherFirewall,
                     chain,
                     Format("chain {} of {} has no rule \"{}\"", chain, tool_, comment)},
                    [&] {
                      static_cast<void>(Call(tool_, {"-N", chain}));  // fails if it is there
                      if (target != "ACCEPT") {
                        static_cast<void>(Call(tool_, {"-N", target}));
                      }
                      if (!Call(tool_, with_rule(action))) {
                        LogLine("cannot add a rule to chain {} by {}", chain, tool_);
                      }
                    });
  }

 private:
  std::string tool_;
  Mismatches& mismatches_;
};

void CheckLegacyTable(Family family, const state::Record& record, Mismatches& mismatches) {
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
  const std::string mark = Cat("0x", Hex(std::uint64_t{1} << hook.accept_mark_bit, 8));
  LegacyRules rules(*path, mismatches);
  rules.Check("-I", firewall::kForward, {}, firewall::kJumpComment, firewall::kCniForward);
  rules.Check("-I", firewall::kCniForward, {}, firewall::kAdminComment, hook.admin_chain);
  rules.Check("-A",
              firewall::kCniForward,
              {"-m", "mark", "--mark", Cat(mark, '/', mark)},
              firewall::kAcceptComment,
              "ACCEPT");
}

bool IsFirewalldThere(state::Host& host) {
  return host.nft.FindTable({nft::TableFamily::kInet, "firewalld"}) ||
         host.nft.FindChain({nft::TableFamily::kIp, "filter"}, "FORWARD_direct").has_value();
}

// For now and, as a reload drops what is not permanent, permanently.
void AddToZone(const std::string& tool, const std::string& link, const std::string& zone) {
  const Words add = {Cat("--zone=", zone), Cat("--add-interface=", link)};
  for (const Words& words : {add, Words{"--permanent", add[0], add[1]}}) {
    const ExitInfo added = RunTool(tool, words);
    if (!added.Succeeded()) {
      LogLine("cannot add {} to zone {} of firewalld: {}", link, zone, Printable(added.err));
      return;
    }
  }
  LogLine("added {} to zone {} of firewalld", link, zone);
}

// The operator's choice of another zone stands.
void CheckZone(const std::string& link, const std::string& zone, Mismatches& mismatches) {
  const std::optional<std::string> tool = FindTool("firewall-cmd");
  if (tool && !RunTool(*tool, {Cat("--get-zone-of-interface=", link)}).Succeeded()) {
    mismatches.Add(
        {Mismatch::Area::kOtherFirewall,
         link,
         Format("'{}' is in no zone of firewalld, which rejects what comes from it", link)},
        [&] { AddToZone(*tool, link, zone); });
  }
}

void Try(const std::function<void()>& check) {
  try {
    check();
  } catch (const Error& error) {
    LogLine("cannot open another firewall, ignoring: {}", error.what());
  }
}

}  // namespace

void CheckOtherFirewalls(state::Host& host, const state::Record& record, Mismatches& mismatches) {
  Try([&] { CheckLegacyTable(Family::kIpv4, record, mismatches); });
  if (record.rules.forward_hook.ipv6) {
    Try([&] { CheckLegacyTable(Family::kIpv6, record, mismatches); });
  }
  Try([&] {
    if (!record.link.gateway_ifname.empty() && IsFirewalldThere(host)) {
      CheckZone(record.link.gateway_ifname, record.rules.firewalld_zone, mismatches);
    }
  });
}

std::vector<std::string> DropsOfOthers(state::Host& host, int accept_mark_bit) {
  std::vector<std::string> drops;
  for (const std::string& chain : firewall::ForeignDrops(host.nft, accept_mark_bit)) {
    drops.push_back(
        Format("{} comes after ours and may drop what we accept: let it accept the mark 0x{}",
               chain,
               Hex(std::uint64_t{1} << accept_mark_bit, 8)));
  }
  return drops;
}

}  // namespace nomad_bridge::foreign
