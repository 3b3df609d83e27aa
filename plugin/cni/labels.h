// What an orchestrator calls an attachment: for people only. Identity is always the AttachmentId.
//
// Shapes  Keys and values as they came, any length, valid UTF-8: other bytes have become '?'.
//         Well-known keys, in any letter case, have short names where people read them:
//         NOMAD_JOB_ID job, NOMAD_GROUP_NAME group, NOMAD_NAMESPACE ns, NOMAD_ALLOC_ID alloc,
//         NOMAD_REGION region, K8S_POD_NAME pod, K8S_POD_NAMESPACE podns. Of other keys nobody
//         knows whether their values are secret: they are in the record alone, which only root can
//         read.
// Limits  A link alias holds 255 bytes, an nf_tables comment 128: both are cut at a character's
//         boundary, well-known keys first in the order above.
#pragma once

#include <compare>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/attachment_id.h"
#include "base/error.h"
#include "base/fix.h"
#include "base/ip.h"

namespace nomad_bridge::cni {

struct Label {
  std::string key;
  std::string value;

  bool operator==(const Label&) const = default;
};

using Labels = std::vector<Label>;

// Of labels with the same key, in any letter case, the last one stays; the order is kept.
[[nodiscard]] Labels LastOfEach(Labels labels);

// "job=billing group=api ns=prod alloc=5f3c1a2b-...", printable, whole: the well-known ones. Empty
// if there are none.
[[nodiscard]] std::string Describe(const Labels& labels);

// Short names, which `list` also has its filters by.
constexpr std::string_view kJob = "job";
constexpr std::string_view kGroup = "group";
constexpr std::string_view kNamespace = "ns";
constexpr std::string_view kAllocation = "alloc";

// The well-known ones under their short names, printable, those that are there.
using ShortLabels = std::map<std::string, std::string, std::less<>>;
[[nodiscard]] ShortLabels Shorten(const Labels& labels);
// What Describe() printed; the last one may have been cut.
[[nodiscard]] ShortLabels ParseDescribed(std::string_view text);

// What an allocation is one of: the group of a job in one of Nomad's namespaces. A label that is
// missing is empty.
struct Workload {
  std::string nomad_namespace;
  std::string job;
  std::string group;

  auto operator<=>(const Workload&) const = default;
};
[[nodiscard]] Workload WorkloadOf(const ShortLabels& labels);

// The job that Nomad made a periodic or dispatched one from: "batch" of
// "batch/dispatch-1700000000-8f2a7c1d" and of "batch/periodic-1700000000". Any other job's own.
[[nodiscard]] std::string ParentJob(const std::string& job);

// What the runtime has to do to a container: "nomad alloc stop 5f3c...". One is Nomad's by its
// labels, or, of releases of Nomad that give none, by an id as allocations have.
[[nodiscard]] Fix RuntimeFix(std::string_view verb,
                             const std::string& container_id,
                             const ShortLabels& labels);

// "job 'billing', group 'api', allocation '5f3c...'", for messages; without such labels "container
// '<id>'". Long values are cut.
[[nodiscard]] std::string NameOwner(const Labels& labels, const std::string& container_id);

// kConflict: "host port 80 is taken by job 'billing'", the owner's identity and address in the
// details.
[[nodiscard]] Error TakenBy(std::string_view what,
                            const AttachmentId& owner,
                            const Labels& labels,
                            const std::optional<Ip>& address);

}  // namespace nomad_bridge::cni
