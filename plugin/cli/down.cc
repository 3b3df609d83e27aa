// The opposite of up, on a node without attachments: what all of them share goes from the kernel.
#include "base/error.h"
#include "base/text.h"
#include "firewall/static_rules.h"
#include "firewall/table.h"
#include "plugin/cli/command.h"
#include "plugin/cli/terminal.h"
#include "plugin/foreign/other_firewalls.h"
#include "plugin/link/bridge.h"

namespace nomad_bridge::cli {
namespace {

void RequireIdle(state::Host& host) {
  const std::size_t attachments = host.records.List("").size();
  if (attachments != 0) {
    throw Error(Code::kConflict,
                Format("this node has attachments: {}", attachments),
                "stop their allocations first; 'nomad-bridge gc' takes back what the dead hold");
  }
}

// Our tables, and the rules in iptables' that accept their mark.
std::string RemoveRules(state::Host& host) {
  std::string text;
  nft::Batch batch;
  for (const nft::TableFamily family : {nft::TableFamily::kInet, nft::TableFamily::kBridge}) {
    const nft::TableId table = firewall::TableId(family);
    if (host.nft.FindTable(table)) {
      batch.DeleteTable(table);
      text += Format("table {}: removed\n", nft::Text(table));
    }
  }
  for (const std::string& rule : firewall::PlanAcceptsGone(host.nft, batch)) {
    text += Cat(rule, ": removed\n");
  }
  if (!text.empty()) {
    nft::RetryOnGenerations(host.nft, "remove our rules", {}, [&](std::uint32_t generation) {
      return nft::TryCommit(host.nft, batch, generation);
    });
  }
  foreign::EnsureLegacyAcceptsGone(host);
  return text;
}

std::string RemoveLinks(state::Host& host) {
  std::string text;
  for (const rtnl::Link& link : host.net.Links()) {
    if (link.kind != "bridge") {
      continue;
    }
    if (link::IsAdopted(host, link.name)) {
      host.net.EnsureLocalhostFilterGone(link);
    } else if (host.net.Ports(link.index).empty()) {
      host.net.EnsureLinkGone(link.name);
      text += Format("bridge {}: removed\n", link.name);
    } else {
      text += Format("bridge {}: left, something is plugged into it\n", link.name);
    }
  }
  return text;
}

int RunDown(const Arguments&) {
  RequireRoot("down");
  state::Host host = state::Host::Open();
  RequireIdle(host);
  const std::string text = RemoveRules(host) + RemoveLinks(host);
  Print(text.empty() ? "nothing of ours is in the kernel\n" : text);
  return kYes;
}

}  // namespace

const Command kDown = {
    .name = "down",
    .operands = {},
    .summary = "removes bridges and rules of ours from a node without allocations",
    .text =
        R"(Removes what allocations share from the kernel: our tables, the rules in iptables' tables that
accept what passed them, and the bridges that we made; for a node that goes back to other plugins.
The chains CNI-FORWARD and NOMAD-ADMIN stay: other plugins and the operator have rules in them.
It is refused as long as there is an attachment. The next ADD, or up, makes all of it anew.
)",
    .run = RunDown};

}  // namespace nomad_bridge::cli
