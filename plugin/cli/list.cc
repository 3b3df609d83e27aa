#include "base/list.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <fnmatch.h>

#include "base/text.h"
#include "plugin/cli/attachment_view.h"
#include "plugin/cli/command.h"
#include "plugin/cli/document.h"
#include "plugin/cli/inventory.h"
#include "plugin/cli/terminal.h"
#include "plugin/state/host.h"

namespace nomad_bridge::cli {
namespace {

constexpr std::array<std::string_view, 9> kKeys = {cni::kJob,
                                                   cni::kNamespace,
                                                   cni::kGroup,
                                                   cni::kAllocation,
                                                   "net",
                                                   "port",
                                                   "addr",
                                                   "veth",
                                                   "state"};

// By key: globs, of which one has to match.
using Filters = std::map<std::string, std::vector<std::string>, std::less<>>;

Filters ParseFilters(const std::vector<std::string>& words) {
  Filters filters;
  for (const std::string& word : words) {
    const std::string key = word.substr(0, word.find('='));
    if (key.size() == word.size() || !Contains(kKeys, key)) {
      throw UsageError(
          Format("list has no filter '{}'; allowed: job= ns= group= alloc= net= port= "
                 "addr= veth= state=, each with a glob",
                 word));
    }
    filters[key].push_back(word.substr(key.size() + 1));
  }
  return filters;
}

std::vector<std::string> ValuesOf(const state::Record& record, std::string_view key) {
  std::vector<std::string> values;
  if (key == "port") {
    for (const portmap::DnatEntry& port : record.rules.ports) {
      values.push_back(std::to_string(port.host_port));
    }
  } else {
    for (const Cidr& address : record.ipam.addresses) {
      values.push_back(address.address.Text());
    }
  }
  return values;
}

// What `key` is of an attachment; several of its addresses and ports.
std::vector<std::string> ValuesOf(const Attachment& attachment, std::string_view key) {
  if (key == "net") {
    return {attachment.id.network};
  }
  if (key == "veth") {
    return {attachment.host_veth};
  }
  if (key == "state") {
    return {std::string(Text(attachment.state))};
  }
  if (key == cni::kAllocation) {
    const std::string& allocation = attachment.Allocation();
    return {allocation, ShortId(allocation)};
  }
  if (key == "port" || key == "addr") {
    return attachment.record ? ValuesOf(*attachment.record, key) : std::vector<std::string>();
  }
  return {attachment.Label(key)};
}

bool Matches(const Attachment& attachment, const Filters& filters) {
  return std::ranges::all_of(filters, [&](const auto& filter) {
    const std::vector<std::string> values = ValuesOf(attachment, filter.first);
    return std::ranges::any_of(filter.second, [&](const std::string& glob) {
      return std::ranges::any_of(values, [&](const std::string& value) {
        return ::fnmatch(glob.c_str(), value.c_str(), 0) == 0;
      });
    });
  });
}

std::vector<Cell> Row(const Attachment& attachment) {
  return {ShortId(attachment.Allocation()),
          OrDash(attachment.Label(cni::kNamespace)),
          OrDash(attachment.Label(cni::kJob)),
          OrDash(attachment.Label(cni::kGroup)),
          ShowAddresses(attachment, Extent::kFirst),
          ShowPorts(attachment),
          attachment.id.network,
          ShowState(attachment)};
}

std::vector<Cell> WideRow(const Attachment& attachment, const Inventory& inventory) {
  const rtnl::LinkCounters counters = attachment.link
                                          ? attachment.link->counters.value_or(rtnl::LinkCounters())
                                          : rtnl::LinkCounters();
  const std::string bridge = BridgeOf(attachment, inventory);
  return {attachment.Allocation(),
          OrDash(attachment.Label(cni::kNamespace)),
          OrDash(attachment.Label(cni::kJob)),
          OrDash(attachment.Label(cni::kGroup)),
          ShowAddresses(attachment, Extent::kAll),
          ShowPorts(attachment),
          attachment.id.network,
          attachment.id.ifname,
          OrDash(attachment.host_veth),
          OrDash(bridge),
          attachment.link ? ShowBytes(counters.sent.bytes) : "-",
          attachment.link ? ShowBytes(counters.received.bytes) : "-",
          ShowState(attachment)};
}

std::string ShowUsage(const std::optional<Usage>& usage, std::string_view what) {
  return usage ? Format("{} of {} {}", usage->free(), usage->total, what) : Cat("? ", what);
}

// With several networks, a line for each.
std::string Summary(const Inventory& inventory) {
  const std::vector<Attachment>& shown = inventory.attachments;
  std::vector<const Network*> networks;
  for (const Network& network : inventory.networks) {
    const auto is_in = [&](const Attachment& each) { return each.id.network == network.name; };
    if (std::ranges::any_of(shown, is_in)) {
      networks.push_back(&network);
    }
  }
  std::string text = Cat(shown.size(), shown.size() == 1 ? " attachment" : " attachments");
  for (const Network* const network : networks) {
    text += Cat(networks.size() == 1 ? "; " : Format("\n{}: ", network->name),
                ShowUsage(network->addresses, "addresses"),
                " and ",
                ShowUsage(network->ports, "bridge ports"),
                " free");
  }
  return Cat(text, '\n');
}

std::string ShowTable(const Inventory& inventory, bool is_wide) {
  Table table(
      is_wide ? std::vector<std::string>{"ALLOC",
                                         "NAMESPACE",
                                         "JOB",
                                         "GROUP",
                                         "ADDRESS",
                                         "PORTS",
                                         "NETWORK",
                                         "INTERFACE",
                                         "VETH",
                                         "BRIDGE",
                                         "IN",
                                         "OUT",
                                         "STATE"}
              : std::vector<std::string>{
                    "ALLOC", "NAMESPACE", "JOB", "GROUP", "ADDRESS", "PORTS", "NETWORK", "STATE"});
  for (const Attachment& attachment : inventory.attachments) {
    table.Add(is_wide ? WideRow(attachment, inventory) : Row(attachment));
  }
  return table.Text();
}

Json UsageJson(const std::optional<Usage>& usage) {
  return usage ? Json{{"used", usage->used}, {"free", usage->free()}, {"total", usage->total}}
               : Json();
}

Json Document(const Inventory& inventory) {
  Json document = NewDocument();
  document["attachments"] = Json::array();
  for (const Attachment& attachment : inventory.attachments) {
    document["attachments"].push_back(ToJson(attachment, inventory));
  }
  document["networks"] = Json::array();
  for (const Network& network : inventory.networks) {
    document["networks"].push_back({{"name", network.name},
                                    {"bridges", network.bridges},
                                    {"addresses", UsageJson(network.addresses)},
                                    {"bridgePorts", UsageJson(network.ports)}});
  }
  return document;
}

int RunList(const Arguments& arguments) {
  const Filters filters = ParseFilters(arguments.operands);
  state::Host host = state::Host::Open();
  Inventory inventory = TakeInventory(host);
  RemarkOn(inventory);
  std::erase_if(inventory.attachments,
                [&](const Attachment& each) { return !Matches(each, filters); });
  if (arguments.Has("json")) {
    PrintDocument(Document(inventory));
  } else {
    Print(Cat(ShowTable(inventory, arguments.Has("wide")), Summary(inventory)));
  }
  return inventory.attachments.empty() && !filters.empty() ? kNo : kYes;
}

constexpr std::array kListFlags = {
    Flag{"wide", nullptr, "whole ids and all addresses, links, traffic"},
    kJsonFlag};

}  // namespace

const Command kList = {
    .name = "list",
    .operands = "[FILTER...]",
    .summary = "what is attached here",
    .text =
        R"(A FILTER is job= ns= group= alloc= net= port= addr= veth= or state= with a glob, as in
'job=web*' or state=dead. Of several for one key one has to match, and for every key one.

State: ok; unplugged: the host's end is missing, down, or not in its bridge; making and
leaving: an ADD or a DEL is at work, or was killed; dead: the namespace is gone, seen so
for as long; unrecorded: only the link is there; unreadable: the record is damaged.

Without root only what the link aliases hold; '?' is what they do not.
Exit 1 if the filters match nothing.
)",
    .flags = kListFlags,
    .most = kAny,
    .run = RunList};

}  // namespace nomad_bridge::cli
