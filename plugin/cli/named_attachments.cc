#include "plugin/cli/named_attachments.h"

#include <algorithm>
#include <map>
#include <set>

#include <fnmatch.h>

#include "base/list.h"
#include "base/log.h"
#include "base/text.h"
#include "plugin/cli/attachment_view.h"
#include "plugin/cli/command.h"
#include "plugin/state/kernel_names.h"

namespace nomad_bridge::cli {
namespace {

constexpr std::size_t kMinBytes = 2;

bool IsGlobOf(const std::string& glob, std::string_view value) {
  return glob == value || ::fnmatch(glob.c_str(), std::string(value).c_str(), 0) == 0;
}

// Throws UsageError if no attachment can match the filter.
void RefuseNonsense(const std::string& key, const std::string& glob) {
  const auto has_only = [&](const char* allowed) {
    return glob.find_first_not_of(Cat(allowed, "*?[]!-")) == glob.npos;
  };
  const auto refuse = [&](const std::string& allowed) {
    throw UsageError(Format("invalid filter '{}={}'; allowed: {}", key, glob, allowed));
  };
  const auto is_state = [&](const auto& state) { return IsGlobOf(glob, state.second); };
  if (!Contains(kFilterKeys, key)) {
    throw UsageError(
        Format("there is no filter '{}={}'; allowed: {}, each with a glob; or a name alone",
               key,
               glob,
               Joined(kFilterKeys, " ", [](std::string_view each) { return Cat(each, '='); })));
  }
  if (key == "addr" && !Cidr::Parse(glob) && !has_only("0123456789abcdefABCDEF.:")) {
    refuse("an address, a subnet, or a glob of addresses");
  }
  if (key == "port" && !has_only("0123456789")) {
    refuse("a number, or a glob of numbers");
  }
  if (key == "state" && std::ranges::none_of(kStateNames, is_state)) {
    refuse(Cat(Joined(kStateNames, " ", [](const auto& state) { return state.second; }),
               ", or a glob"));
  }
}

bool Matches(const Attachment& attachment, std::string_view key, const std::string& glob) {
  const std::optional<Cidr> subnet = key == "addr" ? Cidr::Parse(glob) : std::nullopt;
  return std::ranges::any_of(ValuesOf(attachment, key), [&](const std::string& value) {
    return subnet ? subnet->Contains(Ip::Parse(value).value()) : IsGlobOf(glob, value);
  });
}

Attachments Select(const Inventory& inventory, const auto& matches) {
  Attachments selected;
  for (const Attachment& attachment : inventory.attachments) {
    if (matches(attachment)) {
      selected.push_back(&attachment);
    }
  }
  return selected;
}

// Returns the names of an attachment: its job and group, "job/group", its ids and its interface.
std::vector<std::string> NamesOf(const Attachment& attachment) {
  const std::string& job = attachment.Label(cni::kJob);
  const std::string& group = attachment.Label(cni::kGroup);
  std::vector<std::string> names = {job,
                                    group,
                                    job.empty() && group.empty() ? "" : Cat(job, '/', group),
                                    attachment.Allocation(),
                                    attachment.id.container_id,
                                    attachment.host_veth};
  if (attachment.link) {
    names.push_back(state::HostVethName(attachment.id));  // even if the link was renamed
  }
  std::erase(names, "");
  return names;
}

// Finds attachments by published port, then by address, then by whole name, then by filters, and at
// last by prefix. Only a prefix needs two characters: a job may be called 'z', or 'a=b'.
Attachments FindNamed(const Inventory& inventory, const std::string& word) {
  Attachments found = Select(
      inventory, [&](const Attachment& each) { return Contains(ValuesOf(each, "port"), word); });
  const std::optional<Ip> address = Ip::Parse(word);
  if (found.empty() && address) {
    return FindAll(inventory, {{"addr", address->Text()}});
  }
  if (found.empty()) {
    found =
        Select(inventory, [&](const Attachment& each) { return Contains(NamesOf(each), word); });
  }
  if (!found.empty()) {
    return found;
  }
  if (const std::size_t equals = word.find('=');
      equals != word.npos && Contains(kFilterKeys, word.substr(0, equals))) {
    return FindAll(inventory, ParseFilters(word));
  }
  return Select(inventory, [&](const Attachment& each) {
    return word.size() >= kMinBytes &&
           std::ranges::any_of(NamesOf(each),
                               [&](const std::string& name) { return name.starts_with(word); });
  });
}

constexpr std::array kCandidateColumns = {Column{"ALLOC", "/allocation"},
                                          Column{"JOB", "/job", ShowPlain, Cuts::kLast},
                                          Column{"GROUP", "/group", ShowPlain, Cuts::kFirst},
                                          Column{"VETH", "/hostVeth"},
                                          Column{"ADDRESS", "/addresses", ShowFirstAddress},
                                          Column{"NET", "/network", ShowPlain, Cuts::kFirst}};

// Returns the attachments that `word` names. Returns none, with a remark on stderr, if there are
// none, or if some `differ` from the first.
Attachments Find(const Inventory& inventory, const std::string& word, const auto& differ) {
  Attachments found = FindNamed(inventory, word);
  if (found.empty() && word.size() < kMinBytes) {
    throw UsageError(Format("'{}' is too short for a prefix; allowed: 2 characters or more", word));
  }
  if (found.empty()) {
    if (!inventory.is_complete) {
      throw CannotTell(
          Format("cannot tell without root whether anything here is called '{}'", word));
    }
    const auto lost = std::ranges::count_if(inventory.attachments, &Attachment::IsRecordLost);
    if (lost != 0) {
      throw CannotTell(
          Format("cannot tell whether anything here is called '{}': {} without a readable record; "
                 "what to type: nomad-bridge doctor records",
                 word,
                 Counted(static_cast<std::size_t>(lost), "attachment")));
    }
    LogLine(
        "nothing here has '{}' as its allocation, job, group, interface, address or published port",
        word);
    return {};
  }
  const auto is_other = [&](const Attachment* each) { return differ(*each, *found.front()); };
  if (std::ranges::any_of(found, is_other)) {
    const Json rows =
        ArrayOf(found, [&](const Attachment* each) { return ToJson(*each, inventory); });
    LogLine("'{}' may be any of these:\n{}", word, TableOf(rows, kCandidateColumns));
    return {};
  }
  return found;
}

}  // namespace

Filters ParseFilters(std::string_view word) {
  if (word.find('=') == word.npos) {
    return {{"", std::string(word)}};
  }
  Filters filters;
  while (!word.empty()) {
    std::string_view glob = TakeUntil(',', word);
    if (glob.find('=') == glob.npos && !filters.empty()) {
      filters.back().second += Cat(',', glob);  // the name of a job may have a comma
    } else {
      const std::string_view key = TakeUntil('=', glob);
      filters.emplace_back(key, glob);
    }
  }
  for (const auto& [key, glob] : filters) {
    RefuseNonsense(key, glob);
  }
  return filters;
}

std::vector<std::string> ValuesOf(const Attachment& attachment, std::string_view key) {
  std::vector<std::string> values;
  if (key == "port") {
    for (const portmap::DnatEntry& port : attachment.Ports()) {
      values.push_back(std::to_string(port.host_port));
    }
  } else if (key == "addr") {
    for (const Cidr& address : attachment.Addresses()) {
      values.push_back(address.address.Text());
    }
  } else if (key == cni::kAllocation) {
    values = {attachment.Allocation(), ShortId(attachment.Allocation())};
  } else if (key == cni::kJob) {
    values = {attachment.Label(key), cni::ParentJob(attachment.Label(key))};
  } else if (key == "net") {
    values = {attachment.id.network};
  } else if (key == "veth") {
    values = {attachment.host_veth};
  } else {
    values = {key == "state" ? std::string(Text(attachment.state)) : attachment.Label(key)};
  }
  return values;
}

Attachments FindAll(const Inventory& inventory, const Filters& filters) {
  std::map<std::string_view, std::set<const Attachment*>> found_by;
  for (const auto& filter : filters) {
    const bool is_name = filter.first.empty();
    const std::string_view key = is_name ? cni::kJob : filter.first;
    Attachments found = Select(
        inventory, [&](const Attachment& each) { return Matches(each, key, filter.second); });
    if (is_name && found.empty()) {
      found = FindNamed(inventory, filter.second);
    }
    found_by[key].insert(found.begin(), found.end());
  }
  return Select(inventory, [&](const Attachment& each) {
    return std::ranges::all_of(found_by,
                               [&](const auto& found) { return found.second.contains(&each); });
  });
}

Attachments FindOne(const Inventory& inventory, const std::string& word) {
  // One allocation may have attachments in several networks, and one port may be published on
  // several addresses of the node.
  return Find(inventory, word, [](const Attachment& one, const Attachment& other) {
    return one.id.container_id != other.id.container_id;
  });
}

Attachments FindOfOneJob(const Inventory& inventory, const std::string& word) {
  return Find(inventory, word, [](const Attachment& one, const Attachment& other) {
    const bool is_of_job = !one.Label(cni::kJob).empty() &&
                           one.Label(cni::kJob) == other.Label(cni::kJob) &&
                           one.Label(cni::kNamespace) == other.Label(cni::kNamespace);
    return one.id.container_id != other.id.container_id && !is_of_job;
  });
}

Attachments FindAlike(const Inventory& inventory, const std::string& word) {
  return Find(inventory, word, [](const Attachment& one, const Attachment& other) {
    return cni::WorkloadOf(one.labels) != cni::WorkloadOf(other.labels);
  });
}

}  // namespace nomad_bridge::cli
