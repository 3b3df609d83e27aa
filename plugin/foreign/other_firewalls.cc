#include "plugin/foreign/other_firewalls.h"

#include <functional>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "firewall/foreign_drops.h"
#include "plugin/foreign/iptables_legacy.h"
#include "plugin/foreign/tools.h"

namespace nomad_bridge::foreign {
namespace {

// "-w -A CHAIN ...": one call of the tool.
using Words = std::vector<std::string>;

class LegacyTable {
 public:
  explicit LegacyTable(std::string tool) : tool_(std::move(tool)) {}

  void EnsureChain(const std::string& chain) const {
    static_cast<void>(Call({"-N", chain}));  // fails if it is there
  }
  void EnsureFirst(const std::string& chain, const Words& rule) const { Ensure("-I", chain, rule); }
  void EnsureLast(const std::string& chain, const Words& rule) const { Ensure("-A", chain, rule); }

 private:
  [[nodiscard]] bool Call(Words words) const {
    words.insert(words.begin(), "-w");
    return RunTool(tool_, std::move(words)).Succeeded();
  }

  void Ensure(const char* how, const std::string& chain, const Words& rule) const {
    const auto with = [&](const char* action) {
      Words words = {action, chain};
      words.insert(words.end(), rule.begin(), rule.end());
      return words;
    };
    if (!Call(with("-C")) && !Call(with(how))) {
      LogLine("cannot put a rule into chain ", chain, " by ", tool_);
    }
  }

  std::string tool_;
};

void OpenLegacyTable(Family family, const state::Record& record) {
  if (!IsLegacyTableInUse(family, "filter")) {
    return;
  }
  const std::string tool = LegacyTool(family);
  const std::optional<std::string> path = FindTool(tool);
  if (!path) {
    LogLine(
        "tables of iptables-legacy are in use, but there is no ", tool, " to let allocations pass");
    return;
  }
  const LegacyTable table(*path);
  const std::string mark =
      Cat("0x", Hex(std::uint64_t{1} << record.rules.forward_hook.accept_mark_bit, 8));
  const std::string comment = "nomad-bridge: accepted by table inet nomad-bridge";
  table.EnsureChain("CNI-FORWARD");
  table.EnsureChain(record.rules.forward_hook.admin_chain);
  table.EnsureFirst(
      "FORWARD", {"-m", "comment", "--comment", "CNI firewall plugin rules", "-j", "CNI-FORWARD"});
  table.EnsureFirst("CNI-FORWARD",
                    {"-m",
                     "comment",
                     "--comment",
                     "CNI firewall plugin admin overrides",
                     "-j",
                     record.rules.forward_hook.admin_chain});
  table.EnsureLast("CNI-FORWARD",
                   {"-m",
                    "mark",
                    "--mark",
                    Cat(mark, '/', mark),
                    "-m",
                    "comment",
                    "--comment",
                    comment,
                    "-j",
                    "ACCEPT"});
}

bool IsFirewalldThere(state::Host& host) {
  return host.nft.HasTable({nft::TableFamily::kInet, "firewalld"}) ||
         host.nft.FindChain({nft::TableFamily::kIp, "filter"}, "FORWARD_direct").has_value();
}

// Now and, as a reload forgets whatever is not permanent, for good. The operator's choice of another
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
      LogLine("cannot put ", link, " into zone ", zone, " of firewalld: ", Printable(added.err));
      return;
    }
  }
  LogLine("put ", link, " into zone ", zone, " of firewalld");
}

// An allocation may well work without.
void Try(const std::function<void()>& open) {
  try {
    open();
  } catch (const Error& error) {
    LogLine("cannot open another firewall, ignoring: ", error.what());
  }
}

}  // namespace

void OpenLegacyTables(const state::Record& record) {
  Try([&] { OpenLegacyTable(Family::kIpv4, record); });
  if (record.rules.forward_hook.ipv6) {
    Try([&] { OpenLegacyTable(Family::kIpv6, record); });
  }
}

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
  for (const std::string& chain : firewall::ForeignDrops(host.nft)) {
    if (chain.find("table inet firewalld") == std::string::npos) {
      notes.push_back(
          Cat(chain,
              " comes after ours and may drop what we accept: let it accept the mark 0x",
              Hex(std::uint64_t{1} << accept_mark_bit, 8)));
    }
  }
  return notes;
}

}  // namespace nomad_bridge::foreign
