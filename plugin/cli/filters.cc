#include "plugin/cli/filters.h"

#include <algorithm>

#include <fnmatch.h>

#include "base/list.h"
#include "base/text.h"
#include "plugin/cli/attachment_view.h"
#include "plugin/cli/command.h"

namespace nomad_bridge::cli {
namespace {

std::string TextOf(const Attachment& attachment, std::string_view key) {
  return key == "net"     ? attachment.id.network
         : key == "veth"  ? attachment.host_veth
         : key == "state" ? std::string(Text(attachment.state))
                          : attachment.Label(key);
}

// Throws UsageError if no attachment can match the filter.
void RefuseNonsense(const std::string& key, const std::string& glob) {
  const auto has_only = [&](const char* allowed) {
    return glob.find_first_not_of(Cat(allowed, "*?[]!-")) == glob.npos;
  };
  const auto refuse = [&](const std::string& allowed) {
    throw UsageError(Format("invalid filter '{}={}'; allowed: {}", key, glob, allowed));
  };
  if (key == "addr" && !Cidr::Parse(glob) && !has_only("0123456789abcdefABCDEF.:")) {
    refuse("an address, a subnet, or a glob of addresses");
  }
  if (key == "port" && !has_only("0123456789")) {
    refuse("a number, or a glob of numbers");
  }
  if (key == "state" && std::ranges::none_of(kStateNames, [&](const auto& state) {
        return ::fnmatch(glob.c_str(), state.second.data(), 0) == 0;
      })) {
    refuse(Cat(Joined(kStateNames, " ", [](const auto& state) { return state.second; }),
               ", or a glob"));
  }
}

}  // namespace

std::string FilterWords() {
  return Joined(kFilterKeys, " ", [](std::string_view key) { return Cat(key, '='); });
}

Filters ParseFilters(const std::vector<std::string>& words) {
  Filters filters;
  for (const std::string& word : words) {
    const std::size_t key_end = word.find('=');
    if (key_end == word.npos) {
      filters["job"].push_back(word);
      continue;
    }
    const std::string key = word.substr(0, key_end);
    if (!Contains(kFilterKeys, key)) {
      throw UsageError(
          Format("list has no filter '{}'; allowed: {}, each with a glob; or a job alone",
                 word,
                 FilterWords()));
    }
    RefuseNonsense(key, word.substr(key_end + 1));
    filters[key].push_back(word.substr(key_end + 1));
  }
  return filters;
}

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

bool AsksForUntold(const Filters& filters) {
  return std::ranges::any_of(std::array{"port", "addr", "state"},
                             [&](const char* key) { return filters.contains(key); });
}

}  // namespace nomad_bridge::cli
