#include "base/list.h"

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "plugin/cli/attachment_view.h"
#include "plugin/cli/command.h"
#include "plugin/cli/filters.h"

namespace nomad_bridge::cli {
namespace {

std::vector<Cell> Row(const Attachment& attachment, const Inventory& inventory, bool is_wide) {
  std::vector<Cell> row = {is_wide ? attachment.Allocation() : ShortId(attachment.Allocation()),
                           OrDash(attachment.Label(cni::kNamespace)),
                           OrDash(attachment.Label(cni::kJob)),
                           OrDash(attachment.Label(cni::kGroup)),
                           ShowAddresses(attachment, is_wide ? Extent::kAll : Extent::kFirst),
                           ShowPorts(attachment),
                           attachment.id.network};
  if (is_wide) {
    const std::optional<rtnl::Link>& link = attachment.link;
    const auto counters =
        link ? link->counters.value_or(rtnl::LinkCounters()) : rtnl::LinkCounters();
    Append(row,
           {attachment.id.ifname,
            OrDash(attachment.host_veth),
            OrDash(BridgeOf(attachment, inventory)),
            link ? ShowBytes(counters.sent.bytes) : "-",
            link ? ShowBytes(counters.received.bytes) : "-"});
  }
  Append(row, {ShowAgeOf(attachment)});
  row.push_back(ShowState(attachment));
  return row;
}

std::string ShowUsage(const Usage& usage, std::string_view what) {
  constexpr std::uint64_t kMillion = 1'000'000;
  // IPv6 networks have so many addresses that nobody reads all twenty digits.
  return usage.free() > kMillion ? Cat("more than a million ", what)
                                 : Format("{} of {} {}", usage.free(), usage.total, what);
}

// Returns "?" for numbers that only root can see. Leaves out numbers that nobody can know, such as
// the addresses of another IPAM plugin.
std::string ShowFree(const Network& network, bool is_complete) {
  std::vector<std::string> parts;
  for (const auto& [usage, what] :
       {std::pair{network.addresses, "addresses"}, std::pair{network.ports, "bridge ports"}}) {
    if (usage) {
      parts.push_back(ShowUsage(*usage, what));
    } else if (!is_complete) {
      parts.push_back(Cat("? ", what));
    }
  }
  return parts.empty() ? "" : Cat(Joined(parts, " and "), " free");
}

// Returns the summary, with a line for each network if there are several.
std::string Summary(const Inventory& inventory) {
  const std::vector<Attachment>& shown = inventory.attachments;
  std::vector<const Network*> networks;
  for (const Network& network : inventory.networks) {
    const auto is_in = [&](const Attachment& each) { return each.id.network == network.name; };
    if (std::ranges::any_of(shown, is_in)) {
      networks.push_back(&network);
    }
  }
  std::string text = Counted(shown.size(), "attachment");
  for (const Network* const network : networks) {
    const std::string free = ShowFree(*network, inventory.is_complete);
    if (!free.empty()) {
      text += Cat(networks.size() == 1 ? "; " : Format("\n{}: ", network->name), free);
    }
  }
  return Cat(text, '\n');
}

std::string ShowTable(const Inventory& inventory, bool is_wide) {
  std::vector<std::string> headers = {"ALLOC", "NS", "JOB", "GROUP", "ADDRESS", "PORTS", "NET"};
  if (is_wide) {
    Append(headers, {"INTERFACE", "VETH", "BRIDGE", "IN", "OUT"});
  }
  Append(headers, {"AGE", "STATE"});
  using Cut = std::vector<std::string_view>;
  Table table(
      headers, is_wide ? Cut() : Cut({"NS", "GROUP", "PORTS", "NET"}), is_wide ? "" : "JOB");
  for (const Attachment& attachment : inventory.attachments) {
    table.Add(Row(attachment, inventory, is_wide));
  }
  return table.Text();
}

Json UsageJson(const std::optional<Usage>& usage) {
  return usage ? Json{{"used", usage->used}, {"free", usage->free()}, {"total", usage->total}}
               : Json();
}

Json Document(const Inventory& inventory) {
  const auto attachment_json = [&](const Attachment& each) { return ToJson(each, inventory); };
  const auto network_json = [](const Network& network) -> Json {
    return {{"name", network.name},
            {"bridges", network.bridges},
            {"addresses", UsageJson(network.addresses)},
            {"bridgePorts", UsageJson(network.ports)}};
  };
  return {{"attachments", ArrayOf(inventory.attachments, attachment_json)},
          {"networks", ArrayOf(inventory.networks, network_json)}};
}

void Show(const Inventory& inventory, const Arguments& arguments) {
  if (arguments.Has("json")) {
    return PrintDocument(Document(inventory));
  }
  if (!arguments.Has("q")) {
    Print(ShowTable(inventory, arguments.Has("wide")));
    return WriteBestEffort(STDERR_FILENO, Summary(inventory));
  }
  std::string ids;
  for (const Attachment& attachment : inventory.attachments) {
    ids += Cat(attachment.Allocation(), '\n');
  }
  Print(ids);
}

Inventory TakeSelected(state::Host& host, const Filters& filters) {
  Inventory inventory = TakeInventory(host);
  if (inventory.is_complete) {
    CompareRules(host, inventory);
  }
  std::erase_if(inventory.attachments,
                [&](const Attachment& each) { return !Matches(each, filters); });
  return inventory;
}

// Prints the list again and again until a key is pressed.
void Watch(state::Host& host, const Filters& filters, const Arguments& arguments) {
  constexpr std::chrono::milliseconds kPause{2000};
  const KeyMode keys;
  do {
    const Inventory inventory = TakeSelected(host, filters);
    Print(Cat(kClearScreen,
              ShowTable(inventory, arguments.Has("wide")),
              Summary(inventory),
              "any key ends this\n"));
  } while (!keys.Await(kPause));
}

int RunList(const Arguments& arguments) {
  const Filters filters = ParseFilters(arguments.operands);
  state::Host host = state::Host::OpenToLook();
  if (arguments.Has("watch")) {
    Watch(host, filters, arguments);
    return kYes;
  }
  const Inventory inventory = TakeSelected(host, filters);
  RemarkOn(host, inventory);
  if (!inventory.is_complete && AsksForUntold(filters)) {
    return kUnknown;
  }
  Show(inventory, arguments);
  return inventory.attachments.empty() && !filters.empty() ? kNo : kYes;
}

constexpr std::array kListFlags = {
    Flag{"wide", nullptr, "whole IDs, all addresses, links, traffic; cuts nothing"},
    Flag{"q", nullptr, "whole IDs alone, a line each"},
    Flag{"watch", nullptr, "again every two seconds, until a key is pressed"},
    kJsonFlag};

}  // namespace

const Command kList = {
    .name = "list",
    .operands = {"[FILTER...]", 0, kAny},
    .summary = "shows the allocations that are attached here",
    .text =
        R"(A FILTER is job= ns= group= alloc= net= port= addr= veth= or state= with a glob,
as in 'job=web*' or state=dead. A job alone is job=; addr= also takes a subnet.
Repeated keys are alternatives; different keys must all match. Exit 1 if the
filters match nothing.

STATE is one of:
  ok
  unplugged      the host's end is missing, down, or not in its bridge
  making         an ADD is at work, or was killed
  leaving        a DEL is at work, or was killed
  dead           the namespace is gone
  unrecorded     only the link is there
  unreadable     the record is damaged
  rules-wrong    its rules in the kernel are damaged or missing: see doctor
  rules-unknown  the rules cannot be read

Without root, list shows what the link aliases hold, and '?' for the rest. A
filter for the rest exits 2.
)",
    .flags = kListFlags,
    .run = RunList};

}  // namespace nomad_bridge::cli
