#include "plugin/cni/labels.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include <fnmatch.h>

#include "base/text.h"

namespace nomad_bridge::cni {
namespace {

struct WellKnown {
  std::string_view key;         // lower case
  std::string_view name;        // in aliases and comments
  std::string_view owner_name;  // in messages; empty if it does not help to find the job
};

constexpr std::array<WellKnown, 7> kWellKnown = {{{"nomad_job_id", kJob, "job"},
                                                  {"nomad_group_name", kGroup, "group"},
                                                  {"nomad_namespace", kNamespace, ""},
                                                  {"nomad_alloc_id", kAllocation, "allocation"},
                                                  {"nomad_region", "region", ""},
                                                  {"k8s_pod_name", "pod", "pod"},
                                                  {"k8s_pod_namespace", "podns", ""}}};

// How many bytes of a label a message quotes.
constexpr std::size_t kMaxQuotedBytes = 80;

// Returns the value under `key` (lower case); empty if there is none.
std::string_view ValueOf(const Labels& labels, std::string_view key) {
  for (const Label& label : labels) {
    if (EqualIgnoringCase(label.key, key)) {
      return label.value;
    }
  }
  return {};
}

constexpr std::array<std::pair<char, std::string_view>, 2> kCodes = {{{' ', "%20"}, {'%', "%25"}}};

std::string Encoded(std::string_view value) {
  std::string text;
  for (const char byte : value) {
    const auto* const code =
        std::ranges::find(kCodes, byte, &std::pair<char, std::string_view>::first);
    text += code != kCodes.end() ? code->second : std::string_view(&byte, 1);
  }
  return text;
}

std::string Decoded(std::string_view text) {
  std::string value;
  for (std::size_t at = 0; at < text.size();) {
    const auto* const code =
        std::ranges::find(kCodes, text.substr(at, 3), &std::pair<char, std::string_view>::second);
    value += code != kCodes.end() ? code->first : text[at];
    at += code != kCodes.end() ? code->second.size() : 1;
  }
  return value;
}

}  // namespace

// Goes from the back and keeps the first label of each key. Uses a set, because CNI_ARGS may hold
// 32,000 pairs.
Labels LastOfEach(Labels labels) {
  std::set<std::string> seen;
  Labels kept;
  std::for_each(labels.rbegin(), labels.rend(), [&](Label& label) {
    if (seen.insert(Lower(label.key)).second) {
      kept.push_back(std::move(label));
    }
  });
  std::reverse(kept.begin(), kept.end());
  return kept;
}

std::string Describe(const Labels& labels) {
  return DescribeShort(Shorten(labels));
}

std::string DescribeShort(const ShortLabels& labels) {
  std::string text;
  for (const WellKnown& known : kWellKnown) {
    if (const auto found = labels.find(known.name); found != labels.end()) {
      text += Cat(text.empty() ? "" : " ", known.name, '=', found->second);
    }
  }
  return text;
}

ShortLabels Shorten(const Labels& labels) {
  ShortLabels all;
  for (const WellKnown& known : kWellKnown) {
    // Leaves out an empty value, because a comment has little room.
    if (const std::string_view value = ValueOf(labels, known.key); !value.empty()) {
      all.emplace(known.name, Printable(value));
    }
  }
  return all;
}

std::string DescribeInWords(const Labels& labels) {
  ShortLabels all = Shorten(labels);
  for (auto& each : all) {
    each.second = Encoded(each.second);
  }
  return DescribeShort(all);
}

// The first word with a name counts.
ShortLabels ParseDescribed(std::string_view text) {
  ShortLabels all;
  while (!text.empty()) {
    std::string_view value = TakeUntil(' ', text);
    const std::string_view name = TakeUntil('=', value);
    if (std::ranges::find(kWellKnown, name, &WellKnown::name) != kWellKnown.end()) {
      all.emplace(name, Decoded(value));
    }
  }
  return all;
}

Workload WorkloadOf(const ShortLabels& labels) {
  const auto label = [&](std::string_view name) {
    const auto found = labels.find(name);
    return found != labels.end() ? found->second : "";
  };
  return {.nomad_namespace = label(kNamespace), .job = label(kJob), .group = label(kGroup)};
}

// A job that is both periodic and dispatched has two such suffixes.
std::string ParentJob(const std::string& job) {
  return job.substr(0, std::min(job.find("/periodic-"), job.find("/dispatch-")));
}

Fix RuntimeFix(std::string_view verb, const std::string& container_id, const ShortLabels& labels) {
  constexpr std::size_t kAllocationIdLength = 36;
  const bool is_nomads = labels.contains(kJob) || labels.contains(kAllocation) ||
                         (container_id.size() == kAllocationIdLength &&
                          ::fnmatch("*-*-*-*-*", container_id.c_str(), 0) == 0);
  return is_nomads ? Fix(Format("nomad alloc {} {}", verb, ShellWord(container_id)))
                   : Fix::Advice(Format("restart container '{}' by the program that runs it",
                                        container_id));
}

std::string NameOwner(const Labels& labels, const std::string& container_id) {
  std::string text;
  for (const WellKnown& known : kWellKnown) {
    const std::string_view value = ValueOf(labels, known.key);
    if (!value.empty() && !known.owner_name.empty()) {
      text += Cat(text.empty() ? "" : ", ", known.owner_name, ' ');
      text += Quoted(Excerpt(value, kMaxQuotedBytes));
    }
  }
  return text.empty() ? Format("container '{}'", container_id) : text;
}

Error TakenBy(std::string_view what,
              const AttachmentId& owner,
              const Labels& labels,
              const std::optional<Ip>& address) {
  return {Code::kConflict,
          Format("{} is taken by {}", what, NameOwner(labels, owner.container_id)),
          Format("network '{}', container '{}', interface '{}'{}",
                 owner.network,
                 owner.container_id,
                 owner.ifname,
                 address ? Cat(", address ", *address) : "")};
}

}  // namespace nomad_bridge::cni
