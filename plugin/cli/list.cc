#include "base/list.h"

#include <algorithm>
#include <array>

#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "plugin/cli/attachment_view.h"
#include "plugin/cli/command.h"
#include "plugin/cli/named_attachments.h"

namespace nomad_bridge::cli {
namespace {

Cell ShowTraffic(const Json& bytes) {
  return bytes.is_null() ? "-" : ShowBytes(bytes);
}

constexpr std::array kColumns = {Column{"ALLOC", "/allocation", ShowShortId},
                                 Column{"NS", "/namespace", ShowPlain, Cuts::kFirst},
                                 Column{"JOB", "/job", ShowPlain, Cuts::kLast},
                                 Column{"GROUP", "/group", ShowPlain, Cuts::kFirst},
                                 Column{"ADDRESS", "/addresses", ShowFirstAddress},
                                 Column{"PORTS", "/ports", ShowPorts, Cuts::kFirst},
                                 Column{"NET", "/network", ShowPlain, Cuts::kFirst},
                                 Column{"AGE", "/created", ShowAgeSince},
                                 Column{"STATE", "", ShowStateAndDrops}};

constexpr std::array kWideColumns = {Column{"ALLOC", "/allocation"},
                                     Column{"NS", "/namespace"},
                                     Column{"JOB", "/job"},
                                     Column{"GROUP", "/group"},
                                     Column{"ADDRESS", "/addresses", ShowAddresses},
                                     Column{"PORTS", "/ports", ShowPorts},
                                     Column{"NET", "/network"},
                                     Column{"INTERFACE", "/interface"},
                                     Column{"VETH", "/hostVeth"},
                                     Column{"BRIDGE", "/bridge"},
                                     Column{"IN", "/received/bytes", ShowTraffic},
                                     Column{"OUT", "/sent/bytes", ShowTraffic},
                                     Column{"AGE", "/created", ShowAgeSince},
                                     Column{"STATE", "", ShowStateAndDrops}};

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
          {"networks", ArrayOf(inventory.networks, network_json)},
          {"complete", inventory.is_complete}};
}

std::string TableOfList(const Json& document, const Arguments& arguments) {
  const Json& rows = document.at("attachments");
  return arguments.Has("wide") ? TableOf(rows, kWideColumns) : TableOf(rows, kColumns);
}

// Returns "4091 of 4093 addresses"; "? addresses" if only root can see how many. Returns an empty
// text for numbers that nobody can know, such as the addresses of another IPAM plugin.
std::string ShowUsage(const Json& usage, std::string_view what, bool is_complete) {
  constexpr std::uint64_t kMillion = 1'000'000;
  if (usage.is_null()) {
    return is_complete ? "" : Cat("? ", what);
  }
  // IPv6 networks have so many addresses that nobody reads all twenty digits.
  const std::uint64_t free = usage.at("free");
  return free > kMillion ? Cat("more than a million ", what)
                         : Format("{} of {} {}", free, PlainText(usage.at("total")), what);
}

// Returns the summary, with a line for each network if there are several.
std::string Summary(const Json& document) {
  const Json& shown = document.at("attachments");
  const bool is_complete = document.at("complete");
  std::vector<const Json*> networks;
  for (const Json& network : document.at("networks")) {
    const auto is_in = [&](const Json& each) { return each.at("network") == network.at("name"); };
    if (std::ranges::any_of(shown, is_in)) {
      networks.push_back(&network);
    }
  }
  std::string text = Counted(shown.size(), "attachment");
  for (const Json* const network : networks) {
    std::vector parts = {ShowUsage(network->at("addresses"), "addresses", is_complete),
                         ShowUsage(network->at("bridgePorts"), "bridge ports", is_complete)};
    std::erase(parts, "");
    if (!parts.empty()) {
      const std::string name = PlainText(network->at("name"));
      text += Cat(
          networks.size() == 1 ? "; " : Format("\n{}: ", name), Joined(parts, " and "), " free");
    }
  }
  return Cat(text, '\n');
}

void Show(const Json& document, const Arguments& arguments) {
  if (arguments.Has("json")) {
    return PrintDocument(document);
  }
  if (!arguments.Has("q")) {
    Print(TableOfList(document, arguments));
    return WriteBestEffort(STDERR_FILENO, Summary(document));
  }
  Print(Joined(document.at("attachments"), "", [](const Json& each) {
    return Cat(PlainText(each.at("allocation")), '\n');
  }));
}

Inventory TakeSelected(state::Host& host, const Filters& filters) {
  Inventory inventory = TakeInventory(host);
  AddReferenceMade(host, inventory);
  if (inventory.is_complete) {
    CompareRules(host, inventory);
  }
  AddDrops(host, inventory);
  std::vector<Attachment> selected;
  for (const Attachment* const each : FindAll(inventory, filters)) {
    selected.push_back(*each);
  }
  inventory.attachments = std::move(selected);
  return inventory;
}

// Prints the list again and again until a key is pressed.
void Watch(state::Host& host, const Filters& filters, const Arguments& arguments) {
  constexpr std::chrono::milliseconds kPause{2000};
  const KeyMode keys;
  do {
    const Json document = Document(TakeSelected(host, filters));
    Print(Cat(
        kClearScreen, TableOfList(document, arguments), Summary(document), "any key ends this\n"));
  } while (!keys.Await(kPause));
}

// Returns whether only root can tell what else matches.
bool AsksForUntold(const Filters& filters, const Inventory& inventory) {
  const bool has_found = !inventory.attachments.empty();
  return std::ranges::any_of(filters, [&](const auto& filter) {
    const std::string& key = filter.first;
    return key == "port" || key == "addr" || key == "state" || (key.empty() && !has_found);
  });
}

int RunList(const Arguments& arguments) {
  Filters filters;
  for (const std::string& word : arguments.operands) {
    Append(filters, ParseFilters(word));
  }
  state::Host host = state::Host::OpenToLook();
  if (arguments.Has("watch")) {
    Watch(host, filters, arguments);
    return kYes;
  }
  const Inventory inventory = TakeSelected(host, filters);
  RemarkOn(host, inventory);
  if (!inventory.is_complete && AsksForUntold(filters, inventory)) {
    return kUnknown;
  }
  Show(Document(inventory), arguments);
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
as in 'job=web*' or state=dead; addr= also takes a subnet. Repeated keys are
alternatives; different keys must all match. A word alone is job=; if there is
no such job, it is any other name: a published port, address, group, JOB/GROUP,
ID or interface, of which a prefix of two characters is enough. Exit 1 if the
filters match nothing.

Other commands take the same names, and filters with commas between, as in
`inspect ns=prod,job=web`.

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
  reference      the reference plugins made it, and it runs

Without root, list shows what the link aliases hold, and '?' for the rest. A
filter for the rest exits 2.
)",
    .flags = kListFlags,
    .run = RunList};

}  // namespace nomad_bridge::cli
