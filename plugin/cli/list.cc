#include "base/list.h"

#include <algorithm>
#include <array>
#include <functional>

#include <fnmatch.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "plugin/cli/attachment_view.h"
#include "plugin/cli/command.h"

namespace nomad_bridge::cli {
namespace {

constexpr std::array<std::string_view, 9> kKeys =
    {"job", "ns", "group", "alloc", "net", "port", "addr", "veth", "state"};

// By key: globs, of which one has to match.
using Filters = std::map<std::string, std::vector<std::string>, std::less<>>;

Filters ParseFilters(const std::vector<std::string>& words) {
  Filters filters;
  for (const std::string& word : words) {
    const std::size_t key_end = word.find('=');
    if (key_end == word.npos) {
      filters["job"].push_back(word);
      continue;
    }
    const std::string key = word.substr(0, key_end);
    if (!Contains(kKeys, key)) {
      throw UsageError(
          Format("list has no filter '{}'; allowed: job= ns= group= alloc= net= port= "
                 "addr= veth= state=, each with a glob; or a job alone",
                 word));
    }
    filters[key].push_back(word.substr(key_end + 1));
  }
  return filters;
}

std::string TextOf(const Attachment& attachment, std::string_view key) {
  return key == "net"     ? attachment.id.network
         : key == "veth"  ? attachment.host_veth
         : key == "state" ? std::string(Text(attachment.state))
                          : attachment.Label(key);
}

// What `key` is of an attachment; several of its addresses and ports.
std::vector<std::string> ValuesOf(const Attachment& attachment, std::string_view key) {
  static const state::Record kNone;
  const state::Record& record = attachment.record ? *attachment.record : kNone;
  std::vector<std::string> values;
  if (key == "port") {
    for (const portmap::DnatEntry& port : record.rules.ports) {
      values.push_back(std::to_string(port.host_port));
    }
  } else if (key == "addr") {
    for (const Cidr& address : record.ipam.addresses) {
      values.push_back(address.address.Text());
    }
  } else if (key == cni::kAllocation) {
    values = {attachment.Allocation(), ShortId(attachment.Allocation())};
  } else {
    values = {TextOf(attachment, key)};
  }
  return values;
}

bool Matches(const Attachment& attachment, const Filters& filters) {
  return std::ranges::all_of(filters, [&](const auto& filter) {
    const std::vector<std::string> values = ValuesOf(attachment, filter.first);
    return std::ranges::any_of(filter.second, [&](const std::string& glob) {
      if (const auto prefix = filter.first == "addr" ? Cidr::Parse(glob) : std::nullopt) {
        return std::ranges::any_of(values, [&](const std::string& value) {
          const std::optional<Ip> address = Ip::Parse(value);
          return address && prefix->Contains(*address);
        });
      }
      return std::ranges::any_of(values, [&](const std::string& value) {
        return ::fnmatch(glob.c_str(), value.c_str(), 0) == 0;
      });
    });
  });
}

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
  std::string text = Counted(shown.size(), "attachment");
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
  std::vector<std::string> headers = {
      "ALLOC", "NAMESPACE", "JOB", "GROUP", "ADDRESS", "PORTS", "NETWORK"};
  if (is_wide) {
    Append(headers, {"INTERFACE", "VETH", "BRIDGE", "IN", "OUT"});
  }
  Append(headers, {"AGE", "STATE"});
  Table table(headers, is_wide ? "" : "JOB");
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

// By -sort; else as the inventory has them.
void Sort(std::vector<Attachment>& attachments, const Arguments& arguments) {
  const auto sort = arguments.flags.find("sort");
  if (sort == arguments.flags.end()) {
    return;
  }
  const std::string& key = sort->second;
  if (key == "age") {  // the youngest first
    const auto created = [](const Attachment& each) {
      return each.record ? each.record->created : 0;
    };
    return static_cast<void>(std::ranges::stable_sort(attachments, std::greater(), created));
  }
  if (!Contains(kKeys, key)) {
    throw UsageError(
        Format("-sort '{}'; allowed: age job ns group alloc net port addr veth state", key));
  }
  if (key == "addr") {
    const auto address = [](const Attachment& each) {
      return each.record && !each.record->ipam.addresses.empty()
                 ? each.record->ipam.addresses.front().address
                 : Ip();
    };
    return static_cast<void>(std::ranges::stable_sort(attachments, {}, address));
  }
  std::ranges::stable_sort(attachments, {}, [&](const Attachment& each) {
    const std::vector<std::string> values = ValuesOf(each, key);
    return values.empty() ? "" : values.front();
  });
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

int RunList(const Arguments& arguments) {
  const Filters filters = ParseFilters(arguments.operands);
  state::Host host = state::Host::Open();
  Inventory inventory = TakeInventory(host);
  RemarkOn(inventory);
  std::erase_if(inventory.attachments,
                [&](const Attachment& each) { return !Matches(each, filters); });
  Sort(inventory.attachments, arguments);
  Show(inventory, arguments);
  return inventory.attachments.empty() && !filters.empty() ? kNo : kYes;
}

constexpr std::array kListFlags = {
    Flag{"wide", nullptr, "whole ids and all addresses, links, traffic; nothing is cut"},
    Flag{"q", nullptr, "whole ids alone, a line each"},
    Flag{"sort", "KEY", "by age, or by what a filter names: job, ns, addr, ..."},
    kJsonFlag};

}  // namespace

const Command kList = {
    .name = "list",
    .operands = {"[FILTER...]", 0, kAny},
    .summary = "what is attached here",
    .text =
        R"(A FILTER is job= ns= group= alloc= net= port= addr= veth= or state= with a glob, as in
'job=web*' or state=dead; a job alone is job=; addr= also takes a subnet. Repeated keys are alternatives; different keys must all match.

State: ok; unplugged: the host's end is missing, down, or not in its bridge; making and
leaving: an ADD or a DEL is at work, or was killed; dead: the namespace is gone, seen so
for as long; unrecorded: only the link is there; unreadable: the record is damaged.

Without root only what the link aliases hold; '?' is what they do not.
Exit 1 if the filters match nothing.
)",
    .flags = kListFlags,
    .run = RunList};

}  // namespace nomad_bridge::cli
