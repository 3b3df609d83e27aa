#include "plugin/cli/named_attachments.h"

#include <algorithm>
#include <array>

#include "base/list.h"
#include "base/log.h"
#include "base/text.h"
#include "plugin/cli/attachment_view.h"
#include "plugin/cli/command.h"
#include "plugin/state/kernel_names.h"

namespace nomad_bridge::cli {
namespace {

constexpr std::size_t kMinBytes = 2;

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

// Finds attachments by published port, then by address, then by whole name, and at last by prefix.
// Only a prefix needs two characters: a job may be called 'z'.
Attachments FindNamed(const Inventory& inventory, const std::string& word) {
  const auto is_port = [&](const portmap::DnatEntry& port) {
    return std::to_string(port.host_port) == word;
  };
  Attachments found = Select(inventory, [&](const Attachment& each) {
    return each.record && std::ranges::any_of(each.record->rules.ports, is_port);
  });
  if (!found.empty()) {
    return found;
  }
  if (const std::optional<Ip> address = Ip::Parse(word)) {
    return Select(inventory, [&](const Attachment& each) {
      return each.record && Contains(AddressesOnly(each.record->ipam.addresses), *address);
    });
  }
  found = Select(inventory, [&](const Attachment& each) { return Contains(NamesOf(each), word); });
  if (!found.empty()) {
    return found;
  }
  if (word.size() < kMinBytes) {
    throw UsageError(Format("'{}' is too short for a prefix; allowed: 2 characters or more", word));
  }
  return Select(inventory, [&](const Attachment& each) {
    return std::ranges::any_of(NamesOf(each),
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

Attachments FindOne(const Inventory& inventory, const std::string& word) {
  // One allocation may have attachments in several networks, and one port may be published on
  // several addresses of the node.
  return Find(inventory, word, [](const Attachment& one, const Attachment& other) {
    return one.id.container_id != other.id.container_id;
  });
}

Attachments FindAlike(const Inventory& inventory, const std::string& word) {
  return Find(inventory, word, [](const Attachment& one, const Attachment& other) {
    return cni::WorkloadOf(one.labels) != cni::WorkloadOf(other.labels);
  });
}

}  // namespace nomad_bridge::cli
