// The names that an orchestrator gives an attachment. They are for people only: the AttachmentId is
// always the identity.
//
// Shapes  Keys and values are unchanged, of any length, and valid UTF-8: other bytes become '?'.
//         Well-known keys, in any letter case, have short names where people read them:
//         NOMAD_JOB_ID job, NOMAD_GROUP_NAME group, NOMAD_NAMESPACE ns, NOMAD_ALLOC_ID alloc,
//         NOMAD_REGION region, K8S_POD_NAME pod, K8S_POD_NAMESPACE podns. The values of other keys
//         may be secret, so only the record has them, which only root can read.
// Limits  A link alias holds 255 bytes, an nf_tables comment 128. Both are cut between two
//         characters, well-known keys first in the order above.
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

// Keeps the last of labels with the same key, in any letter case, and keeps the order.
[[nodiscard]] Labels LastOfEach(Labels labels);

// Returns the well-known labels, printable and not cut: "job=billing group=api ns=prod
// alloc=5f3c1a2b-...". Empty if there are none.
[[nodiscard]] std::string Describe(const Labels& labels);

// Short names. `list` has filters with the same names.
constexpr std::string_view kJob = "job";
constexpr std::string_view kGroup = "group";
constexpr std::string_view kNamespace = "ns";
constexpr std::string_view kAllocation = "alloc";

// The well-known labels that are present, printable, by their short names.
using ShortLabels = std::map<std::string, std::string, std::less<>>;
[[nodiscard]] ShortLabels Shorten(const Labels& labels);
// Returns what Describe() returns for the labels that these are short for.
[[nodiscard]] std::string DescribeShort(const ShortLabels& labels);
// Returns the same for link aliases and the comments of elements: a space in a value is "%20", and
// '%' is "%25". So no value can look like another label.
[[nodiscard]] std::string DescribeInWords(const Labels& labels);
// Parses the text of DescribeInWords(). The last value may have been cut.
[[nodiscard]] ShortLabels ParseDescribed(std::string_view text);

// The workload of an allocation: the group of a job in one of Nomad's namespaces. A missing label
// is empty.
struct Workload {
  std::string nomad_namespace;
  std::string job;
  std::string group;

  auto operator<=>(const Workload&) const = default;
};
[[nodiscard]] Workload WorkloadOf(const ShortLabels& labels);

// Returns the job from which Nomad created a periodic or dispatched job: "batch" for
// "batch/dispatch-1700000000-8f2a7c1d" and for "batch/periodic-1700000000". Returns any other job
// unchanged.
[[nodiscard]] std::string ParentJob(const std::string& job);

// Returns the command for the container's runtime: "nomad alloc stop 5f3c...". A container is
// Nomad's if its labels say so, or if its id looks like an allocation's: some releases of Nomad set
// no labels.
[[nodiscard]] Fix RuntimeFix(std::string_view verb,
                             const std::string& container_id,
                             const ShortLabels& labels);

// Returns "job 'billing', group 'api', allocation '5f3c...'", for messages; without such labels
// "container '<id>'". Cuts long values.
[[nodiscard]] std::string NameOwner(const Labels& labels, const std::string& container_id);

// Returns kConflict: "host port 80 is taken by job 'billing'", with the owner's identity and
// address in the details.
[[nodiscard]] Error TakenBy(std::string_view what,
                            const AttachmentId& owner,
                            const Labels& labels,
                            const std::optional<Ip>& address);

}  // namespace nomad_bridge::cni
