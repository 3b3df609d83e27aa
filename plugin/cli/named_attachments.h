// Finds attachments by the words that operators type. All commands understand the same words.
//
// Names    a published port, an address, the name of a job or a group, JOB/GROUP, an id, an
//          interface on the host. Ids, jobs, groups and interfaces may be shortened to a prefix of
//          two or more characters.
// Filters  KEY=GLOB, or several with commas between: "ns=prod,job=web*". addr= also takes a subnet.
//          job= also finds the jobs that Nomad created from a periodic or dispatched job. Filters
//          with the same key are alternatives; filters with different keys must all match.
// Errors   UsageError for an unknown key, a value that nothing can have, and a prefix that is too
//          short. CannotTell if nothing has the name as far as we can see, but we are not root, or
//          records are lost.
// Owner    The inventory owns the attachments.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plugin/cli/inventory.h"

namespace nomad_bridge::cli {

constexpr std::array<std::string_view, 9> kFilterKeys =
    {"job", "ns", "group", "alloc", "net", "port", "addr", "veth", "state"};

// A key and a glob. A name has the key "".
using Filters = std::vector<std::pair<std::string, std::string>>;
using Attachments = std::vector<const Attachment*>;

// Parses a name, or filters with commas between.
[[nodiscard]] Filters ParseFilters(std::string_view word);

// Returns the values of `key` for an attachment; an attachment may have several addresses and
// ports.
[[nodiscard]] std::vector<std::string> ValuesOf(const Attachment& attachment, std::string_view key);

// Returns the attachments that match. A name is a glob for jobs if a job matches. Otherwise it may
// be any name. Names and filters for jobs are alternatives.
[[nodiscard]] Attachments FindAll(const Inventory& inventory, const Filters& filters);

// Returns the attachments of the one container that `word` names. Returns none, with a remark on
// stderr, if `word` names no container or several.
[[nodiscard]] Attachments FindOne(const Inventory& inventory, const std::string& word);

// Like FindOne(), but `word` may name all containers of one job.
[[nodiscard]] Attachments FindOfOneJob(const Inventory& inventory, const std::string& word);

// Returns the attachments of all containers that `word` names, if policies cannot tell the
// containers apart: same namespace, job and group. Otherwise returns none, with a remark on stderr.
[[nodiscard]] Attachments FindAlike(const Inventory& inventory, const std::string& word);

}  // namespace nomad_bridge::cli
