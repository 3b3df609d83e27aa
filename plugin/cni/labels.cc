#include "plugin/cni/labels.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <utility>

#include "base/text.h"

namespace nomad_bridge::cni {
namespace {

struct WellKnown {
  std::string_view key;  // lower case
  std::string_view name;
};

constexpr std::array<WellKnown, 7> kWellKnown = {{{"nomad_job_id", "job"},
                                                  {"nomad_group_name", "group"},
                                                  {"nomad_namespace", "ns"},
                                                  {"nomad_alloc_id", "alloc"},
                                                  {"nomad_region", "region"},
                                                  {"k8s_pod_name", "pod"},
                                                  {"k8s_pod_namespace", "podns"}}};

// How much of a label a message quotes.
constexpr std::size_t kMaxQuotedBytes = 80;

bool IsWellKnown(std::string_view key) {
  const std::string lower = Lower(key);
  return std::any_of(kWellKnown.begin(), kWellKnown.end(), [&](const WellKnown& known) {
    return known.key == lower;
  });
}

// The value under `key` (lower case); empty if there is none.
std::string_view ValueOf(const Labels& labels, std::string_view key) {
  for (const Label& label : labels) {
    if (label.key.size() == key.size() && Lower(label.key) == key) {
      return label.value;
    }
  }
  return {};
}

// An empty value is left out: room in a comment is scarce.
void AppendPair(std::string& text, std::string_view name, std::string_view value) {
  if (!value.empty()) {
    text += Cat(text.empty() ? "" : " ", Printable(name), '=', Printable(value));
  }
}

}  // namespace

// From the back, so that the first one met is kept; with a set, as CNI_ARGS may hold 32,000 pairs.
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
  std::string text;
  for (const WellKnown& known : kWellKnown) {
    AppendPair(text, known.name, ValueOf(labels, known.key));
  }
  for (const Label& label : labels) {
    if (!IsWellKnown(label.key)) {
      AppendPair(text, label.key, label.value);
    }
  }
  return text;
}

std::string NameOwner(const Labels& labels, const std::string& container_id) {
  // Enough to find the job; the other labels are in the link's alias.
  constexpr std::array<WellKnown, 4> kParts = {{{"nomad_job_id", "job"},
                                                {"nomad_group_name", "group"},
                                                {"nomad_alloc_id", "allocation"},
                                                {"k8s_pod_name", "pod"}}};
  std::string text;
  for (const WellKnown& part : kParts) {
    const std::string_view value = ValueOf(labels, part.key);
    if (!value.empty()) {
      text +=
          Cat(text.empty() ? "" : ", ", part.name, ' ', Quoted(Excerpt(value, kMaxQuotedBytes)));
    }
  }
  return text.empty() ? Cat("container ", Quoted(container_id)) : text;
}

}  // namespace nomad_bridge::cni
